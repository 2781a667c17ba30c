// What all bindings share: conversions, and how a call reaches C++.

#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <type_traits>

#include "callback.h"
#include "ringrad/linalg.h"
#include "ringrad/parallel.h"
#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/ringrad.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace ringrad::python {

/// The line of the Python code that calls; its text lives as long as the process.
Where caller();

/// Releases the interpreter's lock for its lifetime.
class Unlocked {
 public:
  Unlocked() = default;
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_ = PyEval_SaveThread();
};

/// Calls `function(caller())` without the interpreter's lock, so that other ranks run meanwhile.
template <class Function>
auto called(Function function) {
  const Where where = caller();
  const UnlockedCall counted;
  const Unlocked unlocked;
  return function(where);
}

/// Defines a function, and the same as a method of the class of its first argument.
template <class Class, class Function, class... Rest>
void both(nb::module_& m, Class& cls, const char* name, Function function, const char* doc,
          const nb::arg& self, const Rest&... rest) {
  m.def(name, function, doc, self, rest...);
  cls.def(name, function, doc, rest...);
}

// None stands for an undefined tensor.
inline std::optional<Tensor> defined(const Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}
inline Tensor or_undefined(const Tensor* x) { return x ? *x : Tensor(); }

/// The guards of this thread's with statements, innermost last.
inline thread_local std::vector<std::shared_ptr<void>> open_guards;

/// A guard for Python's with statement: made where it begins, ended where it ends.
template <class Guard, class... Arguments>
class Scope {
 public:
  explicit Scope(std::tuple<Arguments...> arguments = {}) : arguments_(std::move(arguments)) {}
  ~Scope() { end(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  void enter() {
    RINGRAD_CHECK(guard_.expired(), ValueError, caller(),
                  "with: a guard must end before it begins again; got one that is open");
    std::apply(
        [&](const Arguments&... values) {
          open_guards.push_back(std::make_shared<Guard>(values...));
        },
        arguments_);
    guard_ = open_guards.back();
  }
  void exit(const nb::args&) {
    RINGRAD_CHECK(end() == 1, ValueError, caller(),
                  "with: a guard must end on the thread where it began, after those within it; got "
                  "another order, as when two generators take turns");
  }

 private:
  // Ends the guard and those within it, so that each restores what it found. Returns how many they
  // were: 0 on another thread, whose mode is not this thread's.
  std::size_t end() {
    const auto place = std::find(open_guards.begin(), open_guards.end(), guard_.lock());
    const auto count = static_cast<std::size_t>(open_guards.end() - place);
    for (std::size_t i = 0; i < count; ++i) open_guards.pop_back();
    return count;
  }

  std::tuple<Arguments...> arguments_;
  std::weak_ptr<void> guard_;
};

/// Several numbers that are arguments of their own: zeros(2, 3).
inline Shape spread(const char* operation, const nb::args& numbers) {
  if (numbers.size() < 2) throw nb::next_overload();
  std::vector<std::int64_t> extents;
  RINGRAD_CHECK(nb::try_cast(nb::handle(numbers), extents), DTypeError, caller(), operation,
                ": there must be whole numbers of 64 bits, or one list of them; got ",
                nb::repr(numbers).c_str());
  return Shape(std::span<const std::int64_t>(extents));
}

/// What operator<< prints.
template <class T>
std::string printed(const T& value) {
  return concat(value);
}

/// What copy and pickle get for an object that is neither copied nor written as one.
template <class T>
void refuse_copy(const T& self, int) {
  throw nb::type_error(
      concat(
          nb::type_name(nb::find(&self).type()).c_str(),
          ": it must be copied, or written to a file, by its tensors; make a new one, and give it "
          "load_state_dict(state_dict()) of this one; files are written by "
          "write_tensors(path, state_dict())")
          .c_str());
}

void bind_errors(nb::module_& m);
void bind_enums(nb::module_& m, nb::module_& nn);
nb::class_<Tensor> bind_tensor(nb::module_& m);
void bind_operators(nb::module_& m, nb::class_<Tensor>& tensor);
void bind_symbols(nb::class_<Tensor>& tensor);
void bind_memory(nb::module_& m, nb::class_<Tensor>& tensor);
/// The buffer protocol and garbage collection, for the class of tensors.
PyType_Slot* tensor_slots();
void bind_linalg(nb::module_& m);
void bind_module(nb::module_& m);
/// Garbage collection, for every class of modules that is bound by hand.
PyType_Slot* module_slots();
void bind_containers(nb::module_& m);
void bind_optimizer(nb::module_& m);
void bind_nn(nb::module_& m);
void bind_ranks(nb::module_& m);
void bind_plan_types(nb::module_& m);
void bind_plan(nb::module_& m);
/// From now on, arguments that fit no signature are explained in one line: by functions of a module
/// or class, and of those within.
void explain_arguments(nb::handle scope);

}  // namespace ringrad::python

namespace nanobind::detail {

/// A tensor is no list of its rows.
template <>
struct type_caster<std::vector<ringrad::Tensor>>
    : list_caster<std::vector<ringrad::Tensor>, ringrad::Tensor> {
  template <class Flags>
  bool from_python(handle source, Flags flags, cleanup_list* cleanup) noexcept {
    return !isinstance<ringrad::Tensor>(source) && list_caster::from_python(source, flags, cleanup);
  }
};

template <>
struct type_caster<ringrad::Scalar> {
  NB_TYPE_CASTER(ringrad::Scalar, const_name("float | int | bool"))
  type_caster() : value(0) {}
  bool from_python(handle source, uint8_t flags, cleanup_list* cleanup) noexcept;
  static handle from_cpp(const ringrad::Scalar& number, rv_policy, cleanup_list*) noexcept;
};

template <>
struct type_caster<ringrad::Shape> {
  NB_TYPE_CASTER(ringrad::Shape, io_name("collections.abc.Sequence[int] | int", "tuple[int, ...]"))
  bool from_python(handle source, uint8_t flags, cleanup_list* cleanup) noexcept;
  static handle from_cpp(const ringrad::Shape& shape, rv_policy, cleanup_list*) noexcept;
};

/// One number stands for as many as there are: stride=2.
template <class Number, std::size_t count>
requires std::is_arithmetic_v<Number>
struct type_caster<std::array<Number, count>> {
  using Array = std::array<Number, count>;
  NB_TYPE_CASTER(Array, const_name<std::is_floating_point_v<Number>>(
                            io_name("collections.abc.Sequence[float] | float", "list[float]"),
                            io_name("collections.abc.Sequence[int] | int", "list[int]")))

  bool from_python(handle source, uint8_t flags, cleanup_list* cleanup) noexcept {
    make_caster<Number> one;
    make_caster<std::vector<Number>> many;
    if (one.from_python(source, flags, cleanup)) {
      value.fill(one.value);
      return true;
    }
    if (!many.from_python(source, flags, cleanup) || many.value.size() != count) return false;
    std::copy(many.value.begin(), many.value.end(), value.begin());
    return true;
  }

  static handle from_cpp(const Array& numbers, rv_policy policy, cleanup_list* cleanup) noexcept {
    const std::vector<Number> many(numbers.begin(), numbers.end());
    return make_caster<std::vector<Number>>::from_cpp(many, policy, cleanup);
  }
};

template <>
struct type_caster<ringrad::Values> {
  NB_TYPE_CASTER(ringrad::Values, const_name("float | int | bool | list | tuple"))
  type_caster() : value(0) {}
  bool from_python(handle source, uint8_t flags, cleanup_list* cleanup) noexcept;
};

}  // namespace nanobind::detail
