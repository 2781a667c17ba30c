// Tensor: what its headers declare as members, Python's operators and brackets, and the memory of
// other libraries.

#include <array>
#include <cstring>

#include "bindings.h"

namespace nanobind::detail {

using namespace ringrad;

namespace {

// numpy.float32(2) is a number; an array is none. NumPy is not imported for this.
bool is_numpy_scalar(PyObject* object) {
  PyObject* const numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");  // borrowed
  if (!numpy) return false;
  const nanobind::object generic = nanobind::steal(PyObject_GetAttrString(numpy, "generic"));
  const int is_one = generic.is_valid() ? PyObject_IsInstance(object, generic.ptr()) : -1;
  if (is_one < 0) PyErr_Clear();
  return is_one > 0;
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

namespace ringrad::python {
namespace {

// --- DLPack ---

constexpr const char *kVersioned = "dltensor_versioned", *kUnversioned = "dltensor";

constexpr int kCpu = 1, kCuda = 2;  // DLPack's numbers of devices

// An unused capsule still owns what it carries: a tensor takes it, and ends.
template <class Managed>
void free_unused(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name))
    from_dlpack(static_cast<Managed*>(PyCapsule_GetPointer(capsule, name)));
}

nb::object to_capsule(const Tensor& x, const nb::object& stream,
                      const std::optional<std::pair<int, int>>& version,
                      const std::optional<std::pair<int, int>>& device, std::optional<bool> copy) {
  const Where where = caller();
  RINGRAD_CHECK(stream.is_none() || x.device().is_cuda(), ValueError, where,
                "__dlpack__: the stream of memory on a CPU must be None; got one");
  RINGRAD_CHECK(!device || device->first == (x.device().is_cpu() ? kCpu : kCuda), DeviceError,
                where, "__dlpack__: dl_device must be the tensor's own; got another");
  const Tensor shared = copy.value_or(false) ? clone(x.detach(where), where) : x;
  if (version && version->first >= 1)
    return nb::steal(PyCapsule_New(to_dlpack(shared, where), kVersioned, [](PyObject* capsule) {
      free_unused<DLManagedTensorVersioned>(capsule, kVersioned);
    }));
  return nb::steal(PyCapsule_New(
      to_dlpack_unversioned(shared, where), kUnversioned,
      [](PyObject* capsule) { free_unused<DLManagedTensor>(capsule, kUnversioned); }));
}

template <class Managed>
Tensor take(PyObject* capsule, const char* name, const char* used) {
  Tensor x = from_dlpack(static_cast<Managed*>(PyCapsule_GetPointer(capsule, name)), caller());
  PyCapsule_SetName(capsule, used);
  return x;
}

Tensor from_capsule(const nb::object& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), kVersioned))
    return take<DLManagedTensorVersioned>(capsule.ptr(), kVersioned, "used_dltensor_versioned");
  RINGRAD_CHECK(
      PyCapsule_IsValid(capsule.ptr(), kUnversioned), ValueError, caller(),
      "from_dlpack: there must be an object with __dlpack__, or a capsule that nobody has used; "
      "got ",
      nb::repr(capsule).c_str());
  return take<DLManagedTensor>(capsule.ptr(), kUnversioned, "used_dltensor");
}

Tensor from_exporter(const nb::object& x) {
  if (!nb::hasattr(x, "__dlpack__")) return from_capsule(x);
  const nb::object exported = x.attr("__dlpack__");
  try {
    return from_capsule(exported(nb::arg("max_version") = nb::make_tuple(1, 1)));
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;  // a library from before version 1
  }
  return from_capsule(exported());
}

// --- The buffer protocol ---

// The format of struct, by dtype. bfloat16 has none.
constexpr std::array<const char*, kNumDTypes> kFormats = {"f", "d", "e", nullptr,
                                                          "i", "q", "B", "?"};

struct BufferExtents {
  Ref<Storage> storage;                    // not the tensor, which may get other memory
  std::vector<Py_ssize_t> shape, strides;  // bytes
};

