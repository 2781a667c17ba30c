// nn: modules, which Python may derive from.

#include <algorithm>

#include "bindings.h"

namespace ringrad::python {
namespace {

using nn::Module;

// What Python knows the module as.
nb::object self_of(const Module& module) { return nb::find(&module); }

// A class's own method of this name; null if it is Module's.
nb::object own_method(const nb::handle& self, const char* name) {
  const nb::object found = self.type().attr(name);
  if (found.is(nb::type<Module>().attr(name))) return {};
  return self.attr(name);
}

// What a method of Python's returned, as T.
template <class T>
T returned(const nb::handle& self, const char* name, const char* must, const nb::object& value) {
  T result;
  RINGRAD_CHECK(nb::try_cast(value, result), DTypeError, caller(),
                nb::type_name(self.type()).c_str(), '.', name, ": it must return a ", must,
                "; got ", nb::type_name(value.type()).c_str());
  return result;
}

// A module whose forward() is Python's. Its members that are modules are its children.
class PythonModule : public Module {
 public:
  Tensor forward(const Tensor& x, Where where) override {
    const nb::gil_scoped_acquire locked;
    const nb::object self = self_of(*this), method = own_method(self, "forward");
    if (!method.is_valid()) lacks_forward(where);
    return returned<Tensor>(self, "forward", "Tensor", method(x));
  }

  std::string describe() const override {
    const nb::gil_scoped_acquire locked;
    const nb::object self = self_of(*this), method = own_method(self, "describe");
    if (!method.is_valid()) return class_name();
    return returned<std::string>(self, "describe", "str", method());
  }

  void train(bool training) override {
    const nb::gil_scoped_acquire locked;
    const nb::object method = own_method(self_of(*this), "train");
    method.is_valid() ? (void)method(training) : Module::train(training);
  }

  // What is written in Python. REQUIRES: the interpreter is held
  std::string class_name() const { return nb::type_name(self_of(*this).type()).c_str(); }

  [[noreturn]] void lacks_forward(Where where) const {
    const nb::gil_scoped_acquire locked;
    throw ValueError(concat(class_name(), ": the class must define forward(self, x); got none"),
                     where);
  }
};

// What is protected in C++, since only a module itself may add to its state.
struct Open : Module {
  using Module::add_child, Module::buffer, Module::num_children, Module::own_buffers,
      Module::own_parameters, Module::parameter, Module::release_child, Module::shared_child;
};

// --- Garbage collection ---

// A module's child that Python made is a reference of Python's, which its collector has to see:
// modules that hold their class's functions, or each other, would else never end. Null if the child
// is C++'s, or if other code in C++ holds the same reference.
PyObject* python_child(const Module& self, std::size_t i) {
  const std::shared_ptr<Module>& child = (self.*(&Open::shared_child))(i);
  const auto* const reference = std::get_deleter<nb::detail::py_deleter>(child);
  return reference && child.use_count() == 1 ? reference->o : nullptr;
}

// How many Tensors like x the module and its members hold; 0 if other code of Python's holds one of
// these, which could then call x's hooks without the module.
int num_held(PyObject* members, const Tensor& x) {
  int count = 1;
  Py_ssize_t place = 0;
  PyObject *name, *value;
  while (members && PyDict_Next(members, &place, &name, &value))
    if (nb::isinstance<Tensor>(value) && nb::inst_ready(value) &&
        nb::inst_ptr<Tensor>(value)->is(x)) {
      if (Py_REFCNT(value) > 1) return 0;
      ++count;
    }
  return count;
}

int traverse_module(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
#if PY_VERSION_HEX >= 0x030d0000
  if (PyType_HasFeature(Py_TYPE(self), Py_TPFLAGS_MANAGED_DICT))
    if (const int result = PyObject_VisitManagedDict(self, visit, arg)) return result;
#endif
  PyObject** const members = _PyObject_GetDictPtr(self);
  if (members) Py_VISIT(*members);
  if (!nb::inst_ready(self)) return 0;
  const Module& module = *nb::inst_ptr<Module>(self);
  for (const auto& [name, x] : (module.*(&Open::own_parameters))())
    if (const int result =
            traverse_callbacks(x, num_held(members ? *members : nullptr, x), visit, arg))
      return result;
  for (std::size_t i = 0; i < (module.*(&Open::num_children))(); ++i)
    Py_VISIT(python_child(module, i));
  return 0;
}

int clear_module(PyObject* self) {
  if (PyObject** const members = _PyObject_GetDictPtr(self)) Py_CLEAR(*members);
  if (!nb::inst_ready(self)) return 0;
  Module& module = *nb::inst_ptr<Module>(self);
  for (std::size_t i = 0; i < (module.*(&Open::own_parameters))().size(); ++i)
    release_callbacks((module.*(&Open::own_parameters))()[i].second, 1);
  for (std::size_t i = 0; i < (module.*(&Open::num_children))(); ++i)
    if (python_child(module, i)) (module.*(&Open::release_child))(i);
  return 0;
}

void add_child(Module& self, const std::string& name, std::shared_ptr<Module> child) {
  (self.*(&Open::add_child))(name, std::move(child), caller());
}

// --- Members ---

// None if there is none. Runs no property.
nb::object present_member(const nb::handle& self, const nb::str& name) {
  const nb::object of_class = nb::getattr(self.type(), name, nb::none());
  if (Py_TYPE(of_class.ptr()) == &PyMemberDescr_Type)  // of __slots__
    return nb::getattr(self, name, nb::none());
  return nb::getattr(self, "__dict__", nb::dict()).attr("get")(name);
}

bool lists(const std::vector<nn::NamedTensor>& registered, const Tensor& x) {
  return std::any_of(registered.begin(), registered.end(),
                     [&](const nn::NamedTensor& named) { return named.second.is(x); });
}

bool is_trained(nb::handle value, Tensor& x) {
  if (!nb::isinstance<Tensor>(value)) return false;
  x = nb::cast<Tensor>(value);
  return x.defined() && x.requires_grad() && x.is_leaf();
}

// What is registered stays: what is trained and saved must not differ from what forward() uses.
void check_stays(const nb::handle& self, const nb::str& name, const nb::handle& value) {
  const nb::object before = present_member(self, name);
  RINGRAD_CHECK(!nb::isinstance<Module>(before), ValueError, caller(),
                nb::type_name(self.type()).c_str(), ": child ", name.c_str(),
                " must stay what it is; got another value for it");
  if (!nb::isinstance<Tensor>(before) || !nb::inst_ready(self)) return;
  const Tensor x = nb::cast<Tensor>(before);
  const Module& module = *nb::inst_ptr<Module>(self);
  RINGRAD_CHECK((nb::isinstance<Tensor>(value) && nb::cast<const Tensor&>(value).is(x)) ||
                    (!lists((module.*(&Open::own_parameters))(), x) &&
                     !lists((module.*(&Open::own_buffers))(), x)),
                ValueError, caller(), nb::type_name(self.type()).c_str(), ": ", name.c_str(),
                " is registered and must stay the same tensor; got another value for it; write "
                "self.",
                name.c_str(), ".copy_(value), of a parameter under no_grad()");
}

void set_plainly(const nb::handle& self, const nb::str& name, PyObject* value) {
  if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), value) != 0) throw nb::python_error();
}

