// ShardedCheckpoint: the state of a job whose ranks do not all hold the same, in a folder.
//
//     ShardedCheckpoint checkpoint(comm);
//     checkpoint.add("model", net);                  on all ranks; parallel layers: each its part
//     checkpoint.add("optimizer", optimizer);        a ShardedOptimizer: each rank has its part
//     checkpoint.add("random", default_generator()); each rank has its own
//     checkpoint.add("step", step);
//     checkpoint.load("run");                        false if there is none yet
//     ...
//     checkpoint.save("run");                        each rank writes a file, then rank 0 the index
//
// Guarantee: every rank gets the bits that it would have if one rank had held and saved everything.
// Copies are compared: state that differs between ranks without being declared so is refused by
// name. The exception is buffers: the lowest rank's buffers count, as in DistributedDataParallel. A
// save replaces the folder's checkpoint once all files are complete, and never one of a later
// generation (nn/checkpoint/checkpoint.h). All ranks must see the same folder.
//
// save, save_async, wait and load are collectives: all ranks must call them at the same point,
// between steps. An error on one rank is thrown on all, and the group stays usable. Ranks must list
// the same things, except for owned ones.
//
// README.md says more: "Names in a sharded checkpoint".

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ringrad/nn/checkpoint/checkpoint.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/train/checkpoint/checkpoint_index.h"
#include "ringrad/parallel/train/checkpoint/parameter_layout.h"
#include "ringrad/parallel/train/common/on_root.h"
#include "ringrad/parallel/train/data_parallel/hook_state.h"
#include "ringrad/parallel/train/data_parallel/reducer.h"
#include "ringrad/parallel/train/data_parallel/sharded_optimizer.h"
#include "ringrad/parallel/train/loose/local_sgd.h"

namespace ringrad {

/// What a rank loads of per-rank state when a job with another number of ranks has saved it.
enum class OtherRanks {
  refuse,  ///< load throws
  keep,    ///< the same rank's state; a rank that did not exist then keeps its present state
  mean  ///< floating state: mean over the ranks that saved it, in rank order; other state: rank 0's
};

struct ShardedCheckpointOptions {
  /// For writing, or reading, one checkpoint.
  std::chrono::nanoseconds deadline = kWorkDeadline;
  /// How long rank 0 waits for a file that another rank has written to become visible; network file
  /// systems may show it late.
  std::chrono::nanoseconds visible = std::chrono::seconds(30);
};

class ShardedCheckpoint {
 public:
  /// REQUIRES: comm outlives it
  explicit ShardedCheckpoint(Communicator& comm, const ShardedCheckpointOptions& options = {});
  /// Ends a running save_async: waits for the files of all ranks, but no longer than the deadline.
  /// A failure goes to stderr; call wait() to have it thrown.
  ~ShardedCheckpoint();
  ShardedCheckpoint(const ShardedCheckpoint&) = delete;
  ShardedCheckpoint& operator=(const ShardedCheckpoint&) = delete;

  /// Adds an object to the list; the object must outlive this one. Modules must come before the
  /// optimizers of their parameters.
  ///
  /// Throws: ValueError unless the name is new, not empty, and without dots; also for an optimizer
  ///         of a parameter that no module on the list has
  void add(const std::string& name, nn::Module& module, Where where = Where::current());
  void add(const std::string& name, nn::Optimizer& optimizer, Where where = Where::current());
  void add(const std::string& name, ShardedOptimizer& optimizer, Where where = Where::current());
  void add(const std::string& name, nn::GradScaler& scaler, Where where = Where::current()) {
    add_common(name, scaler, where);
  }
  void add(const std::string& name, Tensor& tensor, Where where = Where::current()) {
    add_common(name, tensor, where);
  }
  void add(const std::string& name, std::int64_t& number, Where where = Where::current()) {
    add_common(name, number, where);
  }
  void add(const std::string& name, double& number, Where where = Where::current()) {
    add_common(name, number, where);
  }
  /// Adds each rank's own generator, with OtherRanks::keep.
  void add(const std::string& name, Generator& generator, Where where = Where::current());

  /// Adds a module of this rank. Under the same name other ranks list other layers, or replicas.
  void add_owned(const std::string& name, nn::Module& module, Where where = Where::current());
  /// Adds the stages of a pipeline (nn::Sequential::split). This rank saves its own by Pipeline's
  /// rule, s mod pipeline.world_size() == pipeline.rank().
  void add_stages(const std::string& name, std::vector<nn::Sequential>& stages,
                  const Communicator& pipeline, Where where = Where::current());

  /// Adds what a hook remembers (hook_state.h). Each rank has its own compression errors. On
  /// another number of ranks every rank loads their mean; the average over ranks is the same, so no
  /// gradient is lost. Adds nothing for hooks that remember nothing.
  void add(const std::string& name, const CommunicationHook& hook, Where where = Where::current());

  /// Adds the counters of `average`, which are the same on all ranks.
  void add(const std::string& name, LocalSGD& average, Where where = Where::current());

