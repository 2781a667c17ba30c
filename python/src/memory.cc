// Memory that a tensor shares with other libraries: DLPack, the buffer protocol, NumPy.

#include <array>

#include "bindings.h"

namespace ringrad::python {
namespace {

// --- DLPack ---

constexpr const char *kVersioned = "dltensor_versioned", *kUnversioned = "dltensor";

constexpr int kCpu = 1, kCuda = 2;  // DLPack's numbers of devices

// An unused capsule still owns what it carries.
template <class Managed>
void free_unused(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name))
    free_dlpack(static_cast<Managed*>(PyCapsule_GetPointer(capsule, name)));
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

// Of a tensor of ours its own memory, whose changes backward knows of.
Tensor from_exporter(const nb::object& x) {
  if (nb::isinstance<Tensor>(x)) {
    const Tensor& own = nb::cast<const Tensor&>(x);
    RINGRAD_CHECK(!own.requires_grad(), AutogradError, caller(),
                  "from_dlpack: the tensor must not require a gradient, which its memory alone "
                  "would not record; got one that does; share detach()");
    return own.detach(caller());
  }
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
    RINGRAD_CHECK(nb::inst_ready(self), ValueError, caller(),
                  "memoryview: a tensor must be initialised; got one that __new__ made alone");
    const Tensor x = *nb::inst_ptr<Tensor>(self);
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
  } catch (const std::exception& error) {
    const auto* const ours = dynamic_cast<const Error*>(&error);
    PyErr_SetString(PyExc_BufferError, ours ? std::string(ours->message()).c_str() : error.what());
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
  if (nb::isinstance<Tensor>(source)) return nb::cast<const Tensor&>(source).detach(where);
  const std::string_view format = view->format ? view->format : "B";
  std::string_view letter = format;  // without this machine's order of bytes, which ctypes names
  if (letter.find_first_of("<=@") == 0) letter.remove_prefix(1);
  std::optional<DType> dtype;
  for (int d = 0; d < kNumDTypes; ++d)
    if (const char* known = kFormats[static_cast<std::size_t>(d)]; known && known == letter)
      dtype = static_cast<DType>(d);
  if (letter == "l" && view->itemsize == 8) dtype = DType::int64;
  RINGRAD_CHECK(dtype, DTypeError, where,
                "from_buffer: elements must be one of struct's f, d, e, i, q, l, B, ?; got ",
                format);
  RINGRAD_CHECK(view->ndim <= kMaxDims, ShapeError, where, "from_buffer: there must be at most ",
                kMaxDims, " axes; got ", view->ndim);
  const std::vector<std::int64_t> extents(view->shape, view->shape + view->ndim);
  const Tensor result = from_memory(view->buf, Shape(std::span(extents)),
                                    {.dtype = *dtype, .device = Device()}, view, where);
  check_truth_values("from_buffer", result, where);
  return result;
}

Tensor tensor_of(const nb::object& values, std::optional<DType> dtype,
                 const std::optional<std::string>& device, bool requires_grad) {
  const Where where = caller();
  Tensor x;
  if (Values numbers(0); nb::try_cast(values, numbers)) {
    x = dtype ? tensor(numbers, *dtype, where) : tensor(numbers, where);
  } else {
    RINGRAD_CHECK(
        nb::hasattr(values, "__dlpack__") || PyCapsule_CheckExact(values.ptr()), ValueError, where,
        "tensor: there must be a number of 64 bits, such numbers in lists "
        "that are nested at most ",
        kMaxDims, " deep, or another library's tensor; got ", nb::type_name(values.type()).c_str());
    const Tensor theirs = from_exporter(values);
    x = dtype && *dtype != theirs.dtype() ? to(theirs, *dtype, where) : clone(theirs, where);
  }
  if (device) x = to(x, Device(*device, where), where);
  return requires_grad ? x.set_requires_grad(true, where) : x;
}

}  // namespace

PyType_Slot* tensor_slots() {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(export_buffer)},
                                {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                                {Py_tp_traverse, reinterpret_cast<void*>(traverse_tensor)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear_tensor)},
                                {0, nullptr}};
  return slots;
}

void bind_memory(nb::module_& m, nb::class_<Tensor>& tensor) {
  tensor
      .def(
          "numpy",
          [](const nb::object& x) { return nb::module_::import_("numpy").attr("from_dlpack")(x); },
          "A NumPy array over the same memory.")
      .def(
          "__array__",
          [](const nb::object& x, const nb::object& dtype, const nb::object& copy) {
            RINGRAD_CHECK(
                !nb::cast<const Tensor&>(x).requires_grad(), AutogradError, caller(),
                "__array__: a tensor must require no gradient, because NumPy records none; "
                "got one that does; take x.detach()");
            const nb::object numpy = nb::module_::import_("numpy"), array = x.attr("numpy")();
            if (copy.is_none()) return numpy.attr("asarray")(array, dtype);
            return numpy.attr("array")(array, nb::arg("dtype") = dtype, nb::arg("copy") = copy);
          },
          "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack__", to_capsule, nb::kw_only(), "stream"_a = nb::none(),
           "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack_device__", [](const Tensor& x) {
        const Device device = x.device(caller());
        return std::pair<int, int>(device.is_cpu() ? kCpu : kCuda,
                                   device.is_cpu() ? 0 : device.index);
      });
  // NumPy's operators leave tensors to ours, which record gradients; its functions take arrays.
  tensor.attr("__array_ufunc__") = nb::none();

  m.def("tensor", tensor_of, "values"_a.none(), "dtype"_a.noconvert() = nb::none(), nb::kw_only(),
        "device"_a = nb::none(), "requires_grad"_a = false,
        nb::sig("def tensor(values: object, dtype: DType | None = None, *, device: str | None = "
                "None, requires_grad: bool = False) -> Tensor"),
        "A copy of numbers, in lists within lists, or of another library's tensor. Without "
        "a dtype: of lists float32 if any number is floating or if there is none, else int64 if "
        "any is an integer, else bool; of a tensor its own.");
  m.def("from_dlpack", from_exporter, "x"_a,
        "The memory of another library's tensor, without a copy, unless that is read-only: a "
        "Tensor can be written to.");
  m.def("from_buffer", from_buffer, "x"_a,
        "The memory of an object with the buffer protocol, without a copy: writable, and without "
        "gaps.");
}

}  // namespace ringrad::python
