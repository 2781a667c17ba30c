// Functions of Python that C++ calls.
//
// A std::function that is made of a Python function owns a Callback. What it returns is converted,
// or is a DTypeError that names the operation, the function and what must be returned.
//
// Python's garbage collector does not look into C++, so a hook that refers to its own tensor would
// keep both for ever:
//
//     Tensor of Python --> TensorImpl --> Node --> hook --> Callback --> function of Python
//            ^---------------------------------------------------------------'
//
// So a callback may belong to a node, and a Tensor of Python shows the collector the callbacks of
// the nodes that it alone keeps alive. A Module of Python does so for its own parameters, which its
// members may hold as well: self.scale = self.parameter("scale", x). A callback of a node that
// other code in C++ also holds (a layer, an optimizer, a graph that is still needed) is not shown:
// it ends with that code.

#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ringrad/autograd/node.h"

namespace nb = nanobind;

namespace ringrad::python {

/// A function of Python. Made and called with the interpreter's lock; ends on any thread.
class Callback : public std::enable_shared_from_this<Callback> {
 public:
  explicit Callback(nb::object function) : function_(std::move(function)) {}
  ~Callback();
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  /// Not valid after release().
  const nb::object& function() const { return function_; }
  nb::object release() { return std::move(function_); }

  /// The operation that calls it, for errors.
  void set_operation(const char* operation) { operation_ = operation; }
  [[noreturn]] void throw_wrong_result(const char* must, nb::handle got) const;

  /// REQUIRES: a function that `node` owns is its only other owner, at the latest when the caller
  ///           returns
  void belong_to(const Node* node);
  const Node* node() const { return node_; }

 private:
  nb::object function_;
  const char* operation_ = "callback";
  const Node* node_ = nullptr;
};

template <class T>
inline constexpr const char* kResultOf = "of its type";
template <>
inline constexpr const char* kResultOf<Tensor> = "a Tensor";
template <>
inline constexpr const char* kResultOf<std::optional<Tensor>> = "a Tensor or None";
template <>
inline constexpr const char* kResultOf<std::vector<Tensor>> = "a list of Tensors";
template <>
inline constexpr const char* kResultOf<double> = "a number";

/// What a std::function made of a Python function holds.
template <class Return, class... Arguments>
struct CallbackCall {
  std::shared_ptr<Callback> callback;

  Return operator()(Arguments... arguments) const {
    const nb::gil_scoped_acquire locked;
    Return result{};
    if (!callback->function().is_valid()) return result;
    const nb::object got = callback->function()(static_cast<Arguments&&>(arguments)...);
    if (!nb::try_cast(got, result)) callback->throw_wrong_result(kResultOf<Return>, got);
    return result;
  }
};

/// The callback of a function that was made of a Python function; null for another.
template <class Return, class... Arguments>
std::shared_ptr<Callback> callback_of(const std::function<Return(Arguments...)>& function) {
  const auto* const call = function.template target<CallbackCall<Return, Arguments...>>();
  return call ? call->callback : nullptr;
}

/// The function; if it is Python's, its errors name the operation.
template <class Return, class... Arguments>
const std::function<Return(Arguments...)>& for_operation(
    const char* operation, const std::function<Return(Arguments...)>& function) {
  if (const auto callback = callback_of(function)) callback->set_operation(operation);
  return function;
}

/// The result y of an operation. If the operation keeps the function for its backward, y's node
/// owns the callback.
template <class Return, class... Arguments>
Tensor keeping(Tensor y, const std::function<Return(Arguments...)>& function) {
  Node* const node = y.defined() ? node_of(y) : nullptr;
  if (const auto callback = callback_of(function); callback && node) callback->belong_to(node);
  return y;
}

/// A hook of a tensor, for Python. It keeps neither the tensor nor the hook alive.
class CallbackHandle {
 public:
  CallbackHandle(const std::shared_ptr<Callback>& callback, int id)
      : callback_(callback), id_(id) {}
  void remove();

 private:
  std::weak_ptr<Callback> callback_;
  int id_;
};

/// Counts calls of C++ without the interpreter's lock. While there are any, the owners of nodes may
/// change during a collection. Changed with the lock only.
inline int num_unlocked_calls = 0;
struct UnlockedCall {
  UnlockedCall() { ++num_unlocked_calls; }
  ~UnlockedCall() { --num_unlocked_calls; }
  UnlockedCall(const UnlockedCall&) = delete;
  UnlockedCall& operator=(const UnlockedCall&) = delete;
};

/// Shows the collector the callbacks of nodes that `num_tensors` Tensors like x alone keep alive.
int traverse_callbacks(const Tensor& x, int num_tensors, visitproc visit, void* arg);
/// Takes their functions away. The end of a function may run code of Python's.
std::vector<nb::object> release_callbacks(const Tensor& x, int num_tensors);

// What the class of tensors tells Python's garbage collector.
int traverse_tensor(PyObject* self, visitproc visit, void* arg);
int clear_tensor(PyObject* self);

}  // namespace ringrad::python

namespace nanobind::detail {

template <class Return, class... Arguments>
struct type_caster<std::function<Return(Arguments...)>> {
  NB_TYPE_CASTER(std::function<Return(Arguments...)>,
                 const_name("collections.abc.Callable[[") +
                     concat(make_caster<Arguments>::Name...) + const_name("], ") +
                     make_caster<Return>::Name + const_name("]"))

  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    if (!PyCallable_Check(source.ptr())) return false;
    value = ringrad::python::CallbackCall<Return, Arguments...>{
        std::make_shared<ringrad::python::Callback>(borrow(source))};
    return true;
  }

  static handle from_cpp(const Value& function, rv_policy, cleanup_list*) noexcept {
    if (const auto callback = ringrad::python::callback_of(function))
      return handle(callback->function()).inc_ref();
    return function ? cpp_function(function).release() : none().release();
  }
};

}  // namespace nanobind::detail
