#include "ringrad/parallel/train/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "ringrad/core/file/atomic_file.h"
#include "ringrad/nn/checkpoint/generation.h"

namespace ringrad {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexName = "index.json";  // of earlier versions of the library
constexpr std::string_view kIndexSuffix = ".index.json", kTensorsSuffix = ".safetensors";
constexpr std::size_t kDigits = nn::kGenerationDigits;

// "00001767225600000000.6b5fc1d2.": names have equal length and begin with their generation.
std::string prefix_of(const CheckpointIndex& index) {
  return nn::generation_digits(index.generation) + '.' + index.save + '.';
}

std::string index_name(std::int64_t generation) {
  return nn::generation_digits(generation) + std::string(kIndexSuffix);
}

bool begins_with_generation(std::string_view name) {
  return name.find_first_not_of("0123456789") == kDigits;
}

struct IndexNames {
  bool has_old = false;  // "index.json"
  std::string latest;    // of those with a generation; empty if there is none
  bool is_empty = true;  // the folder
};

IndexNames index_names(const fs::path& folder, Where where) {
  IndexNames names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    names.is_empty = false;
    if (name == kIndexName) names.has_old = true;
    if (name.size() == kDigits + kIndexSuffix.size() && name.ends_with(kIndexSuffix) &&
        begins_with_generation(name))
      names.latest = std::max(names.latest, name);
  }
  // A file, or a link that leads nowhere, may have its name; or the folder is made meanwhile.
  std::error_code ignored;
  const auto type = fs::symlink_status(folder, ignored).type();
  const bool is_absent =
      (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) &&
      (type == fs::file_type::not_found || type == fs::file_type::directory);
  RINGRAD_CHECK(!error || is_absent, DataError, where, "load: ", folder.string(),
                " must be a folder that can be read; got ", error.message());
  return names;
}

// Nothing if another process has removed it meanwhile. A link that leads nowhere stays.
std::optional<std::string> text_of_file(const fs::path& path, Where where) {
  const auto check = [&](bool holds, const char* rule, std::string_view got) {
    RINGRAD_CHECK(holds, DataError, where, "load: ", path.string(), " must ", rule, "; got ", got);
  };
  std::error_code error;  // opening a pipe would wait for a writer
  const auto type = fs::status(path, error).type();
  if (type == fs::file_type::not_found) {
    check(!fs::is_symlink(fs::symlink_status(path, error)), "be a file",
          "a link that leads nowhere");
    return std::nullopt;
  }
  check(type == fs::file_type::regular, "be a file", error ? error.message() : "something else");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file && errno == ENOENT) return std::nullopt;
  std::string text;
  for (char block[4096]; file.read(block, sizeof block) || file.gcount() > 0;) {
    text.append(block, static_cast<std::size_t>(file.gcount()));
    check(text.size() <= kMostIndexBytes, "have at most 16 MiB", "more");
  }
  check(!text.empty(), "be readable", "nothing");
  return text;
}

// That of earlier versions counts if its generation is later, or cannot be read.
bool counts_beside(const std::string& old_text, const std::string& latest) {
  try {
    return index_name(parse_checkpoint_index(old_text).generation) > latest;
  } catch (const DataError&) {
    return true;
  }
}

}  // namespace

// A scan of a folder need not see a name that is added during the scan, and in this time an earlier
// generation's index may be removed. So no index counts as none only when it was so repeatedly.
IndexFile read_index(const fs::path& folder, Where where) {
  constexpr int kScans = 3;
  for (int scans_without = 0; scans_without < kScans;) {
    const IndexNames names = index_names(folder, where);
    if (names.is_empty) break;
    std::optional<std::string> old_text, text;
    if (names.has_old) old_text = text_of_file(folder / kIndexName, where);
    if (old_text && (names.latest.empty() || counts_beside(*old_text, names.latest)))
      return {folder / kIndexName, *old_text};
    if (!names.latest.empty()) text = text_of_file(folder / names.latest, where);
    if (text) return {folder / names.latest, *text};
    if (!names.has_old && names.latest.empty()) ++scans_without;
  }
  return {};
}

CheckpointIndex parse_index(const IndexFile& file, Where where) {
  try {
    CheckpointIndex index = parse_checkpoint_index(file.text, where);
    const std::string name = file.path.filename(), wanted = index_name(index.generation);
    RINGRAD_CHECK(name == kIndexName || name == wanted, DataError, where,
                  "checkpoint: its index must have the name of its generation, ", wanted, "; got ",
                  name);
    return index;
  } catch (DataError& error) {
    error.add_context(concat("in ", file.path.string()));
    throw;
  }
}

void refuse_later(const fs::path& folder, std::int64_t generation, Where where) {
  std::int64_t there = 0;
  try {
    const IndexFile file = read_index(folder, where);
    if (!file.text.empty()) there = parse_index(file, where).generation;
  } catch (const DataError& error) {
    throw DataError(concat("save: ", folder.string(),
                           "/*.index.json must be readable, or removed, because it "
                           "may be of a later run; got: ",
                           error.message()),
                    where);
  }
  RINGRAD_CHECK(there <= generation, DataError, where, "save: ", folder.string(),
                " must be of this run or an earlier one; got generation ", there, ", later than ",
                generation);
}

// A later index that appears after the first check has a greater name, so ours does not count.
void write_index(const fs::path& folder, const CheckpointIndex& index, Where where) {
  const std::string text = index.text();
  RINGRAD_CHECK(text.size() <= kMostIndexBytes, DataError, where,
                "save: the index must have at most ", kMostIndexBytes, " bytes; got ", text.size());
  refuse_later(folder, index.generation, where);
  try {
    write_file("save", folder / index_name(index.generation), text, where);
  } catch (const DataError&) {
    refuse_later(folder, index.generation, where);  // which may have removed our file
    throw;
  }
  refuse_later(folder, index.generation, where);
}

std::string rank_file_name(const CheckpointIndex& index, int rank) {
  return concat(prefix_of(index), rank, kTensorsSuffix);
}

// Indices first: a reader that finds one finds its files, or sees soon that another one counts.
void remove_replaced_files(const fs::path& folder, const CheckpointIndex& index) {
  const std::string ours = prefix_of(index), own_index = index_name(index.generation);
  std::error_code ignored;
  std::vector<fs::path> indices{folder / kIndexName}, files;
  fs::directory_iterator entry(folder, ignored);
  for (; entry != fs::directory_iterator(); entry.increment(ignored)) {
    const std::string name = entry->path().filename();
    if (!begins_with_generation(name) || name.compare(0, kDigits, ours, 0, kDigits) > 0) continue;
    if (name.find(kIndexSuffix) != name.npos) {
      if (name != own_index) indices.push_back(entry->path());
    } else if (name.find(kTensorsSuffix) != name.npos && !name.starts_with(ours)) {
      files.push_back(entry->path());
    }
  }
  for (const auto* paths : {&indices, &files})
    for (const auto& path : *paths) fs::remove(path, ignored);
}

}  // namespace ringrad
