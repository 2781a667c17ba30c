#include "ringrad/parallel/train/checkpoint/checkpoint_index.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "ringrad/core/untrusted/json.h"
#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/nn/checkpoint/generation.h"
#include "ringrad/nn/checkpoint/tensor_file.h"
#include "ringrad/parallel/comm/common/rank_names.h"

namespace ringrad {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 4> kSpreads = {"replicated", "sharded", "owned", "per_rank"};
constexpr std::string_view kFormat = "ringrad checkpoint";
constexpr int kVersion = 1;
constexpr std::string_view kFront = R"({"crc32":")", kNoDigits = "00000000";
constexpr int kMostDepth = 5;  // the index, its tensors, a tensor, its pieces, a piece
constexpr std::size_t kMostNameBytes = 4096, kMostFiles = 65536;
constexpr std::int64_t kMostElements = std::int64_t{1} << 58,
                       kMostFileBytes = std::int64_t{1} << 46;

std::uint32_t crc_of(std::string_view text) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

Json extents_of(const Shape& shape) {
  return std::vector<std::int64_t>(shape.begin(), shape.end());
}

// --- Reading ---

struct Refused {
  std::string rule;
};

void require(bool holds, const char* rule, std::string_view at = {}) {
  if (!holds)
    throw Refused{concat(rule, at.empty() ? "" : " in ", at.empty() ? "" : quoted_bytes(at))};
}

const Json& member(const Json& object, const char* name) {
  require(object.is_object(), "an object");
  const auto found = object.find(name);
  require(found != object.end(), "a member", name);
  return *found;
}

std::int64_t number(const Json& value, std::int64_t least, std::int64_t most, const char* what) {
  require(value.is_number_unsigned(), "a whole number", what);
  const auto given = value.get<std::uint64_t>();
  require(given <= static_cast<std::uint64_t>(most) && static_cast<std::int64_t>(given) >= least,
          "a number within its bounds", what);
  return static_cast<std::int64_t>(given);
}

std::string text_member(const Json& object, const char* name) {
  const Json& value = member(object, name);
  require(value.is_string() && value.get_ref<const std::string&>().size() <= kMostNameBytes,
          "a text", name);
  return value.get<std::string>();
}

Shape shape_of(const Json& list) {
  require(list.is_array() && list.size() <= kMaxDims, "a shape");
  std::vector<std::int64_t> extents;
  std::int64_t product = 1;
  for (const Json& extent : list) {
    extents.push_back(number(extent, 0, kMostElements, "shape"));
    require(!__builtin_mul_overflow(product, std::max<std::int64_t>(extents.back(), 1), &product) &&
                product <= kMostElements,
            "a shape of fewer elements");
  }
  return Shape(extents);
}

DType dtype_of_json(const Json& object) {
  const auto dtype = nn::dtype_of_name(text_member(object, "dtype"));
  require(dtype.has_value(), "a dtype");
  return *dtype;
}

Spread spread_of(const Json& object) {
  const auto* const found =
      std::find(kSpreads.begin(), kSpreads.end(), text_member(object, "spread"));
  require(found != kSpreads.end(), "a spread");
  return static_cast<Spread>(found - kSpreads.begin());
}

std::int64_t rows_of(const Json& object, const Shape& shape) {
  const std::int64_t rows = number(member(object, "rows"), 1, kMostElements, "rows");
  require(shape.numel() % rows == 0, "rows that divide the elements");
  return rows;
}

// True if the pieces adjoin, from the first column to the last.
bool is_cover(const std::vector<CheckpointIndex::Piece>& pieces, std::int64_t columns) {
  std::int64_t end = 0;
  for (const CheckpointIndex::Piece& piece : pieces)
    if (piece.begin != std::exchange(end, piece.end) || piece.end < piece.begin) return false;
  return end == columns && !pieces.empty();
}

CheckpointIndex::Entry entry_of(const Json& object,
                                const std::vector<CheckpointIndex::File>& files) {
  const std::int64_t num_files = std::ssize(files);
  std::uint64_t num_bytes = 0;
  for (const CheckpointIndex::File& file : files) num_bytes += file.num_bytes;
  CheckpointIndex::Entry entry{.dtype = dtype_of_json(object),
                               .shape = shape_of(member(object, "shape")),
                               .spread = spread_of(object),
                               .pieces = {}};
  entry.rows = rows_of(object, entry.shape);
  // Readers allocate this much, so the files must hold at least as much.
  require(static_cast<std::uint64_t>(entry.shape.numel()) * size_bytes(entry.dtype) <= num_bytes,
          "files as large as their tensors");
  const Json& pieces = member(object, "pieces");
  require(pieces.is_array(), "a list of pieces");
  for (const Json& piece : pieces) {
    require(piece.is_array() && piece.size() == 3, "pieces of three numbers");
    entry.pieces.push_back({static_cast<int>(number(piece[0], 0, num_files - 1, "a piece's file")),
                            number(piece[1], 0, kMostElements, "a piece"),
                            number(piece[2], 0, kMostElements, "a piece")});
  }
  require(is_cover(entry.pieces, entry.shape.numel() / entry.rows),
          "pieces that cover the tensor once");
  return entry;
}

