#include "parallel/train/distributed_data_parallel.h"

#include <cstring>
#include <string>

#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "autograd/hooks.h"
#include "core/view.h"
#include "kernels/copy.h"
#include "parallel/comm/chaos.h"

namespace ringrad {
namespace {

// Every parameter and buffer of the module as text: what must agree between ranks before values
// can.
std::string describe_model(const nn::Module& module) {
  std::string text;
  const auto append = [&](const std::vector<nn::NamedTensor>& tensors) {
    for (const auto& [name, tensor] : tensors)
      text += concat(name, ' ', tensor.dtype(), ' ', tensor.shape(), '\n');
  };
  append(module.named_parameters());
  append(module.named_buffers());
  return text;
}

// The first line in which two descriptions differ, from both.
std::string first_difference(const std::string& ours, const std::string& theirs) {
  std::size_t line = 0;
  for (std::size_t i = 0; i < ours.size() && i < theirs.size() && ours[i] == theirs[i]; ++i)
    if (ours[i] == '\n') line = i + 1;
  const auto line_of = [&](const std::string& text) {
    return line < text.size() ? text.substr(line, text.find('\n', line) - line) : "nothing more";
  };
  return concat('"', line_of(ours), "\" and \"", line_of(theirs), '"');
}

// Throws on every rank if one rank's description differs from rank 0's.
void check_same_model(const nn::Module& module, Communicator& comm, Where where) {
  const std::string ours = describe_model(module);
  Tensor length = full({1}, static_cast<std::int64_t>(ours.size()),
                       {.dtype = DType::int64, .device = Device()});
  comm.broadcast(length, 0, where);
  std::string reference = ours;
  reference.resize(static_cast<std::size_t>(length.item<std::int64_t>()));
  Tensor bytes = empty({length.item<std::int64_t>()}, {.dtype = DType::uint8, .device = Device()});
  if (comm.rank() == 0) std::memcpy(bytes.raw_data(), ours.data(), ours.size());
  comm.broadcast(bytes, 0, where);
  std::memcpy(reference.data(), bytes.raw_data(), reference.size());

  Tensor differing = zeros({comm.world_size()}, {.dtype = DType::int32, .device = Device()});
  differing.data<std::int32_t>()[comm.rank()] = ours != reference;
  comm.all_reduce(differing, ReduceOp::sum, where);
  std::string ranks;
  for (int rank = 0; rank < comm.world_size(); ++rank)
    if (differing.data<std::int32_t>()[rank]) ranks += concat(' ', rank);
  RINGRAD_CHECK(
      ranks.empty(), CollectiveError, where,
      "DistributedDataParallel: all ranks must hold the model of rank 0; different on rank", ranks,
      ours == reference ? std::string() : concat(", first at ", first_difference(ours, reference)));
}

}  // namespace

// The buckets, and how many gradients each still waits for in the backward pass that runs now.
// Hooks on the parameters hold on to it, and do nothing once the wrapper is gone.
class DistributedDataParallel::Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  Reducer(nn::Module& module, Communicator& comm, std::int64_t bucket_bytes, Where where)
      : comm_(&comm), where_(where) {
    std::vector<Tensor> trained;
    for (const Tensor& parameter : module.parameters())
      (parameter.requires_grad() ? trained : frozen_).push_back(parameter);
    // Where the communicator reduces them in place.
    const auto make_gradients = [&](std::int64_t count, const Options& options) {
      return comm.empty_shared({count}, options, where);
    };
    arenas_ = nn::make_arenas(trained, make_gradients, where);
    for (const Tensor& parameter : frozen_) comm.broadcast(parameter.detach(), 0, where);
    for (const nn::ParameterArena& arena : arenas_) {
      comm.broadcast(arena.values(), 0, where);
      make_buckets(arena, bucket_bytes);
    }
  }

  void add_hooks() {
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      for (std::size_t i = buckets_[b].begin; i < buckets_[b].end; ++i)
        register_completed_hook(buckets_[b].arena->parameters()[i],
                                [weak = weak_from_this(), b](const Tensor&) {
                                  if (const auto self = weak.lock()) self->gradient_completed(b);
                                });
  }

  std::size_t num_buckets() const { return buckets_.size(); }

  void pause() { ++num_pauses_; }
  void resume() { --num_pauses_; }

  // Nobody would reduce the gradient of a parameter that has no place in a bucket.
  void check_frozen(Where where) const {
    for (const Tensor& parameter : frozen_)
      RINGRAD_CHECK(!parameter.requires_grad(), AutogradError, where,
                    "DistributedDataParallel: a parameter that was frozen when it was made must "
                    "stay so; got one of shape ",
                    parameter.shape(), " that requires a gradient now; make a new one");
  }

 private:
  // Parameters [begin, end) of an arena.
  struct Bucket {
    const nn::ParameterArena* arena;
    std::size_t begin, end;
    Tensor gradients;  // their slice of the arena
    std::size_t num_completed = 0;

    bool complete() const { return num_completed == end - begin; }
  };

  struct Pass {};