  /// Adds state that differs by rank, such as a replica between two averages of LocalSGD, and its
  /// optimizer.
  void add_per_rank(const std::string& name, nn::Module& module,
                    OtherRanks other_ranks = OtherRanks::refuse, Where where = Where::current()) {
    local_.add(name, module, where);
    add_rows(name, other_ranks);
  }
  void add_per_rank(const std::string& name, nn::Optimizer& optimizer,
                    OtherRanks other_ranks = OtherRanks::refuse, Where where = Where::current()) {
    local_.add(name, optimizer, where);
    add_rows(name, other_ranks);
  }
  void add_per_rank(const std::string& name, nn::Checkpoint::Access access,
                    OtherRanks other_ranks = OtherRanks::refuse, Where where = Where::current());

  /// Returns when the checkpoint is in place.
  ///
  /// Throws: on all ranks, with the previous checkpoint in place or this one complete: ValueError
  ///         that names the tensors that are not as declared, and their ranks; DataError if a rank
  ///         cannot give its state or write it, if the folder's checkpoint is of a later
  ///         generation, or if its index cannot be read; CollectiveError
  void save(const std::filesystem::path& folder, Where where = Where::current());

  /// Returns when the state has been copied. Files and index are written during the following
  /// steps, without collectives. Waits for the previous save, if one is running.
  ///
  /// Throws: as save, for the previous save as well
  void save_async(const std::filesystem::path& folder, Where where = Where::current());

  /// Returns when the latest save_async is in place; at once if there is none. Throws as save.
  void wait(Where where = Where::current());

  /// Returns false, and changes nothing, if the folder has no index. Another job may save to the
  /// folder meanwhile: load() then reads either the earlier or the later checkpoint.
  ///
  /// Throws: on all ranks, before anything has changed: DataError for files that are missing,
  ///         damaged, or not those of the index; ValueError, ShapeError or DTypeError unless it
  ///         holds exactly what is listed
  bool load(const std::filesystem::path& folder, Where where = Where::current());

 private:
  // This rank's piece of a tensor, or all of it.
  struct Piece {
    PieceFacts facts;  // without checksum
    Tensor tensor;     // of slice.numel() elements
    bool is_buffer = false;
    OtherRanks other_ranks = OtherRanks::refuse;  // if spread is per_rank
  };
  /// Adds the pieces of an item, whose tensors are in `local` under its local name.
  using AddPieces =
      std::function<void(const nn::StateDict& local, std::vector<Piece>& pieces, Where where)>;
  struct Saving;

  // Adds an item that every rank has as a whole.
  template <class Item>
  void add_common(const std::string& name, Item& item, Where where) {
    local_.add(name, item, where);
    add_whole(name);
  }
  void add_whole(const std::string& name);
  template <class AddRest>
  void add_optimizer_state(const std::string& name, const std::vector<Tensor>& parameters,
                           AddRest add_rest, Where where);
  static void add_flat_pieces(const std::string& item, const Tensor& flat, const std::string& what,
                              const ShardedOptimizer::Part& part, const nn::ParameterArena& arena,
                              const std::vector<ParameterLayout>& layouts,
                              std::vector<Piece>& pieces);
  void add_rows(const std::string& name, OtherRanks other_ranks);
  void add_module(const std::string& name, const std::string& local, nn::Module& module,
                  Spread spread, Where where);
  const ParameterLayout& layout_of(const Tensor& parameter, const std::string& item,
                                   Where where) const;
  std::vector<Piece> pieces_of(const nn::StateDict& local, Where where) const;
  nn::StateDict local_state() const;
  nn::StateDict staged_for(const CheckpointIndex& index, Where where) const;
  void set_state(nn::StateDict staged, Where where);
  nn::StateDict own_part(const std::vector<Piece>& pieces, const CheckpointIndex& index,
                         bool copies, Where where) const;
  void begin(const std::filesystem::path& folder, bool copies, Where where);
  void check_layouts(const CheckpointIndex& index, const std::vector<Piece>& pieces,
                     Where where) const;
  bool is_mean_of_others(const Piece& piece, const CheckpointIndex::Entry& entry) const;
  bool needs(const Piece& piece, const CheckpointIndex::Entry& entry,
             const TensorSlice& from) const;
  void take(const Piece& piece, const CheckpointIndex::Entry& entry, const TensorSlice& from,
            const Tensor& given, Where where) const;
  std::string index_of_root(const std::filesystem::path& folder, Where where) const;
  void read_on_all_ranks(const std::filesystem::path& folder, const CheckpointIndex& index,
                         const std::vector<Piece>& pieces, Where where) const;
  void read_pieces(const std::filesystem::path& folder, const CheckpointIndex& index,
                   const std::vector<Piece>& pieces, Where where) const;

  Communicator& comm_;
  const ShardedCheckpointOptions options_;
  nn::Checkpoint local_;
  // Hooks' states grow, so a checkpoint may hold more of them than there is now. They are therefore
  // not part of local_.
  std::map<std::string, std::shared_ptr<HookState>> hooks_;
  std::vector<AddPieces> items_;
  std::map<const TensorImpl*, ParameterLayout> parameters_;
  std::unique_ptr<Saving> saving_;
};

}  // namespace ringrad
