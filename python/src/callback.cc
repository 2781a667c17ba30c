#include "callback.h"

#include <unordered_map>

#include "bindings.h"

namespace ringrad::python {
namespace {

// By node. With the interpreter's lock.
std::unordered_multimap<const Node*, Callback*>& callbacks() {
  static auto* const all = new std::unordered_multimap<const Node*, Callback*>;
  return *all;
}

// Calls visit(callback) for those of the nodes that x and its likes, `num_tensors` in all, alone
// keep alive. Each of these nodes has one owner, x or another such node, so no callback is met
// twice. The collector's two looks at x meet the same callbacks, because nothing changes between
// them: the collector holds the lock, and no other thread runs C++.
template <class Visit>
int visit_callbacks(const Tensor& x, int num_tensors, Visit visit) {
  if (callbacks().empty() || num_unlocked_calls > 0 || !x.defined() ||
      x.impl()->num_references() != num_tensors)
    return 0;
  std::size_t num_left = callbacks().size();  // a graph without any more is not walked to its end
  std::vector<Node*> next{node_of(x)};
  while (!next.empty() && num_left > 0) {
    Node* const node = next.back();
    next.pop_back();
    if (!node || !node->unique()) continue;
    const auto [first, last] = callbacks().equal_range(node);
    for (auto entry = first; entry != last; ++entry) {
      --num_left;
      if (entry->second->weak_from_this().use_count() == 1)
        if (const int result = visit(*entry->second)) return result;
    }
    for (const Edge& edge : node->edges()) next.push_back(edge.node.get());
  }
  return 0;
}

}  // namespace

Callback::~Callback() {
  if (!Py_IsInitialized()) {
    (void)function_.release();  // the interpreter has ended, and with it the function
    return;
  }
  const nb::gil_scoped_acquire locked;
  const auto [first, last] = callbacks().equal_range(node_);
  for (auto entry = first; entry != last; ++entry)
    if (entry->second == this) {
      callbacks().erase(entry);
      break;
    }
  function_.reset();
}

void Callback::belong_to(const Node* node) {
  node_ = node;
  callbacks().emplace(node, this);
}

void Callback::throw_wrong_result(const char* must, nb::handle got) const {
  const nb::object name = nb::getattr(function_, "__qualname__", nb::repr(function_));
  throw DTypeError(concat(operation_, ": what ", nb::str(name).c_str(), " returns must be ", must,
                          "; got ", nb::type_name(got.type()).c_str()),
                   caller());
}

void CallbackHandle::remove() {
  if (const auto callback = callback_.lock()) const_cast<Node*>(callback->node())->remove_hook(id_);
}

int traverse_callbacks(const Tensor& x, int num_tensors, visitproc visit, void* arg) {
  return visit_callbacks(x, num_tensors, [&](const Callback& callback) {
    PyObject* const function = callback.function().ptr();
    return function ? visit(function, arg) : 0;
  });
}

std::vector<nb::object> release_callbacks(const Tensor& x, int num_tensors) {
  std::vector<nb::object> functions;
  visit_callbacks(x, num_tensors, [&](Callback& callback) {
    functions.push_back(callback.release());
    return 0;
  });
  return functions;
}

int traverse_tensor(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? traverse_callbacks(*nb::inst_ptr<Tensor>(self), 1, visit, arg) : 0;
}

int clear_tensor(PyObject* self) {
  if (nb::inst_ready(self)) release_callbacks(*nb::inst_ptr<Tensor>(self), 1);
  return 0;
}

}  // namespace ringrad::python
