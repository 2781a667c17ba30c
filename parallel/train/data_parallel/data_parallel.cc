#include "ringrad/parallel/train/data_parallel/data_parallel.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "ringrad/autograd/function.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/random/random.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/nn/arena.h"
#include "ringrad/parallel/comm/common/rethrow.h"
#include "ringrad/parallel/comm/same_text.h"
#include "ringrad/parallel/train/common/caller_state.h"
#include "ringrad/parallel/train/common/device_threads.h"
#include "ringrad/parallel/train/common/known_parameters.h"
#include "ringrad/parallel/train/common/same_model.h"

namespace ringrad {
namespace {

// A replica's tensor with the values of one of the module's: a copy, or the same memory.
class Mirror {
 public:
  Mirror(Tensor from, Tensor to, bool shares_memory)
      : from_(std::move(from)), to_(std::move(to)), shares_memory_(shares_memory) {}

  // A graph that is still alive may have saved a copy, so it is written only if needed.
  void update(Where where) {
    RINGRAD_CHECK(from_.dtype() == to_.dtype(), DTypeError, where,
                  "DataParallel: the module must keep its dtypes; got ", from_.dtype(), " for ",
                  to_.dtype(), "; make a new one");
    if (from_.requires_grad() != to_.requires_grad()) to_.set_requires_grad(from_.requires_grad());
    const bool same_place = seen_ == from_.storage();
    if (shares_memory_) {
      if (!same_place) to_.set_data(from_, where);
    } else if (!same_place || seen_version_ != from_.version() || own_version_ != to_.version()) {
      kernels::copy_(view::alias(to_), view::alias(from_), where);
    }
    seen_ = from_.storage();
    seen_version_ = from_.version();
    own_version_ = to_.version();
  }

  const Tensor& from() const { return from_; }

 private:
  Tensor from_, to_;
  bool shares_memory_;
  Ref<Storage> seen_;
  std::uint32_t seen_version_ = 0, own_version_ = 0;
};

// What a replica computes in one forward pass, and its own graph of it.
struct Part {
  std::int64_t begin, end;  // rows of the batch
  Tensor x, y;
  std::uint64_t generator_offset = 0;  // after forward
  // Of the latest backward pass:
  Tensor grad_x;
  std::vector<Tensor> grads;  // one per parameter, undefined where none arrived
};

// The batch's rows, divided as evenly as possible; an empty batch has one empty part.
std::vector<Part> cut(std::int64_t batch, std::int64_t num_devices) {
  const std::int64_t count = std::clamp<std::int64_t>(batch, 1, num_devices);
  std::vector<Part> parts(static_cast<std::size_t>(count));
  std::int64_t begin = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t size = batch / count + (k < batch % count);
    parts[static_cast<std::size_t>(k)].begin = begin;
    parts[static_cast<std::size_t>(k)].end = begin += size;
  }
  return parts;
}

// Takes a replica's gradient away from it.
Tensor take_gradient(const Tensor& parameter) {
  const Tensor gradient = parameter.grad();
  if (Leaf* leaf = known_leaf_of(parameter)) leaf->grad = {};
  return gradient;
}

std::string text_of(const nn::Module& module) {
  return concat(module, '\n', describe_model(module));
}

}  // namespace

class DataParallel::Replicas : public std::enable_shared_from_this<Replicas> {
 public:
  Replicas(nn::Module& module, const MakeReplica& make, const std::vector<Device>& devices,
           Where where)
      : module_(module), devices_(devices), threads_(static_cast<int>(devices.size())) {
    const Generator before = default_generator();
    for (std::size_t k = 0; k < devices.size(); ++k) add_replica(k, make, where);
    default_generator() = before;
    update(where);
  }

  Tensor forward(const Tensor& x, Where at) {
    refuse_while_capturing("DataParallel, whose threads queue work too", at);
    RINGRAD_CHECK(x.dims(at) > 0, ShapeError, at,
                  "DataParallel: the input must have an axis to divide; got shape ", x.shape());
    RINGRAD_CHECK(x.device() == devices_[0], DeviceError, at, "DataParallel: the input must be on ",
                  devices_[0], "; got ", x.device());
    update(at);
    auto parts = std::make_shared<std::vector<Part>>(
        cut(x.size(0), static_cast<std::int64_t>(devices_.size())));
    {
      const NoGradGuard guard;
      for (std::size_t k = 0; k < parts->size(); ++k) {
        Part& part = (*parts)[k];
        part.x = to(view::slice(x, 0, part.begin, part.end, 1, at), devices_[k], at);
        if (x.requires_grad()) part.x.set_requires_grad();
      }
    }
    run(*parts, at, [&](std::size_t k, Part& part) {
      part.y = (*replicas_[k].module)(part.x, at);
      part.generator_offset = default_generator().offset();
    });
    for (const Part& part : *parts)
      default_generator().set_offset(std::max(default_generator().offset(), part.generator_offset));
    return record_gathered(x, std::move(parts), at);
  }

