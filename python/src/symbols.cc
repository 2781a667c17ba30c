// Python's symbols on tensors: x + y, x == y, x @ y, x[1, :5].

#include "bindings.h"

namespace ringrad::python {
namespace {

// --- Brackets ---

Index index_of(nb::handle key) {
  if (key.is_none()) return kNewAxis;
  if (key.ptr() == Py_Ellipsis) return kEllipsis;
  std::int64_t position = 0;
  if (nb::isinstance<Tensor>(key)) return nb::cast<Tensor>(key);
  if (!PySlice_Check(key.ptr())) {
    RINGRAD_CHECK(!PyBool_Check(key.ptr()) && nb::try_cast(key, position), IndexError, caller(),
                  "[]: an index must be a whole number, a slice, a tensor, None or ...; got ",
                  nb::repr(key).c_str());
    return position;
  }
  const auto part = [&](const char* name) -> std::optional<std::int64_t> {
    const nb::object given = key.attr(name);
    if (given.is_none()) return kNone;
    std::int64_t number = 0;
    RINGRAD_CHECK(nb::try_cast(given, number), IndexError, caller(),
                  "[]: a slice must have whole numbers of 64 bits; got ", nb::repr(given).c_str());
    return number;
  };
  return Slice(part("start"), part("stop"), part("step").value_or(1));
}

std::vector<Index> indices_of(const nb::object& key) {
  std::vector<Index> indices;
  if (nb::isinstance<nb::tuple>(key))
    for (const nb::handle part : key) indices.push_back(index_of(part));
  else
    indices.push_back(index_of(key));
  return indices;
}

Tensor at(const Tensor& x, const nb::object& key) {
  const std::vector<Index> indices = indices_of(key);
  return x[LocatedIndices(std::span<const Index>(indices), caller())];
}

// --- Operators ---

template <class Function>
void bind_operator(nb::class_<Tensor>& tensor, const char* name, Function function) {
  tensor.def(
      name,
      [function](const Tensor& a, const Tensor& b) {
        return called([&](Where where) { return function(a, b, where); });
      },
      nb::is_operator());
  tensor.def(
      name,
      [function](const Tensor& a, Scalar b) {
        return called([&](Where where) { return function(a, b, where); });
      },
      nb::is_operator());
}

template <class Function>
void bind_reflected(nb::class_<Tensor>& tensor, const char* name, Function function) {
  tensor.def(
      name,
      [function](const Tensor& b, Scalar a) {
        return called([&](Where where) { return function(a, b, where); });
      },
      nb::is_operator());
}

// Of what Python would else compare as objects: what has numbers in it is no object without them.
void refuse_other_numbers(nb::class_<Tensor>& tensor, const char* name, const char* symbol,
                          const char* signature) {
  tensor.def(
      name,
      [symbol](const Tensor&, const nb::object& other) {
        PyObject* const value = other.ptr();
        const bool has_numbers =
            PyNumber_Check(value) || (PySequence_Check(value) && !PyUnicode_Check(value));
        RINGRAD_CHECK(!has_numbers, DTypeError, caller(), symbol,
                      ": a tensor must be compared with a Tensor, or a number of 64 bits; got ",
                      nb::type_name(other.type()).c_str(),
                      nb::hasattr(other, "__array_ufunc__") ? "; write rr.tensor(array)" : "");
        return nb::borrow(Py_NotImplemented);
      },
      nb::arg().none(), nb::sig(signature));
}

// NumPy leaves its operators to ours (__array_ufunc__). An array has no gradient, and as a rule
// another dtype, so it is made a tensor where the code says so.
void refuse_arrays(nb::class_<Tensor>& tensor, const char* name, const char* symbol) {
  tensor.def(
      name,
      [symbol](const Tensor&, const nb::object& other) {
        const bool is_array =
            nb::hasattr(other, "__array_ufunc__") && !nb::isinstance<Tensor>(other);
        RINGRAD_CHECK(!is_array, DTypeError, caller(), symbol,
                      ": operands must be Tensors and numbers; got ",
                      nb::type_name(other.type()).c_str(),
                      "; write rr.tensor(array), or rr.from_dlpack(array), which shares memory");
        return nb::borrow(Py_NotImplemented);
      },
      nb::arg().none(), nb::is_operator(),
      nb::sig(concat("def ", name, "(self, arg: numpy.typing.NDArray[typing.Any], /) -> ",
                     "typing.NoReturn")
                  .c_str()));
}

#define RINGRAD_CALL(function) \
  [](const auto& a, const auto& b, Where where) { return function(a, b, where); }
#define RINGRAD_SWAPPED(function) \
  [](const auto& a, const auto& b, Where where) { return function(b, a, where); }

}  // namespace

void bind_symbols(nb::class_<Tensor>& tensor) {
  bind_operator(tensor, "__add__", RINGRAD_CALL(add));
  bind_operator(tensor, "__sub__", RINGRAD_CALL(sub));
  bind_operator(tensor, "__mul__", RINGRAD_CALL(mul));
  bind_operator(tensor, "__truediv__", RINGRAD_CALL(div));
  bind_operator(tensor, "__pow__", RINGRAD_CALL(pow));
  bind_operator(tensor, "__iadd__", [](const Tensor& y, const auto& x, Where where) {
    if constexpr (std::is_same_v<decltype(x), const Tensor&>)
      return add_(y, x, 1, where);
    else
      return add_(y, x, where);
  });
  bind_operator(tensor, "__isub__", RINGRAD_CALL(sub_));
  bind_operator(tensor, "__imul__", RINGRAD_CALL(mul_));
  bind_operator(tensor, "__itruediv__", RINGRAD_CALL(div_));
  bind_operator(tensor, "__eq__", RINGRAD_CALL(eq));
  bind_operator(tensor, "__ne__", RINGRAD_CALL(ne));
  refuse_other_numbers(tensor, "__eq__", "==", "def __eq__(self, arg: object, /) -> Tensor");
  refuse_other_numbers(tensor, "__ne__", "!=", "def __ne__(self, arg: object, /) -> Tensor");
  bind_operator(tensor, "__lt__", RINGRAD_CALL(lt));
  bind_operator(tensor, "__le__", RINGRAD_CALL(le));
  bind_operator(tensor, "__gt__", RINGRAD_CALL(gt));
  bind_operator(tensor, "__ge__", RINGRAD_CALL(ge));
  bind_reflected(tensor, "__radd__", RINGRAD_SWAPPED(add));
  bind_reflected(tensor, "__rmul__", RINGRAD_SWAPPED(mul));
  bind_reflected(tensor, "__rsub__", RINGRAD_CALL(sub));
  bind_reflected(tensor, "__rtruediv__", RINGRAD_CALL(div));
  bind_reflected(tensor, "__rpow__", RINGRAD_CALL(pow));
  tensor.def(
      "__matmul__",
      [](const Tensor& a, const Tensor& b) {
        return called([&](Where where) { return matmul(a, b, where); });
      },
      nb::is_operator());
  for (const auto& [name, symbol] :
       {std::pair("add", "+"), std::pair("sub", "-"), std::pair("mul", "*"),
        std::pair("truediv", "/"), std::pair("pow", "**"), std::pair("matmul", "@")}) {
    refuse_arrays(tensor, concat("__", name, "__").c_str(), symbol);
    refuse_arrays(tensor, concat("__r", name, "__").c_str(), symbol);
  }
  for (const auto& [name, symbol] :
       {std::pair("iadd", "+="), std::pair("isub", "-="), std::pair("imul", "*="),
        std::pair("itruediv", "/="), std::pair("lt", "<"), std::pair("le", "<="),
        std::pair("gt", ">"), std::pair("ge", ">=")})
    refuse_arrays(tensor, concat("__", name, "__").c_str(), symbol);
  tensor
      .def("__neg__",
           [](const Tensor& x) { return called([&](Where where) { return neg(x, where); }); })
      .def(
          "is_", [](const Tensor& x, const Tensor& y) { return x.is(y); }, "other"_a,
          "True if both are the same tensor. Python's `is` may tell two objects of one tensor "
          "apart, and == compares elements.")
      .def(
          "__hash__", [](const Tensor& x) { return reinterpret_cast<std::uintptr_t>(x.impl()); },
          "Equal for the objects of one tensor. A set, a dictionary or a list finds the very "
          "object "
          "that was put in; for another of the same tensor it raises a ShapeError, since == "
          "compares "
          "elements. Parameters have names for that: module.named_parameters().")
      .def("__getitem__", at, nb::arg("key").none())
      .def(
          "__setitem__",
          [](const Tensor& x, const nb::object& key, const Tensor& y) {
            assign(x, indices_of(key), y, caller());
          },
          nb::arg("key").none(), "value"_a)
      .def(
          "__setitem__",
          [](const Tensor& x, const nb::object& key, Scalar y) {
            assign(x, indices_of(key), y, caller());
          },
          nb::arg("key").none(), "value"_a);
}

#undef RINGRAD_CALL
#undef RINGRAD_SWAPPED

}  // namespace ringrad::python
