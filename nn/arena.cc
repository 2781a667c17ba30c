#include "ringrad/nn/arena.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ringrad/autograd/node.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/copy/fill.h"

namespace ringrad::nn {
namespace {

constexpr std::int64_t kAlignmentBytes = 64;

// The memory order of a parameter inside the arena.
Strides packed_strides(const Tensor& x) {
  return is_dense(x.shape(), x.strides()) ? x.strides() : strides_for(x.shape());
}

// A tensor like x over elements [offset, offset + numel) of the flat tensor, with its own version
// counter.
Tensor slice_of(const Tensor& flat, std::int64_t offset, const Tensor& x, Where where) {
  const std::size_t width = size_bytes(flat.dtype());
  auto storage = Storage::slice(flat.storage(), static_cast<std::size_t>(offset) * width,
                                static_cast<std::size_t>(x.numel()) * width);
  return Tensor(
      make_ref<TensorImpl>(std::move(storage), 0, x.shape(), packed_strides(x), x.dtype(), where));
}

// The flat tensor over a whole storage.
Tensor flat_view(const Ref<Storage>& whole, DType dtype, Where where) {
  const auto count = static_cast<std::int64_t>(whole->bytes() / size_bytes(dtype));
  return Tensor(make_ref<TensorImpl>(whole, 0, Shape{count}, Strides{1}, dtype, where));
}

// Bytes [begin, end) of the memory as a flat tensor.
Tensor flat_part(const Ref<Storage>& memory, std::size_t begin, std::size_t end, DType dtype,
                 Where where) {
  const bool is_all = begin == 0 && end == memory->bytes();
  return flat_view(is_all ? memory : Storage::slice(memory, begin, end - begin), dtype, where);
}

// The number of elements up to the next slot.
std::int64_t aligned(std::int64_t count, DType dtype) {
  const std::int64_t alignment = kAlignmentBytes / static_cast<std::int64_t>(size_bytes(dtype));
  return (count + alignment - 1) / alignment * alignment;
}

// The memory that a tensor lies in, and its first byte there. A slot of an arena is a storage that
// is a slice of the arena's.
const Ref<Storage>& memory_of(const Tensor& x) {
  return x.storage()->whole() ? x.storage()->whole() : x.storage();
}
std::size_t begin_of(const Tensor& x) {
  return static_cast<std::size_t>(x.raw_data() - memory_of(x)->data());
}

// Memory for an arena is a slice itself, so that its slots are slices of a slice. A caller's memory
// (from_memory) is a slice of a whole, and no slot.
Tensor arena_memory(const Tensor& memory, Where where) {
  const Ref<Storage>& storage = memory.storage();
  if (storage->whole()) return memory;
  return flat_view(Storage::slice(storage, 0, storage->bytes()), memory.dtype(), where);
}

// Another tensor in the slot that x fills. A leaf and each arena have one of their own: a tensor
// that shares the leaf's is other code's, and keeps its values once the gradient is cleared.
Tensor twin(const Tensor& x) {
  auto slot = Storage::slice(memory_of(x), begin_of(x), x.storage()->bytes());
  return Tensor(
      make_ref<TensorImpl>(std::move(slot), 0, x.shape(), x.strides(), x.dtype(), x.made_at()));
}
bool lies_at(const Tensor& grad, const Tensor& slot) {
  return grad.defined() && grad.raw_data() == slot.raw_data();
}

// True if x fills a slot of an arena.
bool fills_slot(const Tensor& x) {
  return lies_in_arena(x) && x.offset() == 0 && is_dense(x.shape(), x.strides()) &&
         x.storage()->bytes() == static_cast<std::size_t>(x.numel()) * size_bytes(x.dtype());
}

// True if next's slot follows x's in one arena.
bool is_followed_by(const Tensor& x, const Tensor& next) {
  const std::size_t slot =
      static_cast<std::size_t>(aligned(x.numel(), x.dtype())) * size_bytes(x.dtype());
  return fills_slot(x) && fills_slot(next) && memory_of(x) == memory_of(next) &&
         x.dtype() == next.dtype() && begin_of(x) + slot == begin_of(next);
}

// The leaf's gradient if it lies in an arena as the parameter does.
Tensor placed_gradient(const Tensor& parameter) {
  const Tensor& grad = leaf_of(parameter)->grad;
  const bool is_placed = grad.defined() && fills_slot(grad) && grad.dtype() == parameter.dtype() &&
                         grad.device() == parameter.device() &&
                         grad.strides() == parameter.strides();
  return is_placed ? grad : Tensor();
}

// True if two parameters that follow each other can share an arena: so do their gradients, or
// neither has a place yet.
bool may_share(const Tensor& x, const Tensor& next) {
  if (!is_followed_by(x, next)) return false;
  const Tensor grad = placed_gradient(x), next_grad = placed_gradient(next);
  if (!grad.defined() || !next_grad.defined()) return grad.defined() == next_grad.defined();
  return is_followed_by(grad, next_grad);
}

// Throws unless they can be trained together.
void check_parameters(const std::vector<Tensor>& parameters, Where where) {
  RINGRAD_CHECK(!parameters.empty(), ValueError, where,
                "arena: there must be at least one parameter; got none");
  std::set<const TensorImpl*> seen;
  for (const Tensor& parameter : parameters) {
    RINGRAD_CHECK(seen.insert(parameter.impl()).second, ValueError, where,
                  "arena: parameters must be distinct; got one of shape ", parameter.shape(),
                  " twice");
    RINGRAD_CHECK(leaf_of(parameter), AutogradError, where,
                  "arena: parameters must be leaves that require a gradient; got one of shape ",
                  parameter.shape(), " that is not; leave frozen ones out");
  }
}

}  // namespace

// Where an arena was made of a parameter in place, the gradient's slot shows it, also once the view
// that kept the parameter there is gone.
bool is_seen(const Tensor& parameter) {
  if (fills_slot(parameter) || parameter.numel() == 0) return false;
  return parameter.storage()->whole() || !parameter.storage()->unique() ||
         (leaf_of(parameter) && placed_gradient(parameter).defined());
}

ParameterArena::ParameterArena(const std::vector<Tensor>& parameters,
                               const MakeGradients& make_gradients, Where where) {
  check_parameters(parameters, where);
  for (const Tensor& parameter : parameters) {
    check_same_dtype("arena", parameters.front(), parameter, where);
    check_same_device("arena", parameters.front(), parameter, where);
  }
  std::vector<ParameterArena> arenas = make_arenas(parameters, make_gradients, where);
  RINGRAD_CHECK(arenas.size() == 1, ValueError, where,
                "arena: parameters that must not move must lie side by side; got ",
                parameters.size(), " parameters in ", arenas.size(), " places; use make_arenas");
  *this = std::move(arenas.front());
}

// Parameters whose slots follow each other, with the gap behind each, or a single one anywhere.
ParameterArena ParameterArena::in_place(const std::vector<Tensor>& run, bool is_alone,
                                        const MakeGradients& make_gradients, Where where) {
  ParameterArena arena;
  arena.parameters_ = run;
  const Tensor& first = run.front();
  const Ref<Storage> memory = memory_of(first);
  const std::size_t width = size_bytes(first.dtype()), begin = begin_of(first);
  std::int64_t end = 0;
  for (const Tensor& parameter : run) {
    arena.slices_.push_back({end, parameter.numel()});
    end += is_alone ? parameter.numel() : aligned(parameter.numel(), first.dtype());
  }
  end = std::min(end, static_cast<std::int64_t>((memory->bytes() - begin) / width));
  const std::size_t bytes = static_cast<std::size_t>(end) * width;
  arena.values_ = flat_part(memory, begin, begin + bytes, first.dtype(), first.made_at());
  const Tensor grad = placed_gradient(first);
  if (!grad.defined() || begin_of(grad) + bytes > memory_of(grad)->bytes()) {
    arena.place_gradients(make_gradients, where);
    return arena;
  }
  arena.gradients_ = flat_part(memory_of(grad), begin_of(grad), begin_of(grad) + bytes,
                               first.dtype(), first.made_at());
  for (const Tensor& parameter : run) arena.slots_.push_back(twin(leaf_of(parameter)->grad));
  return arena;
}

ParameterArena ParameterArena::packed(const std::vector<Tensor>& parameters,
                                      const MakeGradients& make_gradients, Where where) {
  ParameterArena arena;
  arena.parameters_ = parameters;
  const Tensor& first = parameters.front();
  std::int64_t end = 0;
  for (const Tensor& parameter : parameters) {
    arena.slices_.push_back({end, parameter.numel()});
    end += aligned(parameter.numel(), first.dtype());
  }
  arena.values_ =
      arena_memory(zeros({end}, {.dtype = first.dtype(), .device = first.device()}, where), where);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor value = slice_of(arena.values_, arena.slices_[i].offset, parameters[i], where);
    kernels::copy_(value, view::alias(parameters[i]), where);
    parameters[i].set_data(value, where);
  }
  arena.place_gradients(make_gradients, where);
  return arena;
}