int export_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  try {
    const Tensor x = nb::cast<Tensor>(nb::handle(self));
    const char* const format = kFormats[static_cast<std::size_t>(x.dtype())];
    RINGRAD_CHECK(
        format && x.device().is_cpu() && !x.requires_grad(), ValueError, caller(),
        "memoryview: a tensor must be on a CPU, want no gradient, and be of a dtype that the "
        "buffer protocol knows; got ",
        x.dtype(), " on ", x.device(), x.requires_grad() ? ", which requires a gradient" : "");
    const auto size = static_cast<Py_ssize_t>(size_bytes(x.dtype()));
    auto extents = std::make_unique<BufferExtents>();
    for (int axis = 0; axis < x.dims(); ++axis) {
      extents->shape.push_back(x.shape()[axis]);
      extents->strides.push_back(x.strides()[axis] * size);
    }
    extents->storage = x.storage();
    // What a consumer does not ask for, it does not look at: it takes the bytes one after another.
    const auto asks = [&](int what) { return (flags & what) == what; };
    const bool follows_strides = asks(PyBUF_STRIDES) && !asks(PyBUF_C_CONTIGUOUS) &&
                                 !asks(PyBUF_F_CONTIGUOUS) && !asks(PyBUF_ANY_CONTIGUOUS);
    RINGRAD_CHECK(x.is_contiguous() || follows_strides, ValueError, caller(),
                  "memoryview: a tensor must be contiguous for a consumer that does not follow "
                  "strides; got shape ",
                  x.shape(), " with strides ", x.strides());
    RINGRAD_CHECK(!asks(PyBUF_F_CONTIGUOUS) || x.dims() < 2, ValueError, caller(),
                  "memoryview: a tensor in Fortran's order must have at most one axis; got shape ",
                  x.shape());
    *view = {};
    view->buf = x.raw_data();
    view->len = x.numel() * size;
    view->itemsize = size;
    view->format = asks(PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
    view->ndim = asks(PyBUF_ND) ? x.dims() : 1;
    view->shape = asks(PyBUF_ND) ? extents->shape.data() : nullptr;
    view->strides = asks(PyBUF_STRIDES) ? extents->strides.data() : nullptr;
    view->internal = extents.release();
    view->obj = nb::borrow(self).release().ptr();
    return 0;
  } catch (const Error& error) {
    PyErr_SetString(PyExc_BufferError, std::string(error.message()).c_str());
    view->obj = nullptr;
    return -1;
  }
}

void release_buffer(PyObject*, Py_buffer* view) noexcept {
  delete static_cast<BufferExtents*>(view->internal);
}

Tensor from_buffer(const nb::object& source) {
  const Where where = caller();
  const auto end_view = [](Py_buffer* view) {
    const nb::gil_scoped_acquire locked;
    PyBuffer_Release(view);
    delete view;
  };
  auto taken = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(source.ptr(), taken.get(),
                         PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE) != 0)
    throw nb::python_error();
  const std::shared_ptr<Py_buffer> view(taken.release(), end_view);
  const std::string_view format = view->format ? view->format : "B";
  std::optional<DType> dtype;
  for (int d = 0; d < kNumDTypes; ++d)
    if (const char* known = kFormats[static_cast<std::size_t>(d)]; known && known == format)
      dtype = static_cast<DType>(d);
  if (format == "l" && view->itemsize == 8) dtype = DType::int64;
  RINGRAD_CHECK(dtype, DTypeError, where,
                "from_buffer: elements must be one of struct's f, d, e, i, q, l, B, ?; got ",
                format);
  RINGRAD_CHECK(view->ndim <= kMaxDims, ShapeError, where, "from_buffer: there must be at most ",
                kMaxDims, " axes; got ", view->ndim);
  const std::vector<std::int64_t> extents(view->shape, view->shape + view->ndim);
  return from_memory(view->buf, Shape(std::span(extents)), {.dtype = *dtype, .device = Device()},
                     view, where);
}

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
  const auto part = [&](const char* name, std::int64_t otherwise) {
    const nb::object given = key.attr(name);
    if (given.is_none()) return otherwise;
    std::int64_t number = 0;
    RINGRAD_CHECK(nb::try_cast(given, number), IndexError, caller(),
                  "[]: a slice must have whole numbers of 64 bits; got ", nb::repr(given).c_str());
    return number;
  };
  const Slice all;
  return Slice(part("start", all.start), part("stop", all.end), part("step", all.step));
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

nb::object to_list(const Tensor& x) {
  if (x.dims() == 0) return nb::cast(x.scalar());
  nb::list rows;
  for (std::int64_t i = 0; i < x.size(0); ++i) rows.append(to_list(x[i]));
  return rows;
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

#define RINGRAD_CALL(function) \
  [](const auto& a, const auto& b, Where where) { return function(a, b, where); }
#define RINGRAD_SWAPPED(function) \
  [](const auto& a, const auto& b, Where where) { return function(b, a, where); }

void bind_operators_of(nb::class_<Tensor>& tensor) {
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
  bind_operator(tensor, "__lt__", RINGRAD_CALL(lt));
  bind_operator(tensor, "__le__", RINGRAD_CALL(le));
  bind_operator(tensor, "__gt__", RINGRAD_CALL(gt));
  bind_operator(tensor, "__ge__", RINGRAD_CALL(ge));
  bind_reflected(tensor, "__radd__", RINGRAD_SWAPPED(add));
  bind_reflected(tensor, "__rmul__", RINGRAD_SWAPPED(mul));
  bind_reflected(tensor, "__rsub__", RINGRAD_CALL(sub));
  bind_reflected(tensor, "__rtruediv__", RINGRAD_CALL(div));
  bind_reflected(tensor, "__rpow__", RINGRAD_CALL(pow));
  tensor
      .def("__matmul__",
           [](const Tensor& a, const Tensor& b) {
             return called([&](Where where) { return matmul(a, b, where); });
           })
      .def("__neg__",
           [](const Tensor& x) { return called([&](Where where) { return neg(x, where); }); })
      .def("__hash__", [](const Tensor& x) { return reinterpret_cast<std::uintptr_t>(x.impl()); });
}

#undef RINGRAD_CALL
#undef RINGRAD_SWAPPED

}  // namespace

