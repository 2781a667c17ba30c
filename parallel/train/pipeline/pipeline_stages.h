// PipelineStages: the computation of one rank of a pipeline: its stages, on micro-batches, and what
// is kept between their forward and backward passes. Pipeline decides on the order and on messages
// (pipeline.h).
//
//     input(s, b)         from the stage before   forward(s, b)    output(s, b)       onwards
//     grad_output(s, b)   from the next stage     backward(s, b)   grad_input(s, b)   back

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "ringrad/autograd/split_backward.h"
#include "ringrad/core/tensor.h"
#include "ringrad/nn/module.h"

namespace ringrad {

class PipelineStages {
 public:
  using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;

  PipelineStages(int num_stages, int num_micro_batches, Loss loss, bool checkpoints)
      : num_stages_(num_stages),
        num_micro_batches_(num_micro_batches),
        loss_(std::move(loss)),
        checkpoints_(checkpoints) {}

  void add(int index, nn::Module& module) { modules_[index] = &module; }
  /// This rank's modules, by their stage's index in the plan.
  const std::map<int, nn::Module*>& modules() const { return modules_; }

  /// Holds the batch until clear().
  void begin(const Tensor& x, const Tensor& target);
  void clear();

  // What stage s has of micro-batch b. A gradient is undefined where a later stage has not used the
  // output.
  Tensor& input(int s, int b) { return kept_[{s, b}].input; }
  Tensor& output(int s, int b) { return kept_[{s, b}].output; }
  Tensor& grad_output(int s, int b) { return kept_[{s, b}].grad_output; }
  Tensor& grad_input(int s, int b) { return kept_[{s, b}].grad_input; }
  /// Releases all of it.
  void drop(int s, int b) { kept_.erase({s, b}); }

  /// With gradients on, the last stage's output is the loss.
  void forward(int s, int b, Where where);
  void backward(int s, int b, Where where);
  void backward_input(int s, int b, Where where);
  void backward_weight(int s, int b, Where where);

  int peak_kept() const { return peak_kept_; }
  const std::vector<Tensor>& losses() const { return losses_; }
  /// The losses' mean, weighted by their micro-batches' rows. REQUIRES: there are losses
  Tensor mean_loss(Where where) const;

 private:
  struct Kept {
    Tensor input, output, grad_output, grad_input;
    WeightGradients weights;
  };

  bool is_first(int s) const { return s == 0; }
  bool is_last(int s) const { return s == num_stages_ - 1; }
  std::int64_t first_row(std::int64_t rows, int b) const { return rows * b / num_micro_batches_; }
  Tensor rows_of(const Tensor& batch, const char* name, int b, Where where) const;
  double weight_of(int b) const;
  Tensor call(nn::Module& module, const Tensor& input, Where where) const;
  void add_loss(int b, Kept& kept, Where where);
  void begin_backward(int s, int b, Kept& kept, Where where) const;
  bool has_gradient(const Kept& kept) const;

  const int num_stages_, num_micro_batches_;
  const Loss loss_;
  const bool checkpoints_;
  std::map<int, nn::Module*> modules_;
  Tensor x_, target_;
  std::map<std::pair<int, int>, Kept> kept_;  // by stage and micro-batch
  int num_kept_ = 0, peak_kept_ = 0;
  std::vector<Tensor> losses_;
};

}  // namespace ringrad
