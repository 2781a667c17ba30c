// ParameterArena: all parameters in one block of memory, and all their gradients in another, at the
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
// The arena is a property of the tensors. Parameters that lie in one stay there: an optimizer and a
// data-parallel wrapper share the memory, and an optimizer of some of the parameters gets a piece
// of it for each run of neighbours. Nothing moves twice.
//
// A parameter is not moved if a view of it, a detached alias or a NumPy array shares its memory, so
// that those see all its later values. Such a parameter is an arena by itself.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ringrad/core/tensor.h"

namespace ringrad::nn {

/// Makes the memory for a fresh arena's gradients: a tensor of `count` elements that nothing has
/// written yet. An empty function uses the default allocator.
using MakeGradients = std::function<Tensor(std::int64_t count, const Options& options)>;

class ParameterArena {
 public:
  /// Packs the parameters, in the given order, or finds them where they already lie side by side.
  ///
  /// Values and existing gradients are kept; missing gradients become zero.
  /// Throws:  ValueError for no or repeated parameters, or if some of them lie elsewhere and must
  ///          not move; AutogradError unless all are leaves that require gradients; DTypeError,
  ///          DeviceError unless all have one dtype and device
  explicit ParameterArena(const std::vector<Tensor>& parameters,
                          const MakeGradients& make_gradients = {}, Where where = Where::current());

  /// All values, and all gradients, as tensors of one axis, including the gaps. Call settle()
  /// before reading gradients.
  const Tensor& values() const { return values_; }
  const Tensor& gradients() const { return gradients_; }

  struct Slice {
    std::int64_t offset;
    std::int64_t count;
  };
  const std::vector<Tensor>& parameters() const { return parameters_; }
  const std::vector<Slice>& slices() const { return slices_; }

  /// Elements [offset, offset + count) as one flat parameter, whose gradient is the same part of
  /// gradients(). An optimizer of this parameter alone changes this arena in place.
  /// REQUIRES: the part lies in the arena
  Tensor flat_parameter(std::int64_t offset, std::int64_t count) const;

  /// Clears every gradient without writing: the next backward pass overwrites the memory. Tensors
  /// that grad() has given, and views of them, move to memory of their own and keep their values.
  /// Arrays of other libraries keep their values only until settle(). A gradient that does not lie
  /// in the arena, or that had views, is dropped.
  void clear_gradients() const;

  /// False if parameter i has no gradient: it is frozen, or, since clear_gradients(), no backward
  /// pass has reached it and no code has changed its grad() in place. Its grad() and its part of
  /// gradients() then read as zeros.
  bool has_gradient(std::size_t i) const;
  /// Declares the contents of gradients() to be parameter i's gradient, whatever wrote them.
  /// REQUIRES: settle(i), and the parameter is not frozen
  void adopt_gradient(std::size_t i) const;

  /// Brings the flat gradients up to date with the parameters' grad(). Writes zeros for parameters
  /// that no backward pass has reached since clear_gradients(), that are frozen (they keep their
  /// grad()), or whose gradient was dropped. Copies gradients that lie elsewhere (set_grad,
  /// create_graph).
  /// Throws AutogradError if a parameter itself was moved out of the arena, by Module::to().
  void settle() const;
  /// The same for the gradient of parameter i alone.
  void settle(std::size_t i) const;

  /// False if parameter i was moved out of the arena.
  bool is_in_place(std::size_t i) const;

 private:
  friend std::vector<ParameterArena> make_arenas(const std::vector<Tensor>& parameters,
                                                 const MakeGradients& make_gradients, Where where,
                                                 const std::vector<bool>& alone);
  ParameterArena() = default;
  static ParameterArena in_place(const std::vector<Tensor>& run, bool is_alone,
                                 const MakeGradients& make_gradients, Where where);
  static ParameterArena packed(const std::vector<Tensor>& parameters,
                               const MakeGradients& make_gradients, Where where);
  void place_gradients(const MakeGradients& make_gradients, Where where);

  std::vector<Tensor> parameters_;
  std::vector<Slice> slices_;
  std::vector<Tensor> slots_;  // each parameter's part of gradients_
  Tensor values_;
  Tensor gradients_;
};

/// Arenas for these parameters: one for each run of neighbours that lie in an existing arena,
/// whatever the order here; one for each parameter that is_seen or that `alone` marks, in place;
/// and one per dtype and device for the rest.
///
/// Throws:  as ParameterArena's constructor; ValueError, with its place and shape, for a parameter
///          that must not move although its elements do not lie side by side
std::vector<ParameterArena> make_arenas(const std::vector<Tensor>& parameters,
                                        const MakeGradients& make_gradients = {},
                                        Where where = Where::current(),
                                        const std::vector<bool>& alone = {});

/// True if the parameter lies in no arena and must not move to one, since a view or alias of it, or
/// another library, would not see its later values.
bool is_seen(const Tensor& parameter);

/// Drops the parameter's gradient or, if it lives in an arena, marks it to be overwritten.
void clear_gradient(const Tensor& parameter);

}  // namespace ringrad::nn
