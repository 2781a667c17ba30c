#include "ringrad/autograd/node.h"

#include <utility>

#include "ringrad/autograd/anomaly.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/core/transfer.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/kernels/elementwise/elementwise.h"

namespace ringrad {
namespace {

thread_local std::uint64_t next_sequence = 0;
thread_local Node* deletion_queue = nullptr;
thread_local bool deleting = false;

}  // namespace

struct Node::Hooks {
  struct OfOutput {
    int output;
    GradientHook hook;
  };
  HookList<OfOutput> list;
};

Node::Node(const char* name, Where where, int num_outputs, std::size_t object_bytes, bool is_leaf)
    : name_(name),
      where_(where),
      sequence_(++next_sequence),
      num_outputs_(num_outputs),
      object_bytes_(static_cast<std::uint32_t>(object_bytes)),
      is_leaf_(is_leaf) {
  if (num_outputs > 1)
    more_outputs_ = std::make_unique<Output[]>(static_cast<std::size_t>(num_outputs - 1));
}

Node::Node(const Node& other, std::size_t object_bytes)
    : name_(other.name_),
      where_(other.where_),
      sequence_(other.sequence_),
      num_outputs_(other.num_outputs_),
      object_bytes_(static_cast<std::uint32_t>(object_bytes)) {
  if (num_outputs_ > 1)
    more_outputs_ = std::make_unique<Output[]>(static_cast<std::size_t>(num_outputs_ - 1));
}

Node::~Node() = default;

std::string Node::description() const {
  return is_leaf_ ? concat("a leaf made at ", to_string(where_))
                  : concat("the result of ", name_, " at ", to_string(where_));
}

void Node::operator delete(Node* node, std::destroying_delete_t) {
  node->next_to_delete_ = std::exchange(deletion_queue, node);
  if (deleting) return;
  deleting = true;
  while (deletion_queue) {
    Node* next = deletion_queue;
    deletion_queue = next->next_to_delete_;
    const std::size_t bytes = next->object_bytes_;
    next->~Node();
    pool_deallocate(next, bytes);
  }
  deleting = false;
}

int Node::add_hook(int output, GradientHook hook) {
  if (!hooks_) hooks_ = std::make_unique<Hooks>();
  return hooks_->list.add({output, std::move(hook)});
}

void Node::remove_hook(int id) {
  if (hooks_) hooks_->list.remove(id);
}

void Node::run_hooks() {
  if (!hooks_) return;
  hooks_->list.for_each([this](const Hooks::OfOutput& entry) {
    Tensor& grad = gradient(entry.output);
    if (!grad.defined()) return;
    const Tensor replacement = entry.hook(grad);
    if (!replacement.defined()) return;
    RINGRAD_CHECK(replacement.shape() == grad.shape(), ShapeError, where_, "backward of ", name_,
                  ": a hook must return a gradient of the same shape; got ", replacement.shape(),
                  " for ", grad.shape());
    check_same_dtype("backward", replacement, grad, where_);
    check_same_device("backward", replacement, grad, where_);
    grad = replacement;
  });
}

Leaf::Leaf(const Tensor& tensor, Where where)
    : Node("leaf", where, 1, sizeof(Leaf), true), strides_(tensor.strides()) {
  describe_output(0, tensor);
}

void Leaf::follow(const Tensor& tensor) {
  describe_output(0, tensor);
  strides_ = tensor.strides();
  set({});
}

// The storage moves, and all its tensors with it. Arrays of other libraries, which count as views,
// do not.
void Leaf::part_from_holders() {
  if (!grad.defined() || overwrite || !lies_in_arena(grad)) return;
  const Ref<Storage>& slot = grad.storage();
  const bool has_views = !slot->unique();
  if (!has_views && grad.impl()->unique()) return;
  Tensor own;
  if (!has_views) {
    const auto begin = static_cast<std::size_t>(slot->data() - slot->whole()->data());
    own = Tensor(make_ref<TensorImpl>(Storage::slice(slot->whole(), begin, slot->bytes()),
                                      grad.offset(), grad.shape(), grad.strides(), grad.dtype(),
                                      grad.made_at()));
  }
  auto copy = make_ref<Storage>(slot->bytes(), slot->device(), where());
  copy_bytes(copy->data(), copy->device(), slot->data(), slot->device(), slot->bytes(), where());
  slot->move_to(std::move(copy));
  grad = std::move(own);
}

void Leaf::clear() {
  part_from_holders();
  if (!grad.defined()) return set({});
  is_average = false;
  overwrite = true;
  zeros_at_.reset();
}

void Leaf::settle() {
  if (!overwrite) return;
  overwrite = false;
  const NoGradGuard guard;  // after create_graph the gradient has a history of its own
  kernels::zero_(grad);
  zeros_at_ = grad.version();
}

void Leaf::set(Tensor x) {
  if (!x.is(grad)) part_from_holders();
  is_average = is_average && x.defined();
  grad = std::move(x);
  overwrite = false;
  zeros_at_.reset();
}

bool Leaf::has_gradient() const {
  return grad.defined() && !overwrite && zeros_at_ != grad.version();
}

// Steal or accumulate: the first gradient is taken over if no other code holds it; later ones are
// added in place.
void Leaf::apply(BackwardContext& context) {
  const Tensor& incoming = context.grad_output();
  RINGRAD_CHECK(!is_average, AutogradError, where(),
                "backward: a gradient that was averaged over ranks must be cleared before the next "
                "pass; call zero_grad()");
  const Options like{.dtype = incoming.dtype(), .device = incoming.device()};
  const bool keeps_strides = is_dense(incoming.shape(), strides_);
  const bool may_steal =
      keeps_strides && exclusively_owned(incoming) && incoming.strides() == strides_;
  if (grad_enabled()) {
    settle();
    // A gradient that other code sees is copied, recorded as a sum with zero, because a later pass
    // adds to grad in place.
    const auto other = [&] { return zeros({}, like, where()); };
    const bool is_first = !grad.defined();
    if (!is_first || !may_steal)
      set(add_gradients(is_first ? other() : grad, incoming, where()));
    else
      set(incoming);
  } else if (incoming.is(grad) && !has_hooks()) {
    // It was written directly into grad.
  } else if (overwrite) {
    overwrite = false;
    kernels::copy_(grad, incoming);
  } else if (grad.defined()) {
    kernels::add_(grad, incoming, 1);
  } else if (may_steal) {
    grad = incoming;
  } else {
    const Tensor fresh = empty(incoming.shape(), like, where());
    grad = keeps_strides ? view::as_strided(fresh, incoming.shape(), strides_, 0, where()) : fresh;
    kernels::copy_(grad, incoming);
  }
  zeros_at_.reset();
  completed_hooks.for_each([this](const auto& hook) { hook(grad); });
}

Leaf* leaf_of(const Tensor& x) {
  if (!x.requires_grad()) return nullptr;
  TensorImpl* impl = x.impl();
  if (!impl->history) impl->history = make_ref<Leaf>(x, impl->made_at);
  Node* node = node_of(x);
  return node->is_leaf() ? static_cast<Leaf*>(node) : nullptr;
}

Edge edge_to(const Tensor& x) {
  if (!x.defined() || !x.requires_grad()) return {};
  if (!x.impl()->history) leaf_of(x);
  return {Ref<Node>::share(node_of(x)), x.impl()->output};
}

void set_history(const Tensor& y, Ref<Node> node, int output) {
  TensorImpl* impl = y.impl();
  if (y.device().is_cuda()) name_block(impl->storage->data(), y.device(), node->name());
  node->describe_output(output, y);
  impl->requires_grad = true;
  impl->history = std::move(node);
  impl->output = static_cast<std::uint16_t>(output);
  if (detail::detects_anomaly) detail::check_result(y, static_cast<Node&>(*impl->history));
}

}  // namespace ringrad