// Makes memory for the gradients, and moves existing ones there.
void ParameterArena::place_gradients(const MakeGradients& make_gradients, Where where) {
  const std::int64_t count = values_.numel();
  const Options options{.dtype = values_.dtype(), .device = values_.device()};
  gradients_ = arena_memory(
      make_gradients ? make_gradients(count, options) : empty({count}, options, where), where);
  kernels::zero_(gradients_, where);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor gradient = slice_of(gradients_, slices_[i].offset, parameters_[i], where);
    Leaf* leaf = leaf_of(parameters_[i]);
    const Tensor old = leaf->has_gradient() ? parameters_[i].grad() : Tensor();
    if (old.defined()) kernels::copy_(gradient, old, where);
    leaf->set(twin(gradient));
    if (!old.defined()) leaf->clear();
    slots_.push_back(gradient);
  }
}

// An arena of only the result must find that both parts are whole storages and that the result
// fills them.
Tensor ParameterArena::flat_parameter(std::int64_t offset, std::int64_t count) const {
  const auto part_of = [&](const Tensor& flat) {
    const std::size_t width = size_bytes(flat.dtype());
    const Ref<Storage> part =
        Storage::slice(flat.storage(), static_cast<std::size_t>(offset) * width,
                       static_cast<std::size_t>(count) * width);
    return slice_of(flat_view(part, flat.dtype(), flat.made_at()), 0,
                    view::slice(flat, 0, offset, offset + count), flat.made_at());
  };
  const Tensor parameter = part_of(values_).set_requires_grad();
  leaf_of(parameter)->grad = part_of(gradients_);
  return parameter;
}

