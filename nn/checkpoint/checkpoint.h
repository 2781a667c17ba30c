// Checkpoint: everything that a training run must remember, by name, and the file that holds it.
//
//     nn::Checkpoint checkpoint;
//     checkpoint.add("model", net);                     net        ---.
//     checkpoint.add("optimizer", optimizer);           optimizer  ---+--- save ---> run.ckpt
//     checkpoint.add("random", default_generator());    random     ---+--- load <---
//     checkpoint.add("step", step);                     step       ---'
//     checkpoint.load("run.ckpt");                     false if there is none yet
//     for (; step < 1000; ++step) {
//       ...
//       if (step % 100 == 0) checkpoint.save("run.ckpt");
//     }
//
// Saving and loading use the same list, so nothing is saved that is not loaded. If the list is
// complete, a run that loads continues bit by bit like the run that saved: schedules are functions
// of the step, a loader's state is two numbers, `epoch` and `consumed` (data/sampler.h), and all
// randomness comes from generators. Saving and loading each happen as a whole or not at all
// (core/file/atomic_file.h). The format is that of tensor_file.h, with tensors "model.0.weight",
// "optimizer.0.momentum", "step" ().
//
// For many ranks: parallel/train/checkpoint/distributed_checkpoint.h.
// (autograd/activation_checkpoint.h is unrelated.)
//
// nn/README.md says more: "Generations of checkpoints".

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ringrad/core/random/random.h"
#include "ringrad/nn/module.h"
#include "ringrad/nn/optimizer/exponential_moving_average.h"
#include "ringrad/nn/optimizer/grad_scaler.h"
#include "ringrad/nn/optimizer/optimizer.h"
#include "ringrad/nn/optimizer/plateau.h"
#include "ringrad/nn/state_dict.h"

namespace ringrad::nn {

class Checkpoint {
 public:
  /// How an item of any other kind is read and written. Names are relative to the item's; an item
  /// of one tensor has the name "".
  struct Access {
    /// Returns the item's own tensors, and copies of its numbers.
    std::function<StateDict()> get;
    std::function<void(const StateDict&, Where)> set;
    /// Throws what set would throw, except for names, shapes and dtypes.
    std::function<void(const StateDict&, Where)> check = [](const StateDict&, Where) {};
  };

  /// Adds an item to the list; the item must outlive this object.
  ///
  /// Throws:  ValueError unless the name is new, not empty, and without dots
  void add(const std::string& name, Module& module, Where where = Where::current());
  void add(const std::string& name, Optimizer& optimizer, Where where = Where::current());
  void add(const std::string& name, GradScaler& scaler, Where where = Where::current());
  void add(const std::string& name, ExponentialMovingAverage& average,
           Where where = Where::current());
  void add(const std::string& name, Plateau& plateau, Where where = Where::current());
  void add(const std::string& name, Tensor& tensor, Where where = Where::current());
  void add(const std::string& name, std::int64_t& number, Where where = Where::current());
  void add(const std::string& name, double& number, Where where = Where::current());
  /// Each rank has its own generator: saved as (ranks, 2) int64, the seed and offset of each.
  void add(const std::string& name, Generator& generator, Where where = Where::current());

  /// An item of the user's own, read and written by `access`.
  void add(const std::string& name, Access access, Where where = Where::current());

  /// Throws:  as write_tensors (tensor_file.h); DataError if the existing file is of a later
  ///          generation
  void save(const std::filesystem::path& path, Where where = Where::current()) const;

  /// Returns false, and changes nothing, if there is no such file.
  ///
  /// Throws:  as read_tensors for a damaged file, as load_state for another model's; nothing has
  ///          changed then
  bool load(const std::filesystem::path& path, Where where = Where::current());

  /// The contents of the file: the items' own tensors, and copies of numbers.
  StateDict state() const;

  /// Sets the values of all items on the list. Generators take the values of `rank`; if the state
  /// lacks this rank, they keep their own.
  ///
  /// Throws:  ValueError, ShapeError or DTypeError that lists missing and unexpected names, and
  ///          tensors that differ in shape or dtype; ValueError for impossible numbers; nothing has
  ///          changed then
  void load_state(const StateDict& state, int rank = 0, Where where = Where::current());
  /// Throws what load_state would throw, and changes nothing.
  void check_state(const StateDict& state, int rank = 0, Where where = Where::current()) const;

  /// Returns `given`, with each parameter's step count added if an earlier version has saved the
  /// state without those (step_counts.h).
  StateDict completed(StateDict given) const;

  /// The names of those entries of state() that belong to this rank alone.
  const std::vector<std::string>& names_per_rank() const { return names_per_rank_; }
  /// The names of those entries of state() that are buffers of modules.
  const std::vector<std::string>& names_of_buffers() const { return names_of_buffers_; }

 private:
  struct Item {
    std::string name;
    Access access;
    bool is_optimizer = false;
  };

  StateDict state_for(int rank, const StateDict& given) const;
  static StateDict part_of(const Item& item, const StateDict& state);

  std::vector<Item> items_;
  std::vector<std::string> names_per_rank_, names_of_buffers_;
};

}  // namespace ringrad::nn