// `self.layer = nn.Linear(2, 3)` registers the layer under that name.
void set_attribute(const nb::handle& self, const nb::str& name, const nb::object& value) {
  Module* module = nullptr;
  RINGRAD_CHECK(nb::inst_ready(self) && nb::try_cast(self, module), ValueError, caller(),
                nb::type_name(self.type()).c_str(),
                ": super().__init__() must come before its members; got ", name.c_str());
  RINGRAD_CHECK(name.c_str() != std::string_view("forward") || dynamic_cast<PythonModule*>(module),
                ValueError, caller(), nb::type_name(self.type()).c_str(),
                ": forward() must stay the layer's own, which is called in C++; got another; "
                "derive a class from Module instead");
  check_stays(self, name, value);
  std::shared_ptr<Module> child;
  if (!value.is_none()) (void)nb::try_cast(value, child);
  if (Tensor tensor; is_trained(value, tensor))
    RINGRAD_CHECK(lists(module->named_parameters(), tensor), ValueError, caller(),
                  nb::type_name(self.type()).c_str(),
                  ": a tensor that is trained must be registered; write self.", name.c_str(),
                  " = self.parameter(\"", name.c_str(), "\", tensor)");
  const nb::object before = present_member(self, name);
  set_plainly(self, name, value.ptr());
  if (!child) return;
  try {
    add_child(*module, name.c_str(), std::move(child));
  } catch (const Error&) {
    set_plainly(self, name, before.is_none() ? nullptr : before.ptr());
    throw;
  }
}

void delete_attribute(const nb::handle& self, const nb::str& name) {
  check_stays(self, name, nb::none());
  set_plainly(self, name, nullptr);
}

// Members that got requires_grad later than they became members. What a list holds may be another
// module's, or an input.
void check_trained_are_registered(Module& module) {
  const std::vector<nn::NamedTensor> registered = module.named_parameters();
  module.visit([&](const std::string&, Module& below) {
    const nb::object self = self_of(below);
    if (!self.is_valid()) return;
    const nb::object members = nb::getattr(self, "__dict__", nb::dict());
    for (const auto& [name, value] : nb::borrow<nb::dict>(members))
      if (Tensor x; is_trained(value, x))
        RINGRAD_CHECK(lists(registered, x), ValueError, caller(),
                      nb::type_name(self.type()).c_str(),
                      ": a tensor that is trained must be registered by self.parameter(); got "
                      "one that is not, in self.",
                      nb::str(name).c_str());
  });
}

}  // namespace

