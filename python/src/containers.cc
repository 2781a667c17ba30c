// nn: modules that hold others, in a row or by name.

#include "ringrad/nn/containers.h"

#include "bindings.h"

namespace ringrad::python {
namespace {

using nn::Module;

using ModuleList = nn::ModuleList<>;
using ModuleDict = nn::ModuleDict<>;

std::shared_ptr<Module> module_in(const char* container, const nb::handle& given) {
  std::shared_ptr<Module> module;
  RINGRAD_CHECK(!given.is_none() && nb::try_cast(given, module), DTypeError, caller(), container,
                ": what it holds must be a Module; got ", nb::type_name(given.type()).c_str());
  return module;
}

// An index of Python's as one of C++'s.
std::size_t place_in(const char* container, std::size_t size, std::int64_t i) {
  const auto count = static_cast<std::int64_t>(size);
  RINGRAD_CHECK(-count <= i && i < count, IndexError, caller(), container,
                ": an index must be below ", count, "; got ", i);
  return static_cast<std::size_t>(i < 0 ? i + count : i);
}

nb::dict by_name(ModuleDict& self) {
  nb::dict modules;
  for (const std::string& name : self.names())
    modules[name.c_str()] =
        nb::cast(self.get(name), nb::rv_policy::reference_internal, nb::find(self));
  return modules;
}

nb::object rows(const nb::object& self) {
  nb::list modules;
  for (std::size_t i = 0, count = nb::len(self); i < count; ++i) modules.append(self[i]);
  return nb::iter(modules);
}

}  // namespace

void bind_containers(nb::module_& m) {
  nb::class_<nn::Sequential, Module>(m, "Sequential", nb::is_final(),
                                     nb::type_slots(module_slots()),
                                     "Calls its layers one after the other.")
      .def(
          "__init__",
          [](nn::Sequential* self, const nb::args& layers) {
            nn::Sequential made;
            for (const nb::handle layer : layers)
              made.append(std::to_string(made.num_layers()), module_in("Sequential", layer),
                          caller());
            new (self) nn::Sequential(std::move(made));
          },
          nb::sig("def __init__(self, *layers: Module) -> None"))
      .def(
          "append",
          [](nn::Sequential& self, const nb::object& layer,
             const std::optional<std::string>& name) {
            self.append(name.value_or(std::to_string(self.num_layers())),
                        module_in("Sequential", layer), caller());
          },
          "layer"_a, "name"_a = nb::none(), "Adds a layer at the end.")
      .def("__len__", &nn::Sequential::num_layers)
      .def(
          "__getitem__",
          [](nn::Sequential& self, std::int64_t i) -> Module& {
            return self.layer(place_in("Sequential", self.num_layers(), i));
          },
          nb::rv_policy::reference_internal)
      .def("__iter__", rows, nb::sig("def __iter__(self) -> collections.abc.Iterator[Module]"));

  nb::class_<ModuleList, Module>(m, "ModuleList", nb::is_final(), nb::type_slots(module_slots()),
                                 "Modules in a row, whose parent decides how to call them.")
      .def(
          "__init__",
          [](ModuleList* self, const nb::iterable& modules) {
            ModuleList made;
            for (const nb::handle module : modules)
              made.append(module_in("ModuleList", module), caller());
            new (self) ModuleList(std::move(made));
          },
          "modules"_a = nb::tuple(),
          nb::sig("def __init__(self, modules: collections.abc.Iterable[Module] = ()) -> None"))
      .def(
          "append",
          [](ModuleList& self, const nb::object& module) {
            self.append(module_in("ModuleList", module), caller());
          },
          "module"_a, nb::sig("def append(self, module: Module) -> None"),
          "Adds a module at the end.")
      .def("__len__", &ModuleList::size)
      .def(
          "__getitem__",
          [](ModuleList& self, std::int64_t i) -> Module& {
            return self[place_in("ModuleList", self.size(), i)];
          },
          nb::rv_policy::reference_internal)
      .def("__iter__", rows, nb::sig("def __iter__(self) -> collections.abc.Iterator[Module]"));

  nb::class_<ModuleDict, Module>(m, "ModuleDict", nb::is_final(), nb::type_slots(module_slots()),
                                 "Modules by name, in the order of insertion, whose parent decides "
                                 "how to call them.")
      .def(
          "__init__",
          [](ModuleDict* self, const nb::dict& modules) {
            ModuleDict made;
            for (const auto& [key, module] : modules) {
              std::string name;
              RINGRAD_CHECK(nb::try_cast(key, name), DTypeError, caller(),
                            "ModuleDict: a name must be a str; got ",
                            nb::type_name(key.type()).c_str());
              made.insert(name, module_in("ModuleDict", module), caller());
            }
            new (self) ModuleDict(std::move(made));
          },
          "modules"_a = nb::dict(),
          nb::sig("def __init__(self, modules: dict[str, Module] = {}) -> None"))
      .def(
          "__setitem__",
          [](ModuleDict& self, const std::string& name, const nb::object& module) {
            self.insert(name, module_in("ModuleDict", module), caller());
          },
          "name"_a, "module"_a, nb::sig("def __setitem__(self, name: str, module: Module) -> None"),
          "Adds a module; a name that is there stays what it is.")
      .def(
          "__getitem__",
          [](ModuleDict& self, const std::string& name) -> Module& {
            return self.get(name, caller());
          },
          "name"_a, nb::rv_policy::reference_internal)
      .def("__len__", &ModuleDict::size)
      .def("__contains__", &ModuleDict::contains, "name"_a)
      .def(
          "__iter__", [](ModuleDict& self) { return nb::iter(by_name(self)); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"))
      .def(
          "items", [](ModuleDict& self) { return by_name(self).items(); },
          nb::sig("def items(self) -> list[tuple[str, Module]]"), "(name, module) of all.");
}

}  // namespace ringrad::python
