// The folder of a sharded checkpoint, and which of its indices counts.
//
//     run.ckpt/
//       00001767225600000000.6b5fc1.0.safetensors       rank 0's file: generation, save, rank
//       00001767225600000000.6b5fc1.1.safetensors       rank 1's
//       00001767225600000000.index.json                 written last; completes the checkpoint
//
// Each generation (nn/checkpoint/generation.h) has its own index, and only the greatest
// generation's counts. So no writer ever waits for another: an index that a writer of an earlier
// generation puts there late, perhaps because it was stopped for a while, is never read. A later
// save of a generation replaces the index of an earlier one. Earlier versions of this library wrote
// "index.json" for all generations; it is read as well.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "ringrad/parallel/train/checkpoint/checkpoint_index.h"

namespace ringrad {

struct IndexFile {
  std::filesystem::path path;
  std::string text;  ///< empty if the folder has no index
};

/// The folder's index of the greatest generation, which counts as the checkpoint. It is not
/// verified.
///
/// Throws: DataError unless it is a readable file of at most 16 MiB
IndexFile read_index(const std::filesystem::path& folder, Where where);

/// The index that read_index has found.
///
/// Throws: DataError that names the file, unless CheckpointIndex::text() can produce the text, and
///         the file's name is that of its generation
CheckpointIndex parse_index(const IndexFile& file, Where where);

/// Throws: DataError if the folder has an index of a later generation, or one that cannot be read,
///         because that one may be of a later generation or a later version of the library
void refuse_later(const std::filesystem::path& folder, std::int64_t generation, Where where);

/// Puts the index in its place. The checkpoint is then complete.
///
/// Throws: as refuse_later; DataError if the file cannot be written
void write_index(const std::filesystem::path& folder, const CheckpointIndex& index, Where where);

/// The name of a rank's file.
std::string rank_file_name(const CheckpointIndex& index, int rank);

/// Removes what the index has replaced: files of earlier saves, of its generation or an earlier
/// one.
void remove_replaced_files(const std::filesystem::path& folder, const CheckpointIndex& index);

}  // namespace ringrad
