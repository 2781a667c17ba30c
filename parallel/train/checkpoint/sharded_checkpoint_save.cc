// Writes a checkpoint's files. For their contents, see sharded_checkpoint.cc.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <future>
#include <random>
#include <thread>
#include <utility>

#include "ringrad/core/transfer.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/nn/checkpoint/generation.h"
#include "ringrad/nn/checkpoint/tensor_file.h"
#include "ringrad/parallel/comm/same_text.h"
#include "ringrad/parallel/train/checkpoint/checkpoint_agreement.h"
#include "ringrad/parallel/train/checkpoint/checkpoint_folder.h"
#include "ringrad/parallel/train/checkpoint/sharded_checkpoint.h"
#include "ringrad/parallel/train/common/on_root.h"

namespace ringrad {
namespace {

constexpr auto kTick = std::chrono::milliseconds(10);

// Replaces each piece's rank by the index of the file that holds it.
void name_files(CheckpointIndex& index) {
  std::map<int, int> files;  // by rank
  for (const auto& [name, entry] : index.tensors)
    for (const CheckpointIndex::Piece& piece : entry.pieces) files.emplace(piece.file, 0);
  for (auto& [rank, file] : files) {
    file = static_cast<int>(index.files.size());
    index.files.push_back({rank_file_name(index, rank), 0, {}});
  }
  for (auto& [name, entry] : index.tensors)
    for (CheckpointIndex::Piece& piece : entry.pieces) piece.file = files.at(piece.file);
}

}  // namespace

// A save in progress. None of its tasks uses the communicator.
struct ShardedCheckpoint::Saving {
  ~Saving() {
    is_given_up = true;
    if (index.valid()) index.wait();
    if (own.valid()) own.wait();
  }

  void write_own(const nn::StateDict& tensors, Where where) {
    if (tensors.empty()) return;
    try {
      nn::write_tensors(own_path, tensors, generation, where);
    } catch (const DataError&) {
      refuse_later(own_path.parent_path(), generation, where);  // which may have removed our file
      throw;
    }
  }

  // Each file is in place complete, or not at all.
  nn::TensorFileFacts facts_of(const std::filesystem::path& path, Where where) {
    std::optional<std::chrono::steady_clock::time_point> until;
    for (;;) {
      if (const auto facts = nn::tensor_file_facts(path)) return *facts;
      const auto now = std::chrono::steady_clock::now();
      if (all_written && !until) until = now + visible;
      if (until && now > *until) refuse_later(path.parent_path(), generation, where);
      RINGRAD_CHECK(!is_given_up && !(until && now > *until), DataError, where,
                    "save: ", path.string(),
                    " must be there for rank 0 to see, as for the rank that wrote it");
      std::this_thread::sleep_for(kTick);
    }
  }

  void complete(CheckpointIndex index_to_be, const std::filesystem::path& folder, Where where) {
    for (CheckpointIndex::File& file : index_to_be.files) {
      const nn::TensorFileFacts facts = facts_of(folder / file.name, where);
      file.num_bytes = facts.num_bytes;
      file.crc32 = facts.crc32;
    }
    write_index(folder, index_to_be, where);
    remove_replaced_files(folder, index_to_be);
  }

  // Finishes this rank's part without the other ranks. Returns the error, empty if there is none.
  std::string finish_alone(std::chrono::nanoseconds patience) {
    const std::string error = error_of([&] { own.get(); });
    if (error.empty() && index.valid()) index.wait_for(patience);
    is_given_up = true;
    return error.empty() && index.valid() ? error_of([&] { index.get(); }) : error;
  }

