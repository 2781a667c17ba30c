#include "ringrad/nn/module.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ostream>
#include <set>
#include <typeinfo>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/node.h"
#include "ringrad/core/base/scoped_value.h"
#include "ringrad/nn/arena.h"

namespace ringrad::nn {

// PyTorch's batch norms count batches, for a mean over all of them that this library does not have.
static const std::string kBatchCount = "num_batches_tracked";

std::string Module::describe() const {
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, nullptr), std::free);
  const std::string full = demangled ? demangled.get() : "Module";
  // The namespaces end at the last colon outside of angle brackets.
  std::size_t start = full.size();
  for (int depth = 0; start > 0 && (depth > 0 || full[start - 1] != ':'); --start)
    depth += (full[start - 1] == '>') - (full[start - 1] == '<');
  const std::string name = full.substr(start, full.find('<', start) - start);
  const auto is_part = [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c));
  };
  const bool has_name = std::all_of(name.begin(), name.end(), is_part);  // not {unnamed type#1}
  return has_name ? name : "Module";
}

Tensor Module::forward(const Tensor&, Where at) {
  throw ValueError(
      concat("forward: ", describe(), " must be called with its own arguments; got one tensor; ",
             "modules that take one override forward(const Tensor&, Where), with both parameters"),
      at);
}

// The calls of modules on this thread that have not returned, the innermost first.
struct Module::Call {
  explicit Call(const Module& module) : module(module) {}

  const Module& module;
  static inline thread_local Call* innermost = nullptr;
  const ScopedValue<Call*> scope{innermost, this};
};

Tensor Module::operator()(const Tensor& x, Where where) {
  check_not_moved_from(where);
  if (Call::innermost && !is_child_ && training_ && grad_enabled())
    check_registered(*Call::innermost, where);
  const Call call(*this);
  const TraceSpan span(trace_name(), "layer");
  try {
    return has_hooks() ? forward_with_hooks(x, where) : forward(x, where);
  } catch (Error& error) {
    if (is_child_) error.add_context(concat("in layer ", trace_name_));
    throw;
  }
}

Tensor Module::forward_with_hooks(const Tensor& x, Where where) {
  const std::shared_ptr<ModuleHooks> hooks = hooks_;
  Tensor input = x;
  hooks->before.for_each([&](const ForwardPreHook& hook) {
    if (const Tensor changed = hook(*this, input); changed.defined()) input = changed;
  });
  Tensor y = forward(input, where);
  hooks->after.for_each([&](const ForwardHook& hook) {
    if (const Tensor changed = hook(*this, input, y); changed.defined()) y = changed;
  });
  return y;
}

ModuleHooks& Module::hooks() {
  if (!hooks_) hooks_ = std::make_shared<ModuleHooks>();
  return *hooks_;
}

ModuleHookHandle Module::add_forward_pre_hook(ForwardPreHook hook) {
  const int id = hooks().before.add(std::move(hook));
  return {hooks_, true, id};
}

ModuleHookHandle Module::add_forward_hook(ForwardHook hook) {
  const int id = hooks().after.add(std::move(hook));
  return {hooks_, false, id};
}

void ModuleHookHandle::remove() {
  const std::shared_ptr<ModuleHooks> hooks = hooks_.lock();
  if (!hooks) return;
  is_before_ ? hooks->before.remove(id_) : hooks->after.remove(id_);
}

void Module::check_not_moved_from(Where where) const {
  RINGRAD_CHECK(
      !moved_from_.value, ValueError, where,
      "forward: a module must not be called after it was moved from; call the module that "
      "it was moved to");
}

// Training updates the parameters that the outer modules list, so this module's must be among them.
void Module::check_registered(const Call& outer, Where where) const {
  std::set<const TensorImpl*> listed;
  for (const Call* call = &outer; call; call = call->scope.before())
    for (const Tensor& parameter : call->module.parameters()) listed.insert(parameter.impl());
  for (const auto& [name, parameter] : named_parameters())
    RINGRAD_CHECK(!parameter.requires_grad() || listed.contains(parameter.impl()), ValueError,
                  where, "forward: a module must register the layers that it trains; got ",
                  describe(), " in ", outer.module.describe(), ", which does not list its ", name,
                  "; declare the member as a reference, as in nn::Linear& fc = child(\"fc\", ",
                  "nn::Linear(2, 2)); in Python as self.fc = nn.Linear(2, 2), or in an "
                  "nn.ModuleList");
}

Tensor Module::forward_relu(const Tensor& x, Where at) { return relu(forward(x, at), at); }

void Module::collect(const std::string& prefix, std::vector<NamedTensor> Module::*kind,
                     std::vector<NamedTensor>& result) const {
  for (const auto& [name, tensor] : this->*kind) result.emplace_back(prefix + name, tensor);
  for (const auto& [name, module] : children_) module->collect(prefix + name + '.', kind, result);
}

std::vector<NamedTensor> Module::named_parameters() const {
  std::vector<NamedTensor> result;
  collect("", &Module::parameters_, result);
  std::set<const TensorImpl*> seen;
  std::erase_if(result,
                [&](const NamedTensor& named) { return !seen.insert(named.second.impl()).second; });
  return result;
}

