// Tensor's members, guards such as no_grad, and gradients.

#include <cstring>
#include <set>

#include "bindings.h"
#include "ringrad/autograd/function.h"

namespace ringrad::python {
namespace {

nb::object to_list(const Tensor& x) {
  if (x.dims() == 0) return nb::cast(x.scalar());
  nb::list rows;
  for (std::int64_t i = 0; i < x.size(0); ++i) rows.append(to_list(x[i]));
  return rows;
}

using Hook = std::function<std::optional<Tensor>(const Tensor& grad)>;

// As register_hook() of C++, whose handle would keep the tensor's history alive.
CallbackHandle add_hook(const Tensor& x, const Hook& hook) {
  const Where where = caller();
  const Edge edge = x.requires_grad(where) ? edge_to(x) : Edge();
  RINGRAD_CHECK(edge.node, AutogradError, where,
                "register_hook: the tensor must require a gradient; got one of shape ", x.shape(),
                " that does not");
  const auto callback = callback_of(for_operation("register_hook", hook));
  const int id = edge.node->add_hook(
      edge.output, [hook](const Tensor& grad) { return hook(grad).value_or(Tensor()); });
  callback->belong_to(edge.node.get());
  return CallbackHandle(callback, id);
}

// --- Functions whose gradient is written in Python ---

struct PythonBackward {
  std::shared_ptr<Callback> callback;
  std::size_t num_inputs;
  std::vector<SavedTensor> saved;

