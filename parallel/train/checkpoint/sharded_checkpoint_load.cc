// Reads a checkpoint's files. For their contents, see sharded_checkpoint.cc.

#include <future>
#include <optional>
#include <span>
#include <utility>

#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/nn/checkpoint/generation.h"
#include "ringrad/nn/checkpoint/tensor_file.h"
#include "ringrad/parallel/comm/same_text.h"
#include "ringrad/parallel/train/checkpoint/checkpoint_agreement.h"
#include "ringrad/parallel/train/checkpoint/checkpoint_folder.h"
#include "ringrad/parallel/train/checkpoint/sharded_checkpoint.h"
#include "ringrad/parallel/train/common/on_root.h"

namespace ringrad {
namespace {

// How often another job may save while this one reads.
constexpr int kMostAttempts = 100;

void check_file(const std::filesystem::path& folder, const CheckpointIndex::File& file,
                Where where) {
  const auto facts = nn::tensor_file_facts(folder / file.name);
  RINGRAD_CHECK(facts && facts->num_bytes == file.num_bytes && facts->crc32 == file.crc32,
                DataError, where, "load: ", (folder / file.name).string(), " must be the file of ",
                file.num_bytes, " bytes that the index means; got ",
                facts ? concat("another of ", facts->num_bytes) : "none");
}

std::span<std::byte> bytes_of(const Tensor& x) {
  return {x.raw_data(), static_cast<std::size_t>(x.numel()) * size_bytes(x.dtype())};
}

}  // namespace

// Another job's save may remove the files that an index names while they are read. The folder then
// has another index, and reading starts again with that one.
bool ShardedCheckpoint::load(const std::filesystem::path& folder, Where where) {
  wait(where);
  std::string text = index_of_root(folder, where);
  for (int attempt = 1; !text.empty(); ++attempt) {
    const CheckpointIndex index = parse_checkpoint_index(text, where);
    nn::StateDict staged;
    std::vector<Piece> pieces;
    on_all_ranks(comm_, where, [&] {
      staged = staged_for(index, where);
      pieces = pieces_of(staged, where);
    });
    check_layouts(index, pieces, where);
    std::optional<DataError> failure;
    try {
      read_on_all_ranks(folder, index, pieces, where);
    } catch (const DataError& error) {
      failure = error;
    }
    if (!failure) {
      set_state(std::move(staged), where);
      nn::continue_from_generation(index.generation);
      agree_on_generation(comm_, where);
      return true;
    }
    const std::string next = index_of_root(folder, where);
    if (next.empty() || next == text || attempt == kMostAttempts) throw *failure;
    text = next;
  }
  return false;
}

// The text of rank 0's index, whose files are there.
std::string ShardedCheckpoint::index_of_root(const std::filesystem::path& folder,
                                             Where where) const {
  std::string text;
  const auto read = [&] {
    IndexFile file = read_index(folder, where);
    for (int attempt = 1; !file.text.empty(); ++attempt) {
      const CheckpointIndex index = parse_index(file, where);
      try {
        for (const CheckpointIndex::File& named : index.files) check_file(folder, named, where);
        break;
      } catch (const DataError&) {
        IndexFile next = read_index(folder, where);
        if (next.text.empty() || next.text == file.text || attempt == kMostAttempts) throw;
        file = std::move(next);
      }
    }
    text = file.text;
  };
  on_root<DataError>(comm_, where, read, options_.deadline);
  return text_of_root(text, comm_, where);
}

void ShardedCheckpoint::read_on_all_ranks(const std::filesystem::path& folder,
                                          const CheckpointIndex& index,
                                          const std::vector<Piece>& pieces, Where where) const {
  std::future<std::string> error;
  on_all_ranks(comm_, where, [&] {
    error = std::async(std::launch::async, [&] {
      return error_of([&] { read_pieces(folder, index, pieces, where); });
    });
  });
  await_all(
      "the reading of a checkpoint",
      [&](std::chrono::nanoseconds patience) {
        return error.wait_for(patience) == std::future_status::ready;
      },
      comm_, options_.deadline, where);
  throw_of_any(error.get(), comm_, where);
}

// Checks the pieces of all ranks, so that all ranks throw the same.
void ShardedCheckpoint::check_layouts(const CheckpointIndex& index,
                                      const std::vector<Piece>& pieces, Where where) const {
  std::vector<PieceFacts> own;
  std::map<std::string, OtherRanks> rules;
  for (const Piece& piece : pieces) {
    own.push_back(piece.facts);
    rules.emplace(piece.facts.name, piece.other_ranks);
  }
  std::map<std::string, PieceFacts> wanted;
  for (const auto& facts : facts_of_all(own, comm_, where))
    for (const PieceFacts& one : facts) wanted.emplace(one.name, one);
  std::string missing, unexpected;
  for (const auto& [name, facts] : wanted)
    if (!index.tensors.contains(name)) missing += ' ' + name;
  for (const auto& [name, entry] : index.tensors)
    if (!wanted.contains(name)) unexpected += ' ' + quoted_bytes(name);
  RINGRAD_CHECK(missing.empty() && unexpected.empty(), ValueError, where,
                "load_checkpoint: names must match; missing:", missing.empty() ? " none" : missing,
                "; unexpected:", unexpected.empty() ? " none" : unexpected);
  for (const auto& [name, facts] : wanted) {
    const CheckpointIndex::Entry& entry = index.tensors.at(name);
    RINGRAD_CHECK(entry.dtype == facts.dtype, DTypeError, where, "load_checkpoint: ", name,
                  " must be ", facts.dtype, "; got ", entry.dtype);
    Shape shape = facts.shape;
    const bool is_per_rank = facts.spread == Spread::per_rank && !entry.shape.empty();
    const auto rule = rules.find(name);
    const bool is_refused = rule != rules.end() && rule->second == OtherRanks::refuse;
    if (is_per_rank && !is_refused) shape[0] = entry.shape[0];
    RINGRAD_CHECK(entry.shape == shape, ShapeError, where, "load_checkpoint: ", name, " must be ",
                  shape, is_per_rank ? ", a row for each rank" : "", "; got ", entry.shape);
  }
}

// Copies what a piece needs from one that a file holds.
void ShardedCheckpoint::take(const Piece& piece, const CheckpointIndex::Entry& entry,
                             const TensorSlice& from, const Tensor& given, Where where) const {
  if (!is_mean_of_others(piece, entry)) {
    copy_common(bytes_of(piece.tensor), piece.facts.slice, bytes_of(given), from,
                entry.shape.numel(), size_bytes(piece.facts.dtype));
    return;
  }
  RINGRAD_CHECK(from.numel() == piece.tensor.numel(), DataError, where, "load: each rank's own ",
                quoted_bytes(piece.facts.name), " must be one piece; got pieces of ", from.numel(),
                " elements for ", piece.tensor.numel());
  if (is_floating(given.dtype()))
    kernels::add_(piece.tensor, given, 1.0 / static_cast<double>(entry.shape[0]), where);
  else if (from.begin == 0)
    kernels::copy_(piece.tensor, given, where);
}

bool ShardedCheckpoint::is_mean_of_others(const Piece& piece,
                                          const CheckpointIndex::Entry& entry) const {
  return piece.facts.spread == Spread::per_rank && piece.other_ranks == OtherRanks::mean &&
         entry.shape[0] != comm_.world_size();
}

// False for a rank that did not exist when per-rank state was saved, and keeps its own.
bool ShardedCheckpoint::needs(const Piece& piece, const CheckpointIndex::Entry& entry,
                              const TensorSlice& from) const {
  const TensorSlice& slice = piece.facts.slice;
  if (slice.numel() == 0 || from.numel() == 0) return false;
  if (is_mean_of_others(piece, entry)) return true;
  if (slice.rows == 1 && slice.end > entry.shape.numel()) return false;
  return from.rows != slice.rows || (slice.begin < from.end && from.begin < slice.end);
}

// Reads each file once, and only if it has something for this rank.
void ShardedCheckpoint::read_pieces(const std::filesystem::path& folder,
                                    const CheckpointIndex& index, const std::vector<Piece>& pieces,
                                    Where where) const {
  for (const Piece& piece : pieces)
    if (is_mean_of_others(piece, index.tensors.at(piece.facts.name)))
      kernels::copy_(piece.tensor, zeros({}, {.dtype = piece.facts.dtype, .device = Device()}),
                     where);
  for (int f = 0; f < static_cast<int>(index.files.size()); ++f) {
    const CheckpointIndex::File& file = index.files[static_cast<std::size_t>(f)];
    nn::StateDict tensors;
    for (const Piece& piece : pieces) {
      const std::string& name = piece.facts.name;
      const CheckpointIndex::Entry& entry = index.tensors.at(name);
      for (const CheckpointIndex::Piece& there : entry.pieces) {
        const TensorSlice from{entry.rows, there.begin, there.end};
        if (there.file != f || !needs(piece, entry, from)) continue;
        if (tensors.empty()) {
          check_file(folder, file, where);
          tensors = nn::read_tensors(folder / file.name, where);
        }
        const auto found = tensors.find(name_in_file(name, from, entry.shape));
        RINGRAD_CHECK(found != tensors.end() && found->second.dtype() == entry.dtype &&
                          found->second.numel() == from.numel(),
                      DataError, where, "load: ", (folder / file.name).string(),
                      " must hold what the index says; got no such piece of ", quoted_bytes(name));
        take(piece, entry, from, found->second, where);
      }
    }
  }
}

}  // namespace ringrad