nb::class_<Tensor> bind_tensor(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(export_buffer)},
                                {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                                {0, nullptr}};
  nb::class_<Tensor> tensor(
      m, "Tensor", nb::type_slots(slots),
      "Numbers of one dtype in several dimensions, on one device. Views share memory.");
  tensor
      .def_prop_ro(
          "shape", [](const Tensor& x) { return x.shape(caller()); }, "Extents.")
      .def_prop_ro(
          "strides", [](const Tensor& x) { return x.strides(caller()); }, "In elements.")
      .def_prop_ro("dtype", [](const Tensor& x) { return x.dtype(caller()); })
      .def_prop_ro(
          "device", [](const Tensor& x) { return printed(x.device(caller())); }, "\"cpu:0\"")
      .def_prop_ro(
          "made_at", [](const Tensor& x) { return to_string(x.made_at(caller())); },
          "The line of the call that made this tensor.")
      .def_prop_ro(
          "is_leaf", [](const Tensor& x) { return x.is_leaf(caller()); },
          "True if no recorded operation made this tensor.")
      .def_prop_rw(
          "requires_grad", [](const Tensor& x) { return x.requires_grad(caller()); },
          [](const Tensor& x, bool value) { x.set_requires_grad(value, caller()); })
      .def_prop_rw(
          "grad", [](const Tensor& x) { return defined(x.grad(caller())); },
          [](const Tensor& x, const Tensor* grad) { x.set_grad(or_undefined(grad), caller()); },
          nb::arg().none(), "The gradient accumulated in this leaf, or None.")
      .def(
          "dims", [](const Tensor& x) { return x.dims(caller()); }, "Number of axes.")
      .def(
          "numel", [](const Tensor& x) { return x.numel(caller()); }, "Number of elements.")
      .def(
          "size", [](const Tensor& x, std::int64_t axis) { return x.size(axis, caller()); },
          "axis"_a, "Extent of an axis; negative axes count from the end.")
      .def(
          "is_contiguous", [](const Tensor& x) { return x.is_contiguous(caller()); },
          "True if the elements lie without gaps, in the order of the axes.")
      .def(
          "set_requires_grad",
          [](const Tensor& x, bool value) { return x.set_requires_grad(value, caller()); },
          "requires_grad"_a = true,
          "Returns this tensor, which must be a leaf of a floating dtype.")
      .def(
          "backward",
          [](const Tensor& x, const Tensor* gradient, bool retain_graph, bool create_graph) {
            called([&](Where where) {
              x.backward(or_undefined(gradient),
                         {.retain_graph = retain_graph, .create_graph = create_graph}, where);
            });
          },
          "gradient"_a.none() = nb::none(), nb::kw_only(), "retain_graph"_a = false,
          "create_graph"_a = false,
          "Adds d(this)/d(leaf) to every leaf's grad. `gradient` weighs the elements of this "
          "tensor; it may "
          "be left out for a tensor of one element.")
      .def(
          "detach", [](const Tensor& x) { return x.detach(caller()); },
          "The same memory without history.")
      .def(
          "item", [](const Tensor& x) { return x.scalar(caller()); },
          "The value of a one-element tensor.")
      .def("tolist", to_list, "All elements, in lists of lists.")
      .def(
          "mark_changed", [](const Tensor& x) { x.mark_changed(caller()); },
          "Says that another library has written to this memory, so that backward refuses a saved "
          "tensor "
          "whose numbers are no longer those of the forward pass.")
      .def(
          "numpy",
          [](const nb::object& x) { return nb::module_::import_("numpy").attr("from_dlpack")(x); },
          "A NumPy array over the same memory.")
      .def(
          "__array__",
          [](const nb::object& x, const nb::object& dtype, const nb::object& copy) {
            const nb::object array = x.attr("detach")().attr("numpy")();
            return nb::module_::import_("numpy").attr("array")(
                array, nb::arg("dtype") = dtype,
                nb::arg("copy") = copy.is_none() ? nb::cast(false) : copy);
          },
          "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack__", to_capsule, nb::kw_only(), "stream"_a = nb::none(),
           "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack_device__",
           [](const Tensor& x) {
             const Device device = x.device(caller());
             return std::pair<int, int>(device.is_cpu() ? kCpu : kCuda,
                                        device.is_cpu() ? 0 : device.index);
           })
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
          nb::arg("key").none(), "value"_a)
      .def("__len__",
           [](const Tensor& x) {
             RINGRAD_CHECK(x.dims() > 0, DTypeError, caller(),
                           "len: a tensor must have an axis; got one number");
             return x.size(0, caller());
           })
      .def(
          "__iter__",
          [](const nb::object& x) {
            nb::list rows;
            for (std::size_t i = 0, count = nb::len(x); i < count; ++i) rows.append(x[i]);
            return nb::iter(rows);
          },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[Tensor]"), "Its rows.")
      .def(
          "register_hook",
          [](const Tensor& x, std::function<std::optional<Tensor>(const Tensor&)> hook) {
            return register_hook(
                x,
                [hook = std::move(hook)](const Tensor& grad) {
                  return hook(grad).value_or(Tensor());
                },
                caller());
          },
          "hook"_a,
          "Calls hook(grad) when backward has this tensor's gradient; what it returns, unless "
          "None, replaces the gradient.")
      .def("__bool__", [](const Tensor& x) { return x.scalar(caller()).to<bool>(); })
      .def("__float__", [](const Tensor& x) { return x.scalar(caller()).to<double>(); })
      .def("__int__", [](const Tensor& x) { return x.scalar(caller()).to<std::int64_t>(); })
      .def("__repr__", printed<Tensor>);
  nb::class_<HookHandle>(m, "HookHandle", "A hook that can be removed.")
      .def("remove", &HookHandle::remove, "The hook is called no more.");
  bind_operators_of(tensor);
  // NumPy's operators leave tensors to ours, which record gradients; its functions take arrays.
  tensor.attr("__array_ufunc__") = nb::none();

  nb::class_<Generator>(m, "Generator", "A stream of random numbers, Philox 4x32-10.")
      .def(nb::init<std::uint64_t>(), "seed"_a = 0);

  using NoGradScope = Scope<NoGrad>;
  nb::class_<NoGradScope>(m, "no_grad",
                          "with no_grad(): operators of this thread are not recorded.")
      .def("__init__", [](NoGradScope* self) { new (self) NoGradScope{}; })
      .def("__enter__", &NoGradScope::enter)
      .def("__exit__", &NoGradScope::exit);
  using AutocastScope = Scope<Autocast, DType, Where>;
  nb::class_<AutocastScope>(
      m, "autocast",
      "with autocast(bfloat16): matrix products and convolutions of this thread take 16-bit "
      "inputs.")
      .def(
          "__init__",
          [](AutocastScope* self, DType dtype) {
            new (self) AutocastScope{{dtype, caller()}};
          },
          "dtype"_a)
      .def("__enter__", &AutocastScope::enter)
      .def("__exit__", &AutocastScope::exit);
  m.def(
      "grad",
      [](const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
         const std::vector<Tensor>& grad_outputs, bool retain_graph, bool create_graph) {
        const std::vector<Tensor> found = called([&](Where where) {
          return grad(outputs, inputs, grad_outputs,
                      {.retain_graph = retain_graph, .create_graph = create_graph}, where);
        });
        std::vector<std::optional<Tensor>> result;
        for (const Tensor& gradient : found) result.push_back(defined(gradient));
        return result;
      },
      "outputs"_a, "inputs"_a, "grad_outputs"_a = std::vector<Tensor>(), nb::kw_only(),
      "retain_graph"_a = false, "create_graph"_a = false,
      "The gradients d(sum of outputs weighted by grad_outputs)/d(inputs); no grad changes. None "
      "for an input "
      "that the outputs do not depend on.");
  return tensor;
}

void bind_memory(nb::module_& m) {
  m.def(
      "tensor",
      [](const nb::object& x) {
        RINGRAD_CHECK(
            nb::hasattr(x, "__dlpack__") || PyCapsule_CheckExact(x.ptr()), ValueError, caller(),
            "tensor: there must be a number of 64 bits, such numbers in lists "
            "that are nested at most ",
            kMaxDims, " deep, or another library's tensor; got ", nb::type_name(x.type()).c_str());
        return clone(from_exporter(x), caller());
      },
      "x"_a, "A copy of another library's tensor.");
  m.def("default_generator", &default_generator, nb::rv_policy::reference,
        "The calling thread's generator.");
  m.def("from_dlpack", from_exporter, "x"_a,
        "The memory of another library's tensor, without a copy, unless that is read-only: a "
        "Tensor can be written to.");
  m.def("from_buffer", from_buffer, "x"_a,
        "The memory of an object with the buffer protocol, without a copy: writable, and without "
        "gaps.");
}

}  // namespace ringrad::python
