// Numbers, shapes and nested lists of Python as those of C++, and back.

#include "bindings.h"

namespace nanobind::detail {

using namespace ringrad;

namespace {

// numpy.float32(2) is a number; an array is none, nor is a date. NumPy is not imported for this.
bool is_numpy_scalar(PyObject* object) {
  PyObject* const numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");  // borrowed
  if (!numpy) return false;
  const nanobind::object generic = nanobind::steal(PyObject_GetAttrString(numpy, "generic"));
  const int is_one = generic.is_valid() ? PyObject_IsInstance(object, generic.ptr()) : -1;
  if (is_one < 0) PyErr_Clear();
  if (is_one <= 0) return false;
  const std::string_view kind = borrow<str>(handle(object).attr("dtype").attr("kind")).c_str();
  return std::string_view("biuf").find(kind) != std::string_view::npos;
}

}  // namespace

bool type_caster<Scalar>::from_python(handle source, uint8_t flags,
                                      cleanup_list* cleanup) noexcept {
  PyObject* const number = source.ptr();
  if (PyBool_Check(number)) {
    value = number == Py_True;
  } else if (PyFloat_Check(number)) {
    value = PyFloat_AS_DOUBLE(number);
  } else if (PyLong_Check(number)) {
    int overflow = 0;
    value = std::int64_t{PyLong_AsLongLongAndOverflow(number, &overflow)};
    return overflow == 0;
  } else if (is_numpy_scalar(number)) {
    const nanobind::object plain = nanobind::steal(PyObject_CallMethod(number, "item", nullptr));
    if (!plain.is_valid()) PyErr_Clear();
    return plain.is_valid() && !is_numpy_scalar(plain.ptr()) && from_python(plain, flags, cleanup);
  } else {
    return false;
  }
  return true;
}

handle type_caster<Scalar>::from_cpp(const Scalar& number, rv_policy, cleanup_list*) noexcept {
  if (number.dtype() == DType::bool_) return PyBool_FromLong(number.to<bool>());
  return number.is_floating() ? PyFloat_FromDouble(number.to<double>())
                              : PyLong_FromLongLong(number.to<std::int64_t>());
}

// One number is a shape of one axis.
bool type_caster<Shape>::from_python(handle source, uint8_t flags, cleanup_list* cleanup) noexcept {
  make_caster<std::vector<std::int64_t>> many;
  make_caster<std::int64_t> one;
  try {
    if (one.from_python(source, flags, cleanup))
      value = Shape(one.value);
    else if (many.from_python(source, flags, cleanup))
      value = Shape(std::span<const std::int64_t>(many.value));
    else
      return false;
    return true;
  } catch (const Error&) {
    return false;
  }
}

handle type_caster<Shape>::from_cpp(const Shape& shape, rv_policy, cleanup_list*) noexcept {
  PyObject* const extents = PyTuple_New(shape.size());
  for (int axis = 0; extents && axis < shape.size(); ++axis)
    PyTuple_SET_ITEM(extents, axis, PyLong_FromLongLong(shape[axis]));
  return extents;
}

namespace {

// Lists in lists: nothing of Python's runs meanwhile, and no list is followed further than tensors
// have axes.
bool values_of(PyObject* source, int depth, Values& values) {
  const bool is_list = PyList_Check(source);
  if (is_list || PyTuple_Check(source)) {
    if (depth > kMaxDims) return false;
    std::vector<Values> list;
    for (Py_ssize_t i = 0; i < Py_SIZE(source); ++i) {
      Values one(0);
      PyObject* const element = is_list ? PyList_GET_ITEM(source, i) : PyTuple_GET_ITEM(source, i);
      if (!values_of(element, depth + 1, one)) return false;
      list.push_back(std::move(one));
    }
    values = Values(std::move(list));
    return true;
  }
  make_caster<Scalar> number;
  if (!number.from_python(source, 0, nullptr)) return false;
  values = number.value.dtype() == DType::bool_ ? Values(number.value.to<bool>())
           : number.value.is_floating()         ? Values(number.value.to<double>())
                                                : Values(number.value.to<std::int64_t>());
  return true;
}

}  // namespace

bool type_caster<Values>::from_python(handle source, uint8_t, cleanup_list*) noexcept {
  return values_of(source.ptr(), 0, value);
}

}  // namespace nanobind::detail