CheckpointIndex::File file_of(const Json& object) {
  CheckpointIndex::File file{text_member(object, "name"),
                             static_cast<std::uint64_t>(number(member(object, "bytes"), 0,
                                                               kMostFileBytes, "bytes of a file")),
                             text_member(object, "crc32")};
  // A plain file name: no index may point outside its folder.
  require(
      !file.name.empty() && file.name[0] != '.' &&
          file.name.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz.") == std::string::npos,
      "files of this folder");
  return file;
}

CheckpointIndex index_of(std::string_view text) {
  const std::size_t fixed = kFront.size() + kNoDigits.size();
  require(text.size() <= kMostIndexBytes, "fewer bytes");
  require(text.size() > fixed && text.starts_with(kFront), "its checksum at the front");
  std::string plain(text);
  plain.replace(kFront.size(), kNoDigits.size(), kNoDigits);
  require(nn::crc_digits(crc_of(plain)) == text.substr(kFront.size(), kNoDigits.size()),
          "a checksum that matches");
  const Json json = parse_untrusted_json(text, {.depth = kMostDepth, .bytes = kMostIndexBytes});
  require(text_member(json, "format") == kFormat, "this format");
  require(number(member(json, "version"), 0, kMostElements, "version") == kVersion, "version 1");
  CheckpointIndex index;
  index.generation = number(member(json, "generation"), 1, nn::kLastGeneration, "generation");
  index.save = text_member(json, "save");
  require(member(json, "files").is_array() && member(json, "files").size() <= kMostFiles,
          "a list of files");
  for (const Json& file : member(json, "files")) index.files.push_back(file_of(file));
  const Json& tensors = member(json, "tensors");
  require(tensors.is_object(), "tensors by name");
  for (const auto& [name, entry] : tensors.items()) {
    require(name.size() <= kMostNameBytes, "shorter names");
    index.tensors.emplace(name, entry_of(entry, index.files));
  }
  return index;
}

}  // namespace

CheckpointIndex parse_checkpoint_index(std::string_view text, Where where) {
  try {
    return index_of(text);
  } catch (const Refused& refused) {
    throw DataError(concat("checkpoint: its index must have ", refused.rule, "; got ", text.size(),
                           " bytes without"),
                    where);
  } catch (const std::invalid_argument& error) {
    throw DataError(concat("checkpoint: its index ", error.what()), where);
  }
}

std::string CheckpointIndex::text() const {
  nlohmann::ordered_json json{{"crc32", kNoDigits},
                              {"format", kFormat},
                              {"version", kVersion},
                              {"generation", generation},
                              {"save", save}};
  json["files"] = Json::array();
  for (const File& file : files)
    json["files"].push_back(
        {{"name", file.name}, {"bytes", file.num_bytes}, {"crc32", file.crc32}});
  json["tensors"] = Json::object();
  for (const auto& [name, entry] : tensors) {
    Json pieces = Json::array();
    for (const Piece& piece : entry.pieces) pieces.push_back({piece.file, piece.begin, piece.end});
    json["tensors"][name] = {{"dtype", nn::dtype_name(entry.dtype)},
                             {"shape", extents_of(entry.shape)},
                             {"spread", kSpreads[static_cast<std::size_t>(entry.spread)]},
                             {"rows", entry.rows},
                             {"pieces", std::move(pieces)}};
  }
  std::string text = json.dump();
  return text.replace(kFront.size(), kNoDigits.size(), nn::crc_digits(crc_of(text)));
}

// --- Pieces ---

TensorSlice slice_along(const Shape& shape, int axis, std::int64_t begin, std::int64_t end) {
  if (shape.numel() == 0) return {};
  std::int64_t rows = 1, inner = 1;
  for (int a = 0; a < axis; ++a) rows *= shape[a];
  for (int a = axis + 1; a < shape.size(); ++a) inner *= shape[a];
  return {rows, begin * inner, end * inner};
}

TensorSlice whole_slice(const Shape& shape) { return {1, 0, shape.numel()}; }

void copy_common(std::span<std::byte> to, const TensorSlice& to_slice,
                 std::span<const std::byte> from, const TensorSlice& from_slice, std::int64_t numel,
                 std::size_t element_bytes) {
  const std::int64_t to_columns = numel / to_slice.rows, from_columns = numel / from_slice.rows;
  const std::int64_t to_width = to_slice.end - to_slice.begin,
                     from_width = from_slice.end - from_slice.begin;
  const auto bytes = static_cast<std::int64_t>(element_bytes);
  // Walks both slices' rows in the order of their elements, and advances the row that ends first.
  for (std::int64_t i = 0, j = 0; i < to_slice.rows && j < from_slice.rows;) {
    const std::int64_t to_first = i * to_columns + to_slice.begin,
                       from_first = j * from_columns + from_slice.begin;
    const std::int64_t begin = std::max(to_first, from_first);
    const std::int64_t end = std::min(to_first + to_width, from_first + from_width);
    if (begin < end)
      std::memcpy(to.data() + (i * to_width + begin - to_first) * bytes,
                  from.data() + (j * from_width + begin - from_first) * bytes,
                  static_cast<std::size_t>((end - begin) * bytes));
    if (to_first + to_width < from_first + from_width)
      ++i;
    else
      ++j;
  }
}

