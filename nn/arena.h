// ParameterArena: all parameters in one block of memory, all their gradients in another, at the
// same offsets.
//
//     values     | conv1.weight | conv1.bias | bn1.weight | ...    parameters are views into this
//     gradients  | conv1.weight | conv1.bias | bn1.weight | ...    their grad() are views into this
//                |--------- bucket 0 --------|------ bucket 1 ---
//
// An optimizer step is then one pass over flat memory instead of a loop over small tensors, and a
// bucket of gradients to communicate is a slice: nothing is packed or copied. Each parameter starts
// at a multiple of 64 bytes; the gaps hold zeros.
//
// The arena is a property of the tensors: asking for it again, from an optimizer and from a
// data-parallel wrapper, gives the same memory.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/tensor.h"

namespace ringrad::nn {

/// Where a fresh arena keeps its gradients: a tensor of so many elements, written by nobody yet. Nothing means
/// ordinary memory.
using MakeGradients = std::function<Tensor(std::int64_t count, const Options& options)>;

class ParameterArena {
 public:
  /// Packs the parameters, in the given order, or finds the arena that already holds exactly these.
  ///
  /// Values are kept, and gradients that exist; the others become zero.
  /// Throws: ValueError for no or repeated parameters; AutogradError unless all are leaves that
  ///         require gradients; DTypeError, DeviceError unless all are alike
  explicit ParameterArena(const std::vector<Tensor>& parameters,
                          const MakeGradients& make_gradients = {}, Where where = Where::current());

  /// All values, and all gradients: one axis, gaps included. Call settle() before reading
  /// gradients.
  const Tensor& values() const { return values_; }
  const Tensor& gradients() const { return gradients_; }

  struct Slice {
    std::int64_t offset;
    std::int64_t count;
  };
  const std::vector<Tensor>& parameters() const { return parameters_; }
  const std::vector<Slice>& slices() const { return slices_; }

  /// Elements [offset, offset + count) as one flat parameter, whose gradient is the same part of gradients(). An
  /// optimizer that is given it alone changes this arena in place.
  /// REQUIRES: the part lies in the arena
  Tensor flat_parameter(std::int64_t offset, std::int64_t count) const;

  /// Clears every gradient, without writing: the next backward pass overwrites what is there.
  void clear_gradients() const;

  /// False if parameter i has no gradient: no backward pass has reached it since clear_gradients(), and
  /// nobody has changed its grad() in place; or it is frozen. Its grad() and its part of gradients()
  /// then read as zeros.
  bool has_gradient(std::size_t i) const;
  /// What lies in gradients() is parameter i's gradient from now on, wherever it came from.
  /// REQUIRES: settle(i), and the parameter is not frozen
  void adopt_gradient(std::size_t i) const;

  /// Makes the flat gradients what the parameters' grad() are: writes the zeros of those that no
  /// backward pass has reached since clear_gradients(), zeros where a parameter was frozen or its
  /// gradient dropped, and copies gradients that lie elsewhere (set_grad, create_graph).
  /// Throws AutogradError if a parameter itself was moved out of the arena, by Module::to() or by
  /// packing it into another one.
  void settle() const;
  /// The same for the gradient of parameter i alone.
  void settle(std::size_t i) const;

  /// The arena that holds exactly these, if there is one. Throws as the constructor.
  static std::optional<ParameterArena> existing(const std::vector<Tensor>& parameters,
                                                Where where = Where::current());

 private:
  ParameterArena() = default;
  std::int64_t lay_out(Where where);
  bool find_existing();
  void pack(Where where);

  std::vector<Tensor> parameters_;
  std::vector<Slice> slices_;
  std::vector<Tensor> slots_;  // each parameter's place in gradients_
  Tensor values_;
  Tensor gradients_;
};

/// Arenas of these parameters: those that hold some of them and nothing else, as of the stages of a pipeline, and one per
/// dtype and device for the others.
std::vector<ParameterArena> make_arenas(const std::vector<Tensor>& parameters,
                                        const MakeGradients& make_gradients = {},
                                        Where where = Where::current());

/// Drops the parameter's gradient, or, if it lives in an arena, marks it to be overwritten.
void clear_gradient(const Tensor& parameter);

}  // namespace ringrad::nn