  // From the last parameter to the first, because backward completes them in about that order.
  void make_buckets(const nn::ParameterArena& arena, std::int64_t bucket_bytes) {
    const auto element_bytes = static_cast<std::int64_t>(size_bytes(arena.values().dtype()));
    std::int64_t last = arena.gradients().numel();
    std::size_t end = arena.parameters().size();
    for (std::size_t i = end; i-- > 0;) {
      const std::int64_t first = arena.slices()[i].offset;
      if ((last - first) * element_bytes < bucket_bytes && i > 0) continue;
      buckets_.push_back({&arena, i, end, view::slice(arena.gradients(), 0, first, last)});
      end = i;
      last = first;
    }
  }

  void gradient_completed(std::size_t bucket) {
    if (grad_enabled()) {
      for (const nn::ParameterArena& arena : arenas_) arena.clear_gradients();
      throw AutogradError(
          "DistributedDataParallel: backward must run without create_graph, whose gradients do not "
          "lie in the buckets; got one with it",
          where_);
    }
    if (num_pauses_ > 0) return;
    RINGRAD_CHECK(
        running_pass_.expired() || bucket >= next_bucket_, AutogradError, where_,
        "DistributedDataParallel: a backward pass must complete each gradient once; got a "
        "second part after its bucket was reduced, as from two checkpointed segments that "
        "share a parameter");
    if (running_pass_.expired()) {
      const auto pass = std::make_shared<Pass>();
      running_pass_ = pass;
      next_bucket_ = 0;
      for (Bucket& each : buckets_) each.num_completed = 0;
      at_end_of_backward([self = shared_from_this(), pass] { self->finish(); });
    }
    ++buckets_[bucket].num_completed;
    while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].complete())
      reduce(buckets_[next_bucket_++]);
  }

  // Parameters that this rank's loss did not reach may have been reached on others: their buckets
  // go now.
  void finish() {
    running_pass_.reset();
    while (next_bucket_ < buckets_.size()) reduce(buckets_[next_bucket_++]);
  }

  // A gradient may lie elsewhere, as after set_grad({}): it must be in the bucket before it goes.
  void reduce(const Bucket& bucket) {
    for (std::size_t i = bucket.begin; i < bucket.end; ++i) bucket.arena->settle(i);
    comm_->all_reduce(bucket.gradients, ReduceOp::mean, where_);
  }

  Communicator* comm_;
  Where where_;
  std::vector<nn::ParameterArena> arenas_;
  std::vector<Tensor> frozen_;
  std::vector<Bucket> buckets_;
  std::size_t next_bucket_ = 0;
  int num_pauses_ = 0;  // NoSyncs that live
  // Owned by the engine's callback: a pass that fails takes it along, and the next one starts anew.
  std::weak_ptr<Pass> running_pass_;
};

DistributedDataParallel::DistributedDataParallel(nn::Module& module, Communicator& comm,
                                                 const DistributedDataParallelOptions& options,
                                                 Where where)
    : module_(module), comm_(comm), options_(options) {
  RINGRAD_CHECK(options.bucket_bytes > 0, ValueError, where,
                "DistributedDataParallel: bucket_bytes must be positive; got ",
                options.bucket_bytes);
  check_same_model(module, comm, where);
  reducer_ = std::make_shared<Reducer>(module, comm, options.bucket_bytes, where);
  reducer_->add_hooks();
  sync_buffers(where);
}

DistributedDataParallel::~DistributedDataParallel() = default;

std::size_t DistributedDataParallel::num_buckets() const { return reducer_->num_buckets(); }

DistributedDataParallel::NoSync::NoSync(DistributedDataParallel& model) : reducer_(model.reducer_) {
  reducer_->pause();
}
DistributedDataParallel::NoSync::~NoSync() { reducer_->resume(); }

Tensor DistributedDataParallel::forward(const Tensor& x, Where where) {
  if (module_.is_training()) chaos_step();
  reducer_->check_frozen(where);
  if (options_.broadcast_buffers && module_.is_training()) sync_buffers(where);
  return module_.forward(x, where);
}

void DistributedDataParallel::sync_buffers(Where where) {
  if (comm_.world_size() == 1) return;
  for (const auto& [name, buffer] : module_.named_buffers()) comm_.broadcast(buffer, 0, where);
}

bool replicas_identical(const nn::Module& module, Communicator& comm, Where where) {
  const NoGrad guard;
  Tensor identical = ones({1}, {.dtype = DType::int32, .device = Device()});
  for (const auto& [name, tensor] : module.state_dict()) {
    const Options on_host{.dtype = tensor.dtype(), .device = Device()};
    const Tensor reference = empty(tensor.shape(), on_host, where);
    kernels::copy_(reference, tensor, where);
    const Tensor own = empty(tensor.shape(), on_host, where);
    kernels::copy_(own, tensor, where);
    comm.broadcast(reference, 0, where);
    const auto bytes = static_cast<std::size_t>(tensor.numel()) * size_bytes(tensor.dtype());
    if (std::memcmp(own.raw_data(), reference.raw_data(), bytes) != 0)
      identical.data<std::int32_t>()[0] = 0;
  }
  comm.all_reduce(identical, ReduceOp::min, where);
  return identical.item<int>() == 1;
}

}  // namespace ringrad