std::string name_in_file(const std::string& tensor, const TensorSlice& slice, const Shape& shape) {
  return slice == whole_slice(shape) ? tensor : concat(tensor, '@', slice.begin);
}

namespace {

struct Holder {
  int rank;
  const PieceFacts* facts;
};

// Merges all ranks' reports on one tensor.
CheckpointIndex::Entry merge(const std::string& name, const std::vector<Holder>& holders,
                             int world_size, Where where) {
  const PieceFacts& first = *holders.front().facts;
  const auto fail = [&](const char* rule, const std::vector<int>& ranks) {
    throw ValueError(concat("save_checkpoint: ", quoted_bytes(name), ' ', rule, "; got ",
                            RankNames().list(ranks)),
                     where);
  };
  std::vector<int> others, different, twice, ranks;
  std::map<std::pair<std::int64_t, std::int64_t>, const Holder*> distinct;
  for (const Holder& holder : holders) {
    const PieceFacts& facts = *holder.facts;
    if (ranks.empty() || ranks.back() != holder.rank) ranks.push_back(holder.rank);
    if (facts.dtype != first.dtype || !(facts.shape == first.shape) ||
        facts.slice.rows != first.slice.rows || facts.spread != first.spread)
      others.push_back(holder.rank);
    const auto [known, is_new] =
        distinct.emplace(std::pair(facts.slice.begin, facts.slice.end), &holder);
    if (!is_new && known->second->rank == holder.rank) twice.push_back(holder.rank);
    if (!is_new && facts.crc != known->second->facts->crc) different.push_back(holder.rank);
  }
  if (!others.empty())
    fail(
        "must have one dtype, shape and way to be spread on all ranks; others than the lowest "
        "rank's",
        others);
  if (!twice.empty()) fail("must be on a rank's list once; it is there twice on", twice);
  if (!different.empty())
    fail(
        "must have equal copies, or be declared as spread over ranks (sharded_checkpoint.h); "
        "contents that differ from the lowest rank's",
        different);
  if (first.spread == Spread::replicated && std::ssize(ranks) != world_size)
    fail("must be on all ranks; it is only on", ranks);
  CheckpointIndex::Entry entry{first.dtype, first.shape, first.spread, first.slice.rows, {}};
  for (const auto& [range, holder] : distinct)
    entry.pieces.push_back({holder->rank, range.first, range.second});
  if (!is_cover(entry.pieces, first.shape.numel() / first.slice.rows))
    fail("must be covered by its pieces once; pieces that leave gaps or overlap on", ranks);
  return entry;
}

}  // namespace

std::map<std::string, CheckpointIndex::Entry> merge_pieces(
    const std::vector<std::vector<PieceFacts>>& by_rank, Where where) {
  std::map<std::string, std::vector<Holder>> holders;
  for (int rank = 0; rank < static_cast<int>(by_rank.size()); ++rank)
    for (const PieceFacts& facts : by_rank[static_cast<std::size_t>(rank)])
      holders[facts.name].push_back({rank, &facts});
  std::map<std::string, CheckpointIndex::Entry> entries;
  for (const auto& [name, all] : holders)
    entries.emplace(name, merge(name, all, static_cast<int>(by_rank.size()), where));
  return entries;
}

std::string text_of(const std::vector<PieceFacts>& pieces) {
  Json list = Json::array();
  for (const PieceFacts& piece : pieces)
    list.push_back({piece.name, static_cast<int>(piece.dtype), extents_of(piece.shape),
                    piece.slice.rows, piece.slice.begin, piece.slice.end,
                    static_cast<int>(piece.spread), piece.crc});
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Parses the report of a rank of this job.
std::vector<PieceFacts> parse_pieces(std::string_view text) {
  std::vector<PieceFacts> pieces;
  for (const Json& piece : Json::parse(text))
    pieces.push_back(
        {piece[0].get<std::string>(),
         static_cast<DType>(piece[1].get<int>()),
         Shape(piece[2].get<std::vector<std::int64_t>>()),
         {piece[3].get<std::int64_t>(), piece[4].get<std::int64_t>(), piece[5].get<std::int64_t>()},
         static_cast<Spread>(piece[6].get<int>()),
         piece[7].get<std::uint32_t>()});
  return pieces;
}

}  // namespace ringrad