std::vector<NamedTensor> Module::named_buffers() const {
  std::vector<NamedTensor> result;
  collect("", &Module::buffers_, result);
  return result;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> result;
  for (auto& [name, tensor] : named_parameters()) result.push_back(std::move(tensor));
  return result;
}

std::int64_t Module::num_parameters() const {
  std::int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

void Module::train(bool training) {
  training_ = training;
  for (const auto& [name, module] : children_) module->train(training);
}

void Module::zero_grad() {
  for (const Tensor& parameter : parameters()) clear_gradient(parameter);
}

StateDict Module::state_dict() const {
  std::vector<NamedTensor> all;
  collect("", &Module::parameters_, all);
  collect("", &Module::buffers_, all);
  StateDict state;
  for (auto& [name, tensor] : all) state.emplace(name, std::move(tensor));
  return state;
}

void Module::load_state_dict(const StateDict& state, Where where) {
  const StateDict own = state_dict();
  StateDict given = state;
  std::erase_if(given, [&](const auto& entry) {
    const std::string& name = entry.first;
    return (name == kBatchCount || name.ends_with("." + kBatchCount)) && !own.contains(name);
  });
  copy_state("load_state_dict", own, given, where);
}

void Module::to(Device device, Where where) {
  const NoGradGuard guard;
  for (auto kind : {&Module::parameters_, &Module::buffers_})
    for (const auto& [name, tensor] : this->*kind) {
      tensor.set_data(ringrad::to(tensor, device, where), where);
      if (Leaf* leaf = known_leaf_of(tensor)) leaf->follow(tensor);
    }
  for (const auto& [name, module] : children_) module->to(device, where);
}

void Module::to(DType dtype, Where where) {
  check_floating("to", dtype, where);
  const NoGradGuard guard;
  for (auto kind : {&Module::parameters_, &Module::buffers_})
    for (const auto& [name, tensor] : this->*kind) {
      if (!is_floating(tensor.dtype())) continue;
      const Tensor converted = ringrad::to(tensor, dtype, where);
      tensor.impl()->dtype = dtype;
      tensor.set_data(converted, where);
      if (Leaf* leaf = known_leaf_of(tensor)) leaf->follow(tensor);
    }
  for (const auto& [name, module] : children_) module->to(dtype, where);
}

Tensor Module::to(const Tensor& x, Device device, Where where) {
  return ringrad::to(x, device, where);
}

Tensor Module::to(const Tensor& x, DType dtype, Where where) {
  return ringrad::to(x, dtype, where);
}

void Module::visit(const std::function<void(const std::string&, Module&)>& visit) {
  visit("", *this);
  for (std::size_t i = 0; i < children_.size(); ++i) {
    const auto child = children_[i];  // a copy, because visit may register others
    child.second->visit([&](const std::string& path, Module& below) {
      visit(path.empty() ? child.first : child.first + '.' + path, below);
    });
  }
}

void Module::check_name(const std::string& name, Where where) const {
  // Nor may one name begin with the other's path: a child "layer1" could hold a child "0", and its
  // "layer1.0.weight" would also be that of a child "layer1.0".
  const auto is_taken = [&](const auto& entries) {
    return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) {
      return (entry.first + '.').starts_with(name + '.') ||
             (name + '.').starts_with(entry.first + '.');
    });
  };
  const bool is_path = !name.empty() && !name.starts_with('.') && !name.ends_with('.') &&
                       name.find("..") == std::string::npos;
  RINGRAD_CHECK(is_path && !is_taken(parameters_) && !is_taken(buffers_) && !is_taken(children_),
                ValueError, where,
                "register: a name must be words joined by dots, and neither taken nor part of "
                "another's path; got \"",
                name, "\" in ", describe());
}

Tensor Module::parameter(const std::string& name, const Tensor& value, Where where) {
  check_name(name, where);
  value.set_requires_grad(true, where);
  parameters_.emplace_back(name, value);
  return value;
}

Tensor Module::buffer(const std::string& name, const Tensor& value, Where where) {
  check_name(name, where);
  buffers_.emplace_back(name, value);
  return value;
}

bool Module::holds(const Module& other) const {
  return this == &other || std::any_of(children_.begin(), children_.end(), [&](const auto& child) {
           return child.second->holds(other);
         });
}

Module& Module::add_child(const std::string& name, std::shared_ptr<Module> module, Where where) {
  check_name(name, where);
  RINGRAD_CHECK(module, ValueError, where, "register: child ", name,
                " must be a module; got null in ", describe());
  RINGRAD_CHECK(!module->holds(*this), ValueError, where, "register: child ", name,
                " must not hold the module that it becomes part of; got a circle through ",
                describe());
  module->trace_name_ = concat(name, ' ', module->describe());
  module->is_child_ = true;
  children_.emplace_back(name, std::move(module));
  return *children_.back().second;
}

void Module::print(std::ostream& out, int indent) const {
  out << describe();
  for (const auto& [name, module] : children_) {
    out << '\n' << std::string(static_cast<std::size_t>(indent + 2), ' ') << name << ": ";
    module->print(out, indent + 2);
  }
}

std::ostream& operator<<(std::ostream& out, const Module& module) {
  module.print(out, 0);
  return out;
}

}  // namespace ringrad::nn