  std::int64_t generation = 0;
  std::filesystem::path own_path;
  std::chrono::nanoseconds visible{};
  std::atomic<bool> all_written = false, is_given_up = false;
  std::future<void> own, index;  // index: on rank 0 only
};

ShardedCheckpoint::ShardedCheckpoint(Communicator& comm, const ShardedCheckpointOptions& options)
    : comm_(comm), options_(options) {}

ShardedCheckpoint::~ShardedCheckpoint() {
  if (!saving_) return;
  // A rank whose stack is unwound may be alone: the files of other ranks may never come.
  const bool may_be_alone = std::uncaught_exceptions() > 0;
  const std::string error =
      saving_->finish_alone(may_be_alone ? std::chrono::nanoseconds(0) : options_.deadline);
  if (!error.empty())
    std::fprintf(stderr, "rank %d: the last checkpoint has not been saved: %s\n", comm_.rank(),
                 error.c_str());
}

// The pieces that this rank writes, by their names in the file.
nn::StateDict ShardedCheckpoint::own_part(const std::vector<Piece>& pieces,
                                          const CheckpointIndex& index, bool copies,
                                          Where where) const {
  nn::StateDict part;
  for (const auto& [facts, tensor, is_buffer, other_ranks] : pieces)
    for (const CheckpointIndex::Piece& there : index.tensors.at(facts.name).pieces)
      if (there.file == comm_.rank() && there.begin == facts.slice.begin)
        part.emplace(name_in_file(facts.name, facts.slice, facts.shape),
                     copies ? host_copy(tensor, where) : tensor);
  return part;
}

void ShardedCheckpoint::begin(const std::filesystem::path& folder, bool copies, Where where) {
  wait(where);
  std::vector<Piece> pieces;
  std::vector<PieceFacts> facts;
  on_all_ranks(comm_, where, [&] {
    pieces = pieces_of(local_state(), where);
    for (Piece& piece : pieces) {
      piece.tensor = to_host(kernels::contiguous(piece.tensor, where), where);
      facts.push_back(piece.facts);
      if (!piece.is_buffer) facts.back().crc = crc_of(piece.tensor);
    }
  });
  CheckpointIndex index;
  index.tensors = merge_pieces(facts_of_all(facts, comm_, where), where);
  index.generation = agree_on_generation(comm_, where);
  on_root<DataError>(comm_, where, [&] {
    std::filesystem::create_directories(folder);
    refuse_later(folder, index.generation, where);
    std::random_device random;
    index.save = concat(random(), random());
  });
  index.save = text_of_root(index.save, comm_, where);
  const auto start = [&] {
    const nn::StateDict part = own_part(pieces, index, copies, where);
    name_files(index);
    saving_ = std::make_unique<Saving>();
    saving_->generation = index.generation;
    saving_->visible = options_.visible;
    saving_->own_path = folder / rank_file_name(index, comm_.rank());
    Saving* const task = saving_.get();
    saving_->own = std::async(std::launch::async, [=] { task->write_own(part, where); });
    if (comm_.rank() == 0)
      saving_->index =
          std::async(std::launch::async, [=] { task->complete(index, folder, where); });
  };
  try {
    on_all_ranks(comm_, where, start);
  } catch (...) {
    saving_.reset();
    throw;
  }
}

void ShardedCheckpoint::save(const std::filesystem::path& folder, Where where) {
  begin(folder, false, where);
  wait(where);
}

void ShardedCheckpoint::save_async(const std::filesystem::path& folder, Where where) {
  begin(folder, true, where);
}

// Removes nothing on failure: rank 0's index may already name this rank's file. The next save
// removes leftovers.
void ShardedCheckpoint::wait(Where where) {
  if (!saving_) return;
  const std::unique_ptr<Saving> saving = std::move(saving_);
  try {
    await_all(
        "the writing of a checkpoint",
        [&](std::chrono::nanoseconds patience) {
          return saving->own.wait_for(patience) == std::future_status::ready;
        },
        comm_, options_.deadline, where);
    on_all_ranks(comm_, where, [&] { saving->own.get(); });
    saving->all_written = true;
    on_root<DataError>(
        comm_, where, [&] { saving->index.get(); }, options_.deadline);
  } catch (const CollectiveError&) {
    nn::raise_generation(saving->generation + 1);  // rank 0 may be paused, and go on later
    throw;
  }
}

}  // namespace ringrad