void ParameterArena::clear_gradients() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (Leaf* leaf = known_leaf_of(parameters_[i])) {
      if (lies_at(leaf->grad, slots_[i]))
        leaf->clear();
      else
        leaf->set({});  // other code may see the slot until settle()
    }
}

bool ParameterArena::has_gradient(std::size_t i) const {
  const Leaf* leaf = leaf_of(parameters_[i]);
  return leaf && leaf->has_gradient();
}

void ParameterArena::adopt_gradient(std::size_t i) const {
  Leaf* leaf = leaf_of(parameters_[i]);
  leaf->set(lies_at(leaf->grad, slots_[i]) ? leaf->grad : twin(slots_[i]));
}

void ParameterArena::settle() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) settle(i);
}

bool ParameterArena::is_in_place(std::size_t i) const {
  const auto width = static_cast<std::int64_t>(size_bytes(values_.dtype()));
  const Tensor& parameter = parameters_[i];
  return parameter.dtype() == values_.dtype() && parameter.device() == values_.device() &&
         parameter.raw_data() == values_.raw_data() + slices_[i].offset * width;
}

void ParameterArena::settle(std::size_t i) const {
  const Tensor &parameter = parameters_[i], &slot = slots_[i];
  RINGRAD_CHECK(is_in_place(i), AutogradError, parameter.storage()->changed_at(),
                "arena: a parameter must stay where it was packed; got one of shape ",
                parameter.shape(),
                " that was moved here, by Module::to(); move the module first, and then make "
                "optimizers and data-parallel wrappers");
  Leaf* leaf = leaf_of(parameter);
  if (!leaf) {  // frozen: a gradient of before waits elsewhere
    Leaf* known = known_leaf_of(parameter);
    if (known && known->has_gradient() && lies_at(known->grad, slot))
      known->set(kernels::clone(known->grad));
    return kernels::zero_(slot);
  }
  if (lies_at(leaf->grad, slot)) return leaf->settle();
  const bool is_there = leaf->has_gradient();
  if (is_there) kernels::copy_(slot, view::alias(leaf->grad));
  leaf->set(twin(slot));
  if (is_there) return;
  leaf->clear();
  leaf->settle();
}

