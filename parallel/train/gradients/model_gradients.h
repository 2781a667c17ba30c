// ModelGradients: the gradients of a whole model whose ranks have parts of it, copies of it, or
// both; their norm, and loss scaling.
//
//     ModelGradients gradients(comm);            the ranks that train the model together
//     gradients.add("model", net);               replicas, parallel layers; a Pipeline as well
//     gradients.add(sharded);                    a ShardedOptimizer, after its module
//     ...
//     loss.backward();
//     gradients.clip_norm(1.0);                  one norm and one factor on all ranks
//     optimizer.step();
//
// With float16, instead of the last two lines:
//
//     gradients.step(scaler, {&optimizer});      all ranks make the step, or all skip it
//     scaler.update();
//
// How each parameter is spread over the ranks is found as for a ShardedCheckpoint
// (checkpoint/parameter_layout.h): replicas have it whole, parallel layers a slice, a stage's ranks
// all of it, and a ShardedOptimizer a part of the average. The ranks exchange this once, and each
// element of the model then counts once. So the norm is that of the whole model on one device, up
// to the rounding of another order of summation, whatever the mixture.
//
// All calls but add() are collectives: all ranks must make them at the same point, between backward
// and step. Gradients must be those that the scheme makes: replicas' gradients are averaged by
// DistributedDataParallel, a Pipeline with replicas, or a ShardedOptimizer.

#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/nn/module.h"
#include "ringrad/nn/optimizer/grad_scaler.h"
#include "ringrad/nn/optimizer/optimizer.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/train/checkpoint/parameter_layout.h"
#include "ringrad/parallel/train/data_parallel/sharded_optimizer.h"
#include "ringrad/parallel/train/gradients/gradient_pieces.h"
#include "ringrad/parallel/train/pipeline/pipeline.h"

namespace ringrad {

class ModelGradients {
 public:
  /// REQUIRES: comm and all that is added outlive this object; all ranks that have a part of the
  ///           model, or a copy, are in comm
  explicit ModelGradients(Communicator& comm) : comm_(comm) {}

  /// A module: on every rank the same name and the same module, or a part of it by parallel layers.
  void add(const std::string& name, nn::Module& module, Where where = Where::current());
  /// The stages of this rank, and what is tied between stages.
  void add(const std::string& name, Pipeline& pipeline, Where where = Where::current());
  /// Optimizers that average the gradients themselves. Modules must be added before.
  ///
  /// Throws: ValueError for an optimizer of a parameter of no module
  void add(ShardedOptimizer& optimizer, Where where = Where::current());

  /// Scales all gradients by one factor, so that their joint Euclidean norm is at most max_norm.
  /// Returns the norm before scaling, the same on all ranks. Gradients of ShardedOptimizers are
  /// averaged before. Frozen parameters, and those without a gradient, do not count.
  ///
  /// Throws: ValueError unless max_norm > 0; on all ranks, ValueError if a gradient is not finite
  ///         (nothing is scaled then, and ShardedOptimizers' gradients are dropped), or with the
  ///         parameter's name if its pieces do not cover it, or if a pipeline's stages are not all
  ///         on ranks of comm; ValueError for a parameter of a ShardedOptimizer or a Pipeline that
  ///         was not added
  double clip_norm(double max_norm, Where where = Where::current());

  /// True on all ranks if all gradients of all ranks are finite, else false on all.
  bool are_finite(Where where = Where::current());

  /// An optimizer of whole parameters, or of the slices of a rank.
  using AnyOptimizer = std::variant<nn::Optimizer*, ShardedOptimizer*>;
  /// As scaler.step() for each of this rank's optimizers, which may be none. If are_finite(), all
  /// ranks step, with gradients divided by the scale. Otherwise no rank steps, ShardedOptimizers
  /// drop their gradients as after a step, and the result is false. The scaler of each rank must
  /// have the same state.
  ///
  /// Throws: ValueError for a ShardedOptimizer that was not added, or another optimizer of a
  ///         parameter of no module
  bool step(nn::GradScaler& scaler, const std::vector<AnyOptimizer>& optimizers,
            Where where = Where::current());

 private:
  // A parameter of this rank, or a ShardedOptimizer's part of it.
  struct Own {
    Tensor parameter;  // undefined for the piece that stands for a stage
    bool is_of_pipeline = false;
    const ShardedOptimizer* averager = nullptr;
    ShardedOptimizer::Part part = {};  // of the averager, with the elements [from, to)
    std::int64_t from = 0, to = 0;
    bool is_counted = false;
  };
  struct Sum {
    kernels::Norm norm;
    double is_finite;  // of all this rank's gradients, counted or not
  };

  void add_module(const std::string& name, nn::Module& module, const Pipeline* pipeline,
                  Where where);
  void divide(ShardedOptimizer& optimizer, std::size_t index);
  void check_marks(Where where) const;
  void check_added(const std::vector<AnyOptimizer>& optimizers, Where where) const;
  Tensor gradient_of(const Own& own) const;
  std::vector<Tensor> scaled_gradients() const;
  Sum sum_over_ranks(Where where);
  void drop_averages();

  Communicator& comm_;
  std::vector<Own> own_;
  std::vector<GradientPiece> pieces_;  // of own_
  std::vector<ShardedOptimizer*> averagers_;
  bool is_agreed_ = false;
};

}  // namespace ringrad