PyType_Slot* module_slots() {
  static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_module)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear_module)},
                                {0, nullptr}};
  return slots;
}

void bind_module(nb::module_& m) {
  nb::class_<Module, PythonModule>(m, "Module", nb::dynamic_attr(), nb::type_slots(module_slots()),
                                   "Parameters, buffers and child modules by name, and a forward "
                                   "function. Derive from it, make modules "
                                   "members, register tensors with parameter() and buffer(), and "
                                   "define forward(self, x).")
      .def(nb::init<>())
      .def("__setattr__", set_attribute, "name"_a, nb::arg("value").none())
      .def("__delattr__", delete_attribute, "name"_a)
      .def(
          "__call__",
          [](Module& self, const Tensor& x) {
            return called([&](Where where) { return self(x, where); });
          },
          "x"_a, "forward(x)")
      .def(
          "forward",
          [](Module& self, const Tensor& x) {
            // What super().forward(x) of a class reaches.
            if (const auto* own = dynamic_cast<PythonModule*>(&self)) own->lacks_forward(caller());
            return called([&](Where where) { return self.forward(x, where); });
          },
          "x"_a, "The module's function; a class of one's own defines it.")
      .def(
          "describe",
          [](const Module& self) {
            const auto* own = dynamic_cast<const PythonModule*>(&self);
            return own ? own->class_name() : self.describe();
          },
          "One line that describes the module without its children.")
      .def(
          "parameter",
          [](Module& self, const std::string& name, const Tensor& value) {
            return (self.*(&Open::parameter))(name, value, caller());
          },
          "name"_a, "value"_a, "Registers a trainable tensor and returns it.")
      .def(
          "buffer",
          [](Module& self, const std::string& name, const Tensor& value) {
            return (self.*(&Open::buffer))(name, value, caller());
          },
          "name"_a, "value"_a, "Registers a tensor that is state but not trained, and returns it.")
      .def(
          "child",
          [](Module& self, const std::string& name, std::shared_ptr<Module> module) {
            add_child(self, name, module);
            return module;
          },
          "name"_a, "module"_a,
          "Registers a module and returns it; `self.name = module` does the same.")
      .def(
          "named_parameters",
          [](Module& self) {
            check_trained_are_registered(self);
            return self.named_parameters();
          },
          "(path, tensor) of all parameters, in order.")
      .def("named_buffers", &Module::named_buffers, "(path, tensor) of all buffers, in order.")
      .def(
          "parameters",
          [](Module& self) {
            check_trained_are_registered(self);
            return self.parameters();
          },
          "All parameters, in order.")
      .def("num_parameters", &Module::num_parameters, "Number of elements of all parameters.")
      .def(
          "train",
          [](Module& self, bool training) {
            // What super().train() of a class reaches.
            dynamic_cast<PythonModule*>(&self) ? self.Module::train(training)
                                               : self.train(training);
          },
          "training"_a = true,
          "Sets training or evaluation mode for this module and all below it, by their own "
          "train(). "
          "A class that overrides it, so that a layer stays frozen, calls super().train().")
      .def("eval", &Module::eval, "train(False)")
      .def_prop_ro("training", &Module::is_training)
      .def("zero_grad", &Module::zero_grad, "Clears the gradients of all parameters.")
      .def("state_dict", &Module::state_dict,
           "Parameters and buffers by name: the module's own tensors.")
      .def(
          "load_state_dict",
          [](Module& self, const nn::StateDict& state) {
            called([&](Where where) { self.load_state_dict(state, where); });
          },
          "state"_a, "Copies values into the parameters and buffers.")
      .def(
          "to",
          [](Module& self, const std::string& device) {
            called([&](Where where) { self.to(Device(device, where), where); });
          },
          "device"_a, "Moves every parameter and buffer; gradients are dropped.")
      .def(
          "to",
          [](Module& self, DType dtype) { called([&](Where where) { self.to(dtype, where); }); },
          "dtype"_a.noconvert(),
          "Casts every floating parameter and buffer; gradients are dropped.")
      .def("__reduce_ex__", refuse_copy<Module>)
      .def("__repr__", printed<Module>);

  nb::class_<nn::ImageTask>(m, "ImageTask", "The images and classes that a model is made for.")
      .def(
          "__init__",
          [](nn::ImageTask* self, std::int64_t channels, std::int64_t height, std::int64_t width,
             std::int64_t classes) {
            new (self) nn::ImageTask{channels, height, width, classes};
          },
          "channels"_a = 1, "height"_a = 28, "width"_a = 28, "classes"_a = 10)
      .def_rw("channels", &nn::ImageTask::channels)
      .def_rw("height", &nn::ImageTask::height)
      .def_rw("width", &nn::ImageTask::width)
      .def_rw("classes", &nn::ImageTask::classes);
}

}  // namespace ringrad::python
