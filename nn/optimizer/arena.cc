#include "ringrad/nn/optimizer/arena.h"

#include <algorithm>
#include <set>

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

}  // namespace

ParameterArena::ParameterArena(const std::vector<Tensor>& parameters,
                               const MakeGradients& make_gradients, Where where)
    : parameters_(parameters) {
  const std::int64_t end = lay_out(where);
  if (find_existing()) return;
  const Options options{.dtype = parameters.front().dtype(), .device = parameters.front().device()};
  values_ = zeros({end}, options, where);
  gradients_ = make_gradients ? make_gradients(end, options) : empty({end}, options, where);
  kernels::zero_(gradients_, where);
  pack(where);
}

std::optional<ParameterArena> ParameterArena::existing(const std::vector<Tensor>& parameters,
                                                       Where where) {
  ParameterArena arena;
  arena.parameters_ = parameters;
  arena.lay_out(where);
  if (arena.find_existing()) return arena;
  return {};
}

// Assigns each parameter its place; returns the number of elements.
std::int64_t ParameterArena::lay_out(Where where) {
  RINGRAD_CHECK(!parameters_.empty(), ValueError, where,
                "arena: there must be at least one parameter; got none");
  const Tensor& first = parameters_.front();
  const std::int64_t alignment =
      kAlignmentBytes / static_cast<std::int64_t>(size_bytes(first.dtype()));
  std::set<const TensorImpl*> seen;
  std::int64_t end = 0;
  for (const Tensor& parameter : parameters_) {
    RINGRAD_CHECK(seen.insert(parameter.impl()).second, ValueError, where,
                  "arena: parameters must be distinct; got one of shape ", parameter.shape(),
                  " twice");
    RINGRAD_CHECK(leaf_of(parameter), AutogradError, where,
                  "arena: parameters must be leaves that require a gradient; got one of shape ",
                  parameter.shape(), " that is not; leave frozen ones out");
    check_same_dtype("arena", first, parameter, where);
    check_same_device("arena", first, parameter, where);
    slices_.push_back({end, parameter.numel()});
    end += (parameter.numel() + alignment - 1) / alignment * alignment;
  }
  return end;
}

// True if every parameter and gradient is a slice, at our offset, of one common pair of storages.
bool ParameterArena::find_existing() {
  const Ref<Storage> values = parameters_.front().storage()->whole();
  const Tensor first_grad = leaf_of(parameters_.front())->grad;
  if (!values || !first_grad.defined() || !first_grad.storage()->whole()) return false;
  const Ref<Storage> gradients = first_grad.storage()->whole();
  const auto width = static_cast<std::int64_t>(size_bytes(parameters_.front().dtype()));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& grad = leaf_of(parameters_[i])->grad;
    const auto lies_in = [&](const Tensor& x, const Ref<Storage>& whole) {
      return x.storage()->whole() == whole &&
             x.raw_data() == whole->data() + slices_[i].offset * width;
    };
    if (!lies_in(parameters_[i], values) || !grad.defined() || !lies_in(grad, gradients))
      return false;
  }
  const Slice& last = slices_.back();
  const auto end = static_cast<std::size_t>((last.offset + last.count) * width);
  if (values->bytes() < end || values->bytes() >= end + kAlignmentBytes) return false;
  for (const Tensor& parameter : parameters_) slots_.push_back(leaf_of(parameter)->grad);
  values_ = flat_view(values, parameters_.front().dtype(), parameters_.front().made_at());
  gradients_ = flat_view(gradients, parameters_.front().dtype(), parameters_.front().made_at());
  return true;
}

void ParameterArena::pack(Where where) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i];
    const Tensor value = slice_of(values_, slices_[i].offset, parameter, where);
    kernels::copy_(value, view::alias(parameter), where);
    const Tensor gradient = slice_of(gradients_, slices_[i].offset, parameter, where);
    Leaf* leaf = leaf_of(parameter);
    const Tensor old = leaf->has_gradient() ? parameter.grad() : Tensor();
    if (old.defined()) kernels::copy_(gradient, old, where);
    parameter.set_data(value, where);
    leaf->set(gradient);
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
    if (Leaf* leaf = leaf_of(parameters_[i])) {
      leaf->set(slots_[i]);
      leaf->clear();
    }
}

bool ParameterArena::has_gradient(std::size_t i) const {
  const Leaf* leaf = leaf_of(parameters_[i]);
  return leaf && leaf->has_gradient();
}

void ParameterArena::adopt_gradient(std::size_t i) const {
  leaf_of(parameters_[i])->set(slots_[i]);
}

void ParameterArena::settle() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) settle(i);
}

void ParameterArena::settle(std::size_t i) const {
  const Tensor &parameter = parameters_[i], &slot = slots_[i];
  RINGRAD_CHECK(parameter.storage()->whole() == values_.storage(), AutogradError,
                parameter.storage()->changed_at(),
                "arena: a parameter must stay where it was packed; got one of shape ",
                parameter.shape(),
                " that was moved here, by Module::to() or into another arena; move the module "
                "first, and give all optimizers and data-parallel wrappers the same parameters");
  Leaf* leaf = leaf_of(parameter);
  if (!leaf) return kernels::zero_(slot);  // frozen
  if (!leaf->grad.defined()) {
    leaf->set(slot);
    leaf->clear();
  }
  if (leaf->grad.raw_data() == slot.raw_data()) return leaf->settle();
  kernels::copy_(slot, view::alias(leaf->grad));
  leaf->set(slot);
}

std::vector<ParameterArena> make_arenas(const std::vector<Tensor>& parameters,
                                        const MakeGradients& make_gradients, Where where) {
  // Groups are in the order of their first parameters.
  const auto group_by = [](const std::vector<Tensor>& list, const auto& are_alike) {
    std::vector<std::vector<Tensor>> groups;
    for (const Tensor& x : list) {
      const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& candidate) {
        return are_alike(candidate.front(), x);
      });
      if (group == groups.end())
        groups.push_back({x});
      else
        group->push_back(x);
    }
    return groups;
  };
  std::vector<ParameterArena> arenas;
  std::vector<Tensor> others;
  for (const auto& group : group_by(parameters, [](const Tensor&a, const Tensor&b) {
         return a.storage()->whole() && a.storage()->whole() == b.storage()->whole();
       })) {
    // An arena may have been made in another order, such as that of a module.
    std::vector<Tensor> in_memory_order = group;
    std::stable_sort(in_memory_order.begin(), in_memory_order.end(),
                     [](const Tensor& a, const Tensor& b) { return a.raw_data() < b.raw_data(); });
    auto arena = ParameterArena::existing(in_memory_order, where);
    if (arena)
      arenas.push_back(std::move(*arena));
    else
      others.insert(others.end(), group.begin(), group.end());
  }
  for (const auto& group : group_by(others, [](const Tensor&a, const Tensor&b) {
         return a.dtype() == b.dtype() && a.device() == b.device();
       }))
    arenas.emplace_back(group, make_gradients, where);
  return arenas;
}

void clear_gradient(const Tensor& parameter) {
  Leaf* leaf = leaf_of(parameter);
  if (!leaf || !leaf->grad.defined()) return;
  if (leaf->grad.storage()->whole())
    leaf->clear();
  else
    leaf->set({});
}

}  // namespace ringrad::nn