  void operator()(BackwardContext& context) const {
    const nb::gil_scoped_acquire locked;
    if (!callback->function().is_valid()) return;
    nb::list arguments;
    arguments.append(context.grad_output());
    for (const SavedTensor& x : saved) arguments.append(x.get());
    // The function may call backward() itself, which may end this object.
    const auto callback = this->callback;
    const auto num_inputs = this->num_inputs;
    const nb::object got = callback->function()(*arguments);
    std::vector<std::optional<Tensor>> gradients;
    if (std::optional<Tensor> one; num_inputs == 1 && nb::try_cast(got, one))
      gradients.push_back(one);
    else if (nb::isinstance<Tensor>(got) || !nb::isinstance<nb::sequence>(got) ||
             !nb::try_cast(got, gradients))
      callback->throw_wrong_result(
          num_inputs == 1 ? "a Tensor or None" : "a list of Tensors and None, one per input", got);
    RINGRAD_CHECK(gradients.size() == num_inputs, ValueError, context.where(),
                  "record: backward must return a gradient, or None, for each of ", num_inputs,
                  " inputs; got ", gradients.size());
    for (std::size_t i = 0; i < num_inputs; ++i)
      context.set(static_cast<int>(i), gradients[i].value_or(Tensor()));
  }
};

// As record() of C++, whose lambda saves what it captures.
Tensor record_function(const std::string& name, const Tensor& y, const std::vector<Tensor>& inputs,
                       const nb::callable& backward, const std::vector<Tensor>& saved) {
  const Where where = caller();
  RINGRAD_CHECK(!y.requires_grad(where), AutogradError, where,
                "record: the result must have no history; got one that has; compute it under "
                "no_grad()");
  RINGRAD_CHECK(is_floating(y.dtype()), DTypeError, where,
                "record: the result must have a floating dtype; got ", y.dtype());
  for (const Tensor& x : inputs)
    RINGRAD_CHECK(!x.is(y), ValueError, where,
                  "record: the result must be another tensor than the inputs; got an input; take "
                  "its detach()");
  if (!needs_grad(std::span<const Tensor>(inputs))) return y;
  static auto* const names = new std::set<std::string>;  // a node's name lives for ever
  const auto callback = std::make_shared<Callback>(nb::borrow(backward));
  callback->set_operation("record");
  std::vector<SavedTensor> kept;
  for (const Tensor& x : saved) kept.push_back(x.is(y) ? save_output(x) : save(x));
  record(names->insert(name).first->c_str(), where, std::span(&y, 1), inputs,
         PythonBackward{callback, inputs.size(), std::move(kept)});
  callback->belong_to(node_of(y));
  return y;
}

// --- Copies and pickles: dtype, shape, bytes, and whether it is trained ---

nb::tuple state_of(const Tensor& x) {
  const Where where = caller();
  RINGRAD_CHECK(x.device(where).is_cpu(), DeviceError, where,
                "copy, pickle: a tensor must be on a CPU; got one on ", x.device(),
                "; take x.clone(), or x.to(\"cpu\")");
  RINGRAD_CHECK(!x.requires_grad() || x.is_leaf(), AutogradError, where,
                "copy, pickle: a tensor must have no history; got the result of an operation; take "
                "x.detach()");
  const Tensor plain = contiguous(x.detach(where), where);
  const auto size = static_cast<std::size_t>(plain.numel()) * size_bytes(plain.dtype());
  return nb::make_tuple(plain.dtype(), plain.shape(), nb::bytes(plain.raw_data(), size),
                        x.requires_grad());
}

void set_state(Tensor& self, const std::tuple<DType, Shape, nb::bytes, bool>& state) {
  const Where where = caller();
  const auto& [dtype, shape, bytes, requires_grad] = state;
  const Tensor x = empty(shape, {.dtype = dtype, .device = Device()}, where);
  const auto size = static_cast<std::size_t>(x.numel()) * size_bytes(dtype);
  RINGRAD_CHECK(bytes.size() == size, DataError, where, "pickle: a tensor of shape ", shape,
                " and dtype ", dtype, " must have ", size, " bytes; got ", bytes.size());
  if (size > 0) std::memcpy(x.raw_data(), bytes.c_str(), size);
  check_truth_values("pickle", x, where);
  if (requires_grad) x.set_requires_grad(true, where);
  new (&self) Tensor(x);
}

}  // namespace

nb::class_<Tensor> bind_tensor(nb::module_& m) {
  nb::class_<Tensor> tensor(
      m, "Tensor", nb::type_slots(tensor_slots()),
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
          nb::arg().none(),
          "The gradient accumulated in this leaf, or None. Once it is cleared, a tensor that this "
          "gave and its views keep their values; NumPy arrays may show the next gradient.")
      .def(
          "zero_grad", [](const Tensor& x) { x.zero_grad(caller()); },
          "Drops the gradient, so that the next backward pass begins at 0.")
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
          [](const nb::object& self, bool value) {
            nb::cast<const Tensor&>(self).set_requires_grad(value, caller());
            return self;
          },
          "requires_grad"_a = true,
          nb::sig("def set_requires_grad(self, requires_grad: bool = True) -> Tensor"),
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
          "be left out for a tensor of one element. With create_graph, a leaf's grad holds the "
          "graph and so the leaf: clear it, or use grad(), or none of them is ever freed.")
      .def(
          "detach", [](const Tensor& x) { return x.detach(caller()); },
          "The same memory without history.")
      .def(
          "item", [](const Tensor& x) { return x.scalar(caller()); },
          "The value of a one-element tensor.")
      .def("tolist", to_list, "All elements, in lists of lists.")
      .def(
          "mark_changed", [](const Tensor& x) { x.storage(caller())->mark_changed(caller()); },
          "Says that another library has written to this memory, so that backward refuses a saved "
          "tensor "
          "whose numbers are no longer those of the forward pass.")
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
          "register_hook", add_hook, "hook"_a,
          "Calls hook(grad) when backward has this tensor's gradient; what it returns, unless "
          "None, replaces the gradient. A hook of a layer's parameter, of one that an optimizer or "
          "a list holds as well, lives as long as those: one that refers to the model which they "
          "belong to keeps it alive until remove().")
      .def("__bool__", [](const Tensor& x) { return x.item<bool>(caller()); })
      .def("__float__", [](const Tensor& x) { return x.item<double>(caller()); })
      .def("__int__", [](const Tensor& x) { return x.item<std::int64_t>(caller()); })
      .def("__getstate__", state_of)
      .def("__setstate__", set_state)
      .def("__repr__", printed<Tensor>);
  nb::class_<CallbackHandle>(m, "HookHandle", "A hook that can be removed.")
      .def("remove", &CallbackHandle::remove, "The hook is called no more.");

  nb::class_<Generator>(m, "Generator", "A stream of random numbers, Philox 4x32-10.")
      .def(nb::init<std::uint64_t>(), "seed"_a = 0);
  m.def("default_generator", &detail::thread_generator, "The calling thread's generator.");

  using NoGradScope = Scope<NoGradGuard>;
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
          "dtype"_a.noconvert())
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
  m.def("record", record_function, "name"_a, "y"_a, "inputs"_a, "backward"_a,
        "saved"_a = std::vector<Tensor>(),
        nb::sig("def record(name: str, y: Tensor, inputs: collections.abc.Sequence[Tensor], "
                "backward: collections.abc.Callable[..., Tensor | None | "
                "collections.abc.Sequence[Tensor | None]], "
                "saved: collections.abc.Sequence[Tensor] = []) -> Tensor"),
        "Returns y, which was computed under no_grad(), as a function of the inputs whose gradient "
        "is yours: backward(grad, *saved) gets d(loss)/dy and returns d(loss)/d(input) for each "
        "input, in a list if there are several; None means 0. A tensor in `saved`, which may be y, "
        "must not change before backward. With create_graph, what backward does is recorded.");
  return tensor;
}

}  // namespace ringrad::python
