// The library's errors as Python's exceptions, and the lines of Python that they name.

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "bindings.h"

namespace ringrad::python {
namespace {

template <class E>
PyObject* exception_type = nullptr;

// Without the line: Python's traceback shows it.
template <class E>
void translate(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const E& ours) {
    PyErr_SetString(exception_type<E>, std::string(ours.message()).c_str());
  }
}

// Each type is also Python's own of the same kind, so `except ValueError` catches a ShapeError.
template <class E>
void bind_error(nb::module_& m, const char* name, PyObject* also, const char* doc) {
  PyObject* const base = std::is_same_v<E, Error> ? also : exception_type<Error>;
  const nb::tuple bases = base == also ? nb::make_tuple(nb::borrow(also))
                                       : nb::make_tuple(nb::borrow(base), nb::borrow(also));
  exception_type<E> =
      PyErr_NewExceptionWithDoc(concat("ringrad.", name).c_str(), doc, bases.ptr(), nullptr);
  m.attr(name) = nb::borrow(exception_type<E>);
  nb::register_exception_translator(translate<E>);
}

}  // namespace

void bind_errors(nb::module_& m) {
  bind_error<Error>(m, "Error", PyExc_Exception, "Base of everything that this library raises.");
  bind_error<ShapeError>(m, "ShapeError", PyExc_ValueError,
                         "Shapes, axes, or element counts that do not fit the operation.");
  bind_error<DTypeError>(m, "DTypeError", PyExc_TypeError,
                         "A dtype the operation does not take, or two that must agree and do not.");
  bind_error<DeviceError>(m, "DeviceError", PyExc_ValueError,
                          "Tensors on different devices, or a device that does not exist.");
  bind_error<IndexError>(m, "IndexError", PyExc_IndexError,
                         "An index outside the axis it selects from.");
  bind_error<ValueError>(
      m, "ValueError", PyExc_ValueError,
      "An argument outside its domain: a negative probability, an unknown name.");
  bind_error<AutogradError>(m, "AutogradError", PyExc_RuntimeError,
                            "Misuse of the tape: backward twice, a saved tensor changed in place.");
  bind_error<DataError>(m, "DataError", PyExc_OSError,
                        "A file that is missing, truncated, or not what it claims to be.");
  bind_error<OutOfMemoryError>(m, "OutOfMemoryError", PyExc_MemoryError, "Not enough memory.");
  bind_error<CudaError>(m, "CudaError", PyExc_RuntimeError, "A CUDA call or a kernel that failed.");
  bind_error<CollectiveError>(
      m, "CollectiveError", PyExc_RuntimeError,
      "A collective that could not complete: a peer failed, came late, or called "
      "something else.");
  bind_error<InternalError>(m, "InternalError", PyExc_RuntimeError, "A defect of this library.");
}

// After the end of Python, a thread that asks for the lock is ended by pthread_exit(), which
// unwinds the stack. Destructors and handlers of C++ would turn that into an abort of the process.
Unlocked::~Unlocked() {
  try {
    PyEval_RestoreThread(state_);
  } catch (...) {  // leaving the handler without a throw would abort as well
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

// Called with the interpreter's lock. A file's name is kept for good: tensors remember where they
// were made.
Where caller() {
  PyFrameObject* const frame = PyEval_GetFrame();  // borrowed
  if (!frame) return Where::current("<python>", 0);
  PyCodeObject* const code = PyFrame_GetCode(frame);
  const nb::object keeps_code = nb::steal(reinterpret_cast<PyObject*>(code));
  static std::unordered_map<PyObject*, const char*>* const names =
      new std::unordered_map<PyObject*, const char*>;
  auto [name, is_new] = names->try_emplace(code->co_filename, nullptr);
  if (is_new) {
    Py_INCREF(code->co_filename);
    name->second = PyUnicode_AsUTF8(code->co_filename);
    if (!name->second) PyErr_Clear(), name->second = "<python>";
  }
  return Where::current(name->second, static_cast<unsigned>(PyFrame_GetLineNumber(frame)));
}

}  // namespace ringrad::python
