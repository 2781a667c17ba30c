// Module: parameters, buffers and child modules by name, and a forward function.
//
//     struct Net : nn::Module {
//       nn::Linear& hidden = child("hidden", nn::Linear(784, 128));
//       nn::Linear& output = child("output", nn::Linear(128, 10));
//       Tensor forward(const Tensor& x, Where) override { return output(relu(hidden(x))); }
//     };
//
// A layer that is a plain member, `nn::Linear hidden{784, 128};`, is in no list of parameters, so
// nothing would train it: calling it in forward() throws.
//
// Names join with dots: "hidden.weight". A module owns its children; a reference returned by
// child() stays valid as long as the module lives, even if the module itself is moved. Modules can
// be moved but not copied, so two modules never share parameters by accident.

#pragma once

#include <concepts>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/autograd/hook_list.h"
#include "ringrad/core/tensor.h"
#include "ringrad/core/trace.h"
#include "ringrad/nn/state_dict.h"

namespace ringrad::nn {

/// A parameter or a buffer, and its name in the module: "layers.0.weight".
using NamedTensor = std::pair<std::string, Tensor>;

/// True if M declares forward(const Tensor&), which hides Module::forward and which no module
/// calls.
template <class M>
inline constexpr bool kForwardLacksWhere =
    (
        requires { static_cast<Tensor (M::*)(const Tensor&)>(&M::forward); } ||
        requires { static_cast<Tensor (M::*)(const Tensor&) const>(&M::forward); } ||
        requires { static_cast<Tensor (M::*)(Tensor)>(&M::forward); }) &&
    !requires {
  static_cast<Tensor (M::*)(const Tensor&, Where)>(&M::forward);
};

class Module;

/// Runs before forward(x). A defined result replaces x.
using ForwardPreHook = std::function<Tensor(Module& module, const Tensor& x)>;
/// Runs after y = forward(x). A defined result replaces y.
using ForwardHook = std::function<Tensor(Module& module, const Tensor& x, const Tensor& y)>;

/// The hooks of a module.
struct ModuleHooks {
  HookList<ForwardPreHook> before;
  HookList<ForwardHook> after;
};

/// remove() removes the hook; destroying the handle leaves the hook in place.
class ModuleHookHandle {
 public:
  ModuleHookHandle(std::weak_ptr<ModuleHooks> hooks, bool is_before, int id)
      : hooks_(std::move(hooks)), is_before_(is_before), id_(id) {}
  void remove();

 private:
  std::weak_ptr<ModuleHooks> hooks_;
  bool is_before_;
  int id_;
};

class Module {
 public:
  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  virtual ~Module() = default;

  /// The module's function. A module with another signature declares its own overload; this one
  /// then throws ValueError.
  virtual Tensor forward(const Tensor& x, Where at = Where::current());

  /// relu(forward(x)). Modules that can do both in one pass over memory override it, and Sequential
  /// uses it.
  virtual Tensor forward_relu(const Tensor& x, Where at = Where::current());

  /// forward() between the hooks, shown in a trace (core/trace.h). If the module is another's
  /// child, errors name it.
  ///
  /// Throws:  ValueError if the module was moved from, or if another module's forward() calls this
  ///          one in training but has not registered this one's parameters
  Tensor operator()(const Tensor& x, Where where = Where::current());

  /// Adds a hook to calls of operator(). Sequential, Residual and the wrappers that train modules
  /// in parallel call modules that way. A module that calls another's forward() itself does not run
  /// the other's hooks; nor do overloads of forward() with other arguments. A hook may add and
  /// remove hooks, itself included: those that it adds run from the next call on
  /// (autograd/hook_list.h).
  ModuleHookHandle add_forward_pre_hook(ForwardPreHook hook);
  ModuleHookHandle add_forward_hook(ForwardHook hook);
  std::size_t num_hooks() const {
    return hooks_ ? hooks_->before.size() + hooks_->after.size() : 0;
  }
  bool has_hooks() const { return num_hooks() > 0; }
  /// From now on the two modules have the same hooks, those of `other`.
  void share_hooks(Module& other) {
    other.hooks();
    hooks_ = other.hooks_;
  }

  /// The name in traces and errors: the module's name within its parent, and its type.
  const char* trace_name() const { return trace_name_.c_str(); }

  /// One line that describes the module without its children: "Linear(784, 128)". By default the
  /// name of its class: "Net".
  virtual std::string describe() const;

  /// All tensors of this module and those below it, in order of registration, named by their path.
  /// A parameter that is registered more than once, such as a weight that two layers share, is
  /// listed once, under its first name.
  std::vector<NamedTensor> named_parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  std::vector<Tensor> parameters() const;
  std::int64_t num_parameters() const;