 private:
  struct Replica {
    std::unique_ptr<nn::Module> module;
    std::vector<Tensor> parameters;
    std::vector<Mirror> mirrors;
  };

  void add_replica(std::size_t k, const MakeReplica& make, Where where) {
    const DefaultDeviceGuard guard(devices_[k]);
    Replica replica{make(), {}, {}};
    RINGRAD_CHECK(replica.module, ValueError, where,
                  "DataParallel: make_replica must return a module; got none");
    const nn::Module& made = *replica.module;
    for (std::size_t i = 0; i < made.parameters().size() && i < module_.parameters().size(); ++i)
      made.parameters()[i].set_requires_grad(module_.parameters()[i].requires_grad());
    const std::string ours = text_of(module_), theirs = text_of(made);
    RINGRAD_CHECK(ours == theirs, ValueError, where,
                  "DataParallel: make_replica must make the module again; they differ at ",
                  first_difference(ours, theirs));
    share_hooks(*replica.module, where);
    replica.module->to(devices_[k], where);
    replica.parameters = made.parameters();
    const std::vector<Tensor> parameters = module_.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      replica.mirrors.emplace_back(parameters[i], replica.parameters[i],
                                   devices_[k] == devices_[0]);
    // Replicas write to their buffers at the same time, so only the first may share the module's.
    const auto buffers = module_.named_buffers(), copies = made.named_buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i)
      replica.mirrors.emplace_back(buffers[i].second, copies[i].second, k == 0);
    replicas_.push_back(std::move(replica));
  }

  std::vector<nn::Module*> modules_of(nn::Module& root) const {
    std::vector<nn::Module*> all;
    root.visit([&](const std::string&, nn::Module& m) { all.push_back(&m); });
    return all;
  }

  // The module's hooks run on the replicas, unless make_replica has added the replica's own.
  void share_hooks(nn::Module& replica, Where where) const {
    const std::vector<nn::Module*> ours = modules_of(module_), theirs = modules_of(replica);
    for (std::size_t i = 0; i < ours.size(); ++i)
      if (!theirs[i]->has_hooks()) theirs[i]->share_hooks(*ours[i]);
    check_hooks(replica, where);
  }

  void check_hooks(nn::Module& replica, Where where) const {
    const std::vector<nn::Module*> ours = modules_of(module_), theirs = modules_of(replica);
    for (std::size_t i = 0; i < ours.size(); ++i)
      RINGRAD_CHECK(ours[i]->num_hooks() == theirs[i]->num_hooks(), ValueError, where,
                    "DataParallel: hooks must be added by make_replica alike, or to the module "
                    "alone; got ",
                    ours[i]->num_hooks(), " on the module's ", ours[i]->describe(), " and ",
                    theirs[i]->num_hooks(), " on the replica's");
  }

  // Brings the replicas up to date with the module.
  void update(Where where) {
    const NoGradGuard guard;
    std::vector<bool> training;
    module_.visit([&](const std::string&, nn::Module& m) { training.push_back(m.is_training()); });
    for (Replica& replica : replicas_) {
      check_hooks(*replica.module, where);
      for (Mirror& mirror : replica.mirrors) {
        RINGRAD_CHECK(mirror.from().device() == devices_[0], DeviceError, where,
                      "DataParallel: the module must be on ", devices_[0], "; got a tensor on ",
                      mirror.from().device());
        mirror.update(where);
      }
      std::size_t i = 0;  // parents come first; train() also sets their descendants
      replica.module->visit([&](const std::string&, nn::Module& m) { m.train(training[i++]); });
    }
  }

  // Calls body(k, parts[k]) on all threads, in the caller's state. Rethrows the exception of the
  // lowest k.
  template <class Body>
  void run(std::vector<Part>& parts, Where where, Body body) {
    const CallerState caller;
    const auto errors = threads_.run(
        static_cast<int>(parts.size()),
        [&](int thread) {
          const auto k = static_cast<std::size_t>(thread);
          const AsCaller guard(caller, thread, devices_[k]);
          body(k, parts[k]);
        },
        where);
    for (std::size_t k = 0; k < errors.size(); ++k)
      if (errors[k])
        rethrow_of(concat("DataParallel: replica ", k, " on ", devices_[k]), errors[k], where);
  }

  Tensor record_gathered(const Tensor& x, std::shared_ptr<std::vector<Part>> parts, Where where) {
    std::vector<Tensor> inputs = module_.parameters();
    inputs.insert(inputs.begin(), x);
    Tensor y;
    {
      const NoGradGuard guard;
      std::vector<Tensor> outputs;
      for (const Part& part : *parts) {
        const Shape& shape = part.y.shape(where);
        RINGRAD_CHECK(!shape.empty() && shape[0] == part.end - part.begin, ShapeError, where,
                      "DataParallel: the module must keep axis 0; got ", part.y.shape(), " for ",
                      part.x.shape());
        outputs.push_back(to(part.y, devices_[0], where));
      }
      y = outputs.size() == 1 ? view::alias(outputs[0], where) : concatenate(outputs, 0, where);
    }
    if (needs_grad(std::span<const Tensor>(inputs)))
      record("data_parallel", where, {&y, 1}, inputs,
             [self = shared_from_this(), parts = std::move(parts)](BackwardContext& context) {
               self->backward(*parts, context);
             });
    return y;
  }

  void backward(std::vector<Part>& parts, BackwardContext& context) {
    RINGRAD_CHECK(!grad_enabled(), AutogradError, context.where(),
                  "backward of DataParallel: create_graph must be off; got on");
    const Where where = context.where();
    std::vector<Tensor> grad_outputs;
    for (std::size_t k = 0; k < parts.size(); ++k)
      grad_outputs.push_back(
          to(view::slice(context.grad_output(), 0, parts[k].begin, parts[k].end, 1, where),
             devices_[k], where));
    run(parts, where, [&](std::size_t k, Part& part) {
      const std::vector<Tensor>& parameters = replicas_[k].parameters;
      // left by a pass that failed
      for (const Tensor& parameter : parameters) take_gradient(parameter);
      take_gradient(part.x);
      // The outer pass decides whether the history is kept: this function holds all of it.
      if (part.y.requires_grad()) part.y.backward(grad_outputs[k], {.retain_graph = true}, where);
      part.grad_x = take_gradient(part.x);
      part.grads.clear();
      for (const Tensor& parameter : parameters) part.grads.push_back(take_gradient(parameter));
    });
    if (context.needs(0)) context.set(0, gather_grad_x(parts, where));
    for (std::size_t i = 0; i < parts[0].grads.size(); ++i) {
      const int input = static_cast<int>(i) + 1;
      context.set(input, sum_of_grads(parts, i,
                                      where));  // also for a second half, which need not run it all
    }
  }

  Tensor gather_grad_x(std::vector<Part>& parts, Where where) const {
    std::vector<Tensor> grads;
    for (Part& part : parts) {
      const Tensor grad = std::exchange(part.grad_x, {});
      const Options like{.dtype = part.x.dtype(), .device = devices_[0]};
      grads.push_back(grad.defined() ? to(grad, devices_[0], where)
                                     : zeros(part.x.shape(), like, where));
    }
    return grads.size() == 1 ? grads[0] : concatenate(grads, 0, where);
  }

  Tensor sum_of_grads(std::vector<Part>& parts, std::size_t parameter, Where where) const {
    Tensor sum;
    for (Part& part : parts) {
      const Tensor grad = std::exchange(part.grads[parameter], {});
      if (!grad.defined()) continue;
      const Tensor here = to(grad, devices_[0], where);
      if (sum.defined())
        kernels::add_(sum, here, 1, where);
      else
        sum = here;
    }
    return sum;
  }

  nn::Module& module_;
  const std::vector<Device> devices_;
  std::vector<Replica> replicas_;
  DeviceThreads threads_;
};

DataParallel::DataParallel(nn::Module& module, const MakeReplica& make_replica,
                           const std::vector<Device>& devices, Where where)
    : module_(module), devices_(devices) {
  RINGRAD_CHECK(!devices.empty(), ValueError, where,
                "DataParallel: there must be at least one device; got none");
  // Replicas on devices[0] will read the parameters in place, where they must then stay: in an
  // arena, so that an optimizer's step is one pass. Gradients stay as they are.
  const std::vector<Tensor> trained = trained_parameters(module);
  nn::make_arenas(trained, {}, where);
  for (const Tensor& parameter : trained)
    if (!leaf_of(parameter)->has_gradient()) parameter.set_grad({});
  replicas_ = std::make_shared<Replicas>(module, make_replica, devices, where);
}

Tensor DataParallel::forward(const Tensor& x, Where at) { return replicas_->forward(x, at); }

}  // namespace ringrad