std::vector<ParameterArena> make_arenas(const std::vector<Tensor>& parameters,
                                        const MakeGradients& make_gradients, Where where,
                                        const std::vector<bool>& alone) {
  if (parameters.empty()) return {};
  check_parameters(parameters, where);
  struct Staying {
    Tensor parameter;
    bool is_alone;
    std::size_t first;  // parameter here in its memory, or itself
  };
  std::vector<Staying> staying;
  std::map<const Storage*, std::size_t> first_in;
  std::vector<std::vector<Tensor>> moving;  // by dtype and device, in the order of the first ones
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& x = parameters[i];
    const bool is_alone = is_seen(x) || (i < alone.size() && alone[i]);
    if (is_alone || fills_slot(x)) {
      RINGRAD_CHECK(is_dense(x.shape(), x.strides()), ValueError, where, "arena: parameter ", i,
                    " must be dense, as others see it and it must stay where it is; got shape ",
                    x.shape(), " with strides ", x.strides(), "; give the optimizer a clone()");
      const std::size_t first =
          is_alone ? i : first_in.emplace(memory_of(x).get(), i).first->second;
      staying.push_back({x, is_alone, first});
      continue;
    }
    const auto group = std::find_if(moving.begin(), moving.end(), [&](const auto& candidate) {
      return candidate.front().dtype() == x.dtype() && candidate.front().device() == x.device();
    });
    if (group == moving.end())
      moving.push_back({x});
    else
      group->push_back(x);
  }
  // Memory is in the order of its first parameter here, which is the same on all ranks, and so is
  // what stays alone, wherever it lies; runs are in the order of memory.
  std::stable_sort(staying.begin(), staying.end(), [](const Staying& a, const Staying& b) {
    return std::pair(a.first, begin_of(a.parameter)) < std::pair(b.first, begin_of(b.parameter));
  });
  std::vector<ParameterArena> arenas;
  std::vector<Tensor> run;
  for (std::size_t i = 0; i < staying.size(); ++i) {
    run.push_back(staying[i].parameter);
    const bool goes_on = i + 1 < staying.size() && !staying[i].is_alone &&
                         !staying[i + 1].is_alone &&
                         may_share(run.back(), staying[i + 1].parameter);
    if (goes_on) continue;
    arenas.push_back(ParameterArena::in_place(run, staying[i].is_alone, make_gradients, where));
    run.clear();
  }
  for (const auto& group : moving)
    arenas.push_back(ParameterArena::packed(group, make_gradients, where));
  return arenas;
}

void clear_gradient(const Tensor& parameter) {
  Leaf* leaf = known_leaf_of(parameter);
  if (!leaf || !leaf->grad.defined()) return;
  if (lies_in_arena(leaf->grad))
    leaf->clear();
  else
    leaf->set({});
}

}  // namespace ringrad::nn