  /// Sets training or evaluation mode for this module and all below it: batch norm and dropout
  /// differ. An override, for instance of a layer that stays frozen, must call its base class's
  /// train() as well.
  virtual void train(bool training = true);
  void eval() { train(false); }
  /// The same for this module alone.
  void set_training(bool training) { training_ = training; }
  bool is_training() const { return training_; }

  /// Clears the gradients of all parameters.
  void zero_grad();

  /// Parameters and buffers by name, under all their names; the tensors are the module's own, which
  /// training changes. clone_state(state_dict()) keeps their values.
  StateDict state_dict() const;

  /// Copies values into the parameters and buffers. Ignores entries called num_batches_tracked,
  /// which PyTorch's batch norms have, unless this module has one of that name.
  /// Throws:  ValueError, ShapeError or DTypeError that lists missing and unexpected names, and
  ///          tensors that differ in shape or dtype
  void load_state_dict(const StateDict& state, Where where = Where::current());

  /// Moves every parameter and buffer to another device, or casts the floating ones. They stay the
  /// same leaves; gradients are dropped.
  void to(Device device, Where where = Where::current());
  void to(DType dtype, Where where = Where::current());

  /// A copy of a tensor on another device or of another dtype (autograd/movement.h). These
  /// overloads exist because the members above hide those functions from members.
  static Tensor to(const Tensor& x, Device device, Where where = Where::current());
  static Tensor to(const Tensor& x, DType dtype, Where where = Where::current());

  /// Calls visit(path, module) for this module and all below it, parents first.
  void visit(const std::function<void(const std::string& path, Module& module)>& visit);

 protected:
  /// Registers a trainable tensor and sets requires_grad. A name may be a path, "downsample.0".
  /// Throws ValueError for a name that is taken or part of another's path.
  Tensor parameter(const std::string& name, const Tensor& value, Where where = Where::current());
  /// Registers a tensor that is state but not trained.
  Tensor buffer(const std::string& name, const Tensor& value, Where where = Where::current());
  /// Registers a module and returns it. In C++ the parent alone owns it; in Python its other names
  /// keep it alive as well. Throws ValueError for null, or a module that holds this one.
  template <std::derived_from<Module> M>
  M& child(const std::string& name, M module, Where where = Where::current()) {
    return static_cast<M&>(add_child(name, made_shared(std::move(module)), where));
  }
  template <std::derived_from<Module> M>
  static std::shared_ptr<Module> made_shared(M module) {
    static_assert(!kForwardLacksWhere<M>,
                  "forward(const Tensor&) is never called; override the one of Module: "
                  "Tensor forward(const Tensor& x, Where) override");
    return std::make_shared<M>(std::move(module));
  }
  Module& add_child(const std::string& name, std::shared_ptr<Module> module,
                    Where where = Where::current());

  /// Throws ValueError if this module's contents were moved to another.
  void check_not_moved_from(Where where) const;

  /// The parameters and buffers of this module without those below it.
  const std::vector<NamedTensor>& own_parameters() const { return parameters_; }
  const std::vector<NamedTensor>& own_buffers() const { return buffers_; }

  /// The i-th child, and its name.
  Module& child_at(std::size_t i) { return *children_[i].second; }
  const std::shared_ptr<Module>& shared_child(std::size_t i) const { return children_[i].second; }
  const std::string& child_name(std::size_t i) const { return children_[i].first; }
  std::size_t num_children() const { return children_.size(); }
  /// Gives away the i-th child; an empty place stays behind.
  std::pair<std::string, std::shared_ptr<Module>> release_child(std::size_t i) {
    return std::move(children_[i]);
  }

 private:
  friend std::ostream& operator<<(std::ostream& out, const Module& module);

  // A flag that a move sets in the object that is left behind.
  struct MovedFrom {
    MovedFrom() = default;
    MovedFrom(MovedFrom&& other) noexcept : value(std::exchange(other.value, true)) {}
    MovedFrom& operator=(MovedFrom&& other) noexcept {
      value = std::exchange(other.value, true);
      return *this;
    }
    bool value = false;
  };
  struct Call;

  ModuleHooks& hooks();
  bool holds(const Module& other) const;  // itself and all below it
  void check_registered(const Call& outer, Where where) const;
  Tensor forward_with_hooks(const Tensor& x, Where where);
  void check_name(const std::string& name, Where where) const;
  void collect(const std::string& prefix, std::vector<NamedTensor> Module::*kind,
               std::vector<NamedTensor>& result) const;
  void print(std::ostream& out, int indent) const;

  bool training_ = true;
  bool is_child_ = false;
  MovedFrom moved_from_;
  std::shared_ptr<ModuleHooks> hooks_;  // null until one is added
  std::string trace_name_ = "model";
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
};

/// Prints the tree of modules, one per line.
std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace ringrad::nn
