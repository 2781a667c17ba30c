#include "ringrad/parallel/train/data_parallel/reducer.h"

#include <sched.h>

#include <algorithm>
#include <map>

#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/core/capture.h"
#include "ringrad/core/storage.h"
#include "ringrad/parallel/comm/common/call_purpose.h"
#include "ringrad/parallel/comm/record/fault_point.h"
#include "ringrad/parallel/comm/store/rank_environment.h"
#include "ringrad/parallel/train/common/same_arenas.h"
#include "ringrad/parallel/train/common/same_model.h"

namespace ringrad {
namespace {

// Used where no model of the links gives a size.
constexpr std::int64_t kBucketBytes = 4 * 1024 * 1024;

// True if each rank of this machine has a core besides the one that computes. Otherwise a thread
// that communicates only takes time from the one that computes.
bool has_spare_cores(const Communicator& comm) {
  cpu_set_t mine;
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return false;
  const RankEnvironment job = rank_environment();
  return CPU_COUNT(&mine) >= 2 * (job.launched ? job.local_world_size : comm.world_size());
}

bool overlaps(Overlap wanted, const std::vector<nn::ParameterArena>& arenas,
              const Communicator& comm, bool moved_by_library) {
  if (arenas.empty() || comm.world_size() == 1 || wanted == Overlap::never) return false;
  const Device device = arenas.front().values().device();
  for (const nn::ParameterArena& arena : arenas)
    if (arena.values().device() != device) return false;  // one stream serves one device
  if (wanted == Overlap::always || !device.is_cpu()) return true;
  return comm.serves_all_threads() && (moved_by_library || has_spare_cores(comm));
}

std::vector<nn::ParameterArena> make_arenas(const nn::Module& module, Communicator& comm,
                                            Where where) {
  // Allocates where the communicator reduces in place.
  const auto make_gradients = [&](std::int64_t count, const Options& options) {
    return comm.empty_shared({count}, options, where);
  };
  return make_same_arenas(trained_parameters(module), comm, make_gradients, where);
}

// Elements [begin, end) of an arena, with a version counter of their own: the stream changes one
// bucket while this thread changes the next.
Tensor bucket_of(const Tensor& gradients, std::int64_t begin, std::int64_t end) {
  const std::size_t width = size_bytes(gradients.dtype());
  auto part = Storage::slice(gradients.storage(), static_cast<std::size_t>(begin) * width,
                             static_cast<std::size_t>(end - begin) * width);
  return Tensor(make_ref<TensorImpl>(std::move(part), 0, Shape{end - begin}, Strides{1},
                                     gradients.dtype(), gradients.made_at()));
}

Device device_of(const std::vector<nn::ParameterArena>& arenas) {
  return arenas.empty() ? Device() : arenas.front().values().device();
}

Work average(const GradientBucket& bucket, CommunicationStream& stream, Where where) {
  return stream.run(
      concat("bucket ", bucket.index),
      [gradients = bucket.gradients, where](Communicator& comm) {
        comm.all_reduce(gradients, ReduceOp::mean, where);
      },
      where);
}

}  // namespace

Reducer::Reducer(nn::Module& module, Communicator& comm,
                 const DistributedDataParallelOptions& options, Where where)
    : comm_(comm),
      known_("DistributedDataParallel", module),
      purposes_{purpose_of("DistributedDataParallel", module, comm, where),
                purpose_of("other pass of the DistributedDataParallel", module, comm, where)},
      where_(where),
      options_(options),
      arenas_(make_arenas(module, comm, where)),
      links_(comm.world_size() > 1 ? comm.links(device_of(arenas_), where) : std::nullopt),
      stream_(comm, device_of(arenas_), overlaps(options.overlap, arenas_, comm, !links_)) {
  std::map<const TensorImpl*, std::string> names;
  for (const auto& [name, parameter] : module.named_parameters()) {
    names.emplace(parameter.impl(), name);
    if (!parameter.requires_grad()) broadcast_value(parameter, comm, where);
  }
  std::int64_t total_bytes = 0;
  for (std::size_t a = 0; a < arenas_.size(); ++a) {
    const nn::ParameterArena& arena = arenas_[a];
    comm.broadcast(arena.values(), 0, where);
    const auto width = static_cast<std::int64_t>(size_bytes(arena.values().dtype()));
    total_bytes += arena.values().numel() * width;
    for (std::size_t i = 0; i < arena.parameters().size(); ++i) {
      parameters_.push_back(
          {.name = names.at(arena.parameters()[i].impl()), .arena = a, .index = i});
      const auto& [offset, count] = arena.slices()[i];
      places_.push_back({a, offset * width, (offset + count) * width});
    }
  }
  presence_ = ones({static_cast<std::int64_t>(parameters_.size())},
                   {.dtype = DType::uint8, .device = Device()}, where);
  sizes_ = sizes_for(total_bytes);
  make_buckets({});
  summary_.overlaps = stream_.overlaps();
}

BucketSizes Reducer::sizes_for(std::int64_t bytes) const {
  BucketSizes sizes{options_.first_bucket_bytes, options_.bucket_bytes};
  if (sizes.bytes == 0)
    sizes.bytes = links_ && links_->within_host.beta_s_per_byte > 0
                      ? fitting_bucket_sizes(bytes, links_->within_host.alpha_s,
                                             links_->within_host.beta_s_per_byte)
                            .bytes
                      : kBucketBytes;
  if (sizes.first_bytes == 0) sizes.first_bytes = std::max<std::int64_t>(sizes.bytes / 4, 1);
  return sizes;
}

void Reducer::make_buckets(const std::vector<int>& arrival) {
  buckets_.clear();
  summary_.bucket_bytes.clear();
  for (const BucketRange& range : ringrad::make_buckets(places_, sizes_, arrival)) {
    const Parameter &first = parameters_[range.begin], &last = parameters_[range.end - 1];
    const nn::ParameterArena& arena = arenas_[first.arena];
    const auto& [last_offset, last_count] = arena.slices()[last.index];
    Bucket bucket;
    bucket.parameters = range;
    const std::int64_t begin = arena.slices()[first.index].offset;
    bucket.content.gradients = bucket_of(arena.gradients(), begin, last_offset + last_count);
    bucket.content.index = buckets_.size();
    for (std::size_t p = range.begin; p < range.end; ++p) {
      const std::size_t i = parameters_[p].index;
      bucket.content.parameters.push_back(
          {parameters_[p].name, arena.parameters()[i].shape(), arena.slices()[i].offset - begin});
      parameters_[p].bucket = buckets_.size();
    }
    summary_.bucket_bytes.push_back(places_[range.end - 1].end_bytes -
                                    places_[range.begin].offset_bytes);
    buckets_.push_back(std::move(bucket));
  }
  for (Bucket& bucket : buckets_) bucket.content.num_buckets = buckets_.size();
}

void Reducer::add_hooks() {
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    register_completed_hook(arenas_[parameters_[p].arena].parameters()[parameters_[p].index],
                            [weak = weak_from_this(), p](const Tensor&) {
                              if (const auto self = weak.lock()) self->gradient_completed(p);
                            });
  std::vector<Tensor> trained;
  for (const nn::ParameterArena& arena : arenas_)
    trained.insert(trained.end(), arena.parameters().begin(), arena.parameters().end());
  average_loss_.emplace(trained,
                        [this](double loss, Where where) { return mean_over_ranks(loss, where); });
}

// --- A backward pass ---------------------------------------------------------------------------

void Reducer::gradient_completed(std::size_t p) {
  if (grad_enabled()) {
    for (const nn::ParameterArena& arena : arenas_) arena.clear_gradients();
    throw AutogradError(
        "DistributedDataParallel: backward must run without create_graph, whose gradients do not "
        "lie in the buckets; got one with it",
        where_);
  }
  Parameter& parameter = parameters_[p];
  RINGRAD_CHECK(parameter.is_used, AutogradError, where_,
                "DistributedDataParallel: with static_graph every pass must reach the same "
                "parameters; got a gradient of ",
                parameter.name, ", which the first pass did not reach");
  parameter.was_reached = true;
  if (is_paused()) return;
  if (running_pass_.expired()) begin_pass();
  RINGRAD_CHECK(parameter.bucket >= next_bucket_, AutogradError, where_,
                "DistributedDataParallel: a backward pass must complete each gradient once; got a "
                "second part of ",
                parameter.name,
                " after its bucket was reduced, as from two checkpointed segments that share a "
                "parameter (with static_graph they may), or from one module that two ranks train "
                "(each needs its own)");
  ++parameter.parts;
  const bool learns = options_.static_graph && !has_learned_;
  if (!learns && parameter.parts != parameter.num_parts) return;
  parameter.arrival = ++num_arrived_;
  if (learns) return;  // whether more parts come is not known yet
  --buckets_[parameter.bucket].num_missing;
  reduce_complete(false);
}

void Reducer::begin_pass() {
  check_parameters(where_);
  if (on_begin_) on_begin_();
  const auto pass = std::make_shared<Pass>(shared_from_this());
  running_pass_ = pass;
  next_bucket_ = 0;
  num_arrived_ = 0;
  for (Parameter& parameter : parameters_) parameter.arrival = parameter.parts = 0;
  for (Bucket& bucket : buckets_)
    bucket.num_missing = static_cast<std::size_t>(
        std::count_if(parameters_.begin() + static_cast<std::ptrdiff_t>(bucket.parameters.begin),
                      parameters_.begin() + static_cast<std::ptrdiff_t>(bucket.parameters.end),
                      [](const Parameter& parameter) { return parameter.is_used; }));
  at_end_of_backward([pass] { pass->reducer->finish(); });
}

Reducer::Pass::~Pass() {
  try {
    reducer->wait();
  } catch (...) {  // the pass has failed already, or threw this error itself
  }
}

void Reducer::reduce_complete(bool all) {
  while (next_bucket_ < buckets_.size() && (all || buckets_[next_bucket_].num_missing == 0)) {
    if (next_bucket_ == 0) is_other_pass_ = !is_other_pass_;
    reduce(buckets_[next_bucket_++]);
  }
}

// A gradient may lie elsewhere, as after set_grad({}): it must be in the bucket before that is
// sent.
void Reducer::reduce(Bucket& bucket) {
  for (std::size_t p = bucket.parameters.begin; p < bucket.parameters.end; ++p)
    arenas_[parameters_[p].arena].settle(parameters_[p].index);
  if (!bucket.is_used) return;
  const NoGradGuard guard;
  const PurposeScope scope(purposes_[is_other_pass_]);
  if (weight_ != 1) mul_(bucket.content.gradients, weight_, where_);
  works_.push_back(hook_ ? hook_(bucket.content, stream_)
                         : average(bucket.content, stream_, where_));
  fault_point(FaultPoint::bucket_launched);
}

// Parameters that this rank's loss did not reach may have been reached on others, so their buckets
// are sent now. Where that is an error they are not sent: other ranks must not step with them.
void Reducer::finish() {
  running_pass_.reset();
  check_reached();
  reduce_rest();
  if (on_end_) on_end_();
}

void Reducer::reduce_rest() {
  reduce_complete(true);
  const bool has_compared = compare_presence();
  wait();
  if (has_compared && FrozenParameters::is_marked(presence_))
    run(
        "frozen parameters",
        [this](Communicator& comm) {
          frozen_later_.agree(
              "DistributedDataParallel", presence_,
              [this](std::size_t p) { return parameters_[p].name; }, comm, where_);
        },
        where_);
  adopt_gradients(arenas_, presence_);
  ++summary_.num_passes;
  if (!std::exchange(has_learned_, true)) learn_from_first_pass();
}

void Reducer::wait() {
  std::vector<Work> works;
  works.swap(works_);
  for (const Work& work : works) work.wait();
}

void Reducer::reduce_zeros() {
  RINGRAD_CHECK(!options_.static_graph || has_learned_, AutogradError, where_,
                "DistributedDataParallel: with static_graph every rank must have data in the first "
                "pass; got none on rank ",
                comm_.rank_names()(comm_.rank()));
  for (const nn::ParameterArena& arena : arenas_) arena.clear_gradients();
  reduce_all();
}

void Reducer::reduce_now() {
  if (on_begin_) on_begin_();
  reduce_all();
  if (on_end_) on_end_();
}

void Reducer::reduce_all() {
  const Pass pass(shared_from_this());
  next_bucket_ = 0;
  reduce_rest();
}

void Reducer::run(const char* name, CommunicationStream::Task task, Where where) {
  const PurposeScope scope(purpose());
  stream_.run(name, std::move(task), where).wait();
}

double Reducer::mean_over_ranks(double value, Where where) {
  if (is_paused() || comm_.world_size() == 1) return value;
  const Tensor mean = full({1}, value, {.dtype = DType::float64, .device = Device()}, where);
  run(
      "average of losses",
      [&](Communicator& comm) { comm.all_reduce(mean, ReduceOp::mean, where); }, where);
  return mean.item<double>(where);
}

// Queues the comparison behind the buckets, so that one wait covers both. The ranks skip it where
// they know the answer: a pass of a static graph is like the first one, and so is a pass that is
// replayed from a capture. REQUIRES: all buckets have been queued, so all arenas are settled
bool Reducer::compare_presence() {
  if (!options_.allow_unused || (options_.static_graph && has_learned_) || is_capturing())
    return false;
  presence_ = gradient_presence(arenas_);
  frozen_later_.mark(arenas_, presence_);
  const PurposeScope scope(purpose());
  works_.push_back(stream_.run(
      "presence of gradients",
      [presence = presence_, where = where_](Communicator& comm) {
        reduce_presence(presence, comm, where);
      },
      where_));
  return true;
}

void Reducer::check_reached() const {
  if (options_.allow_unused && !(options_.static_graph && has_learned_)) return;
  std::string missing;
  for (const Parameter& parameter : parameters_)
    if (parameter.arrival == 0 && parameter.is_used)
      missing += (missing.empty() ? "" : ", ") + parameter.name;
  RINGRAD_CHECK(missing.empty(), AutogradError, where_, "DistributedDataParallel: ",
                options_.allow_unused
                    ? "with static_graph every pass must reach the same parameters"
                    : "without allow_unused every backward pass must reach all parameters",
                "; on rank ", comm_.rank_names()(comm_.rank()), " it did not reach ", missing,
                options_.allow_unused ? ", which the first one did" : "");
}

// From now on, buckets are ordered as rank 0's gradients came.
void Reducer::learn_from_first_pass() {
  if (parameters_.empty()) return;
  const auto n = static_cast<std::int64_t>(parameters_.size());
  const Options on_host{.dtype = DType::int32, .device = Device()};
  const Tensor order = empty({n}, on_host), used = empty({n}, on_host);
  const int never = num_arrived_ + 1;
  for (std::int64_t p = 0; p < n; ++p) {
    Parameter& parameter = parameters_[static_cast<std::size_t>(p)];
    parameter.is_used = parameter.was_reached || !options_.static_graph || !options_.allow_unused;
    order.data<std::int32_t>()[p] = parameter.arrival > 0 ? parameter.arrival : never;
    used.data<std::int32_t>()[p] = parameter.is_used;
  }
  run(
      "order of buckets",
      [&](Communicator& comm) {
        comm.broadcast(order, 0, where_);
        if (options_.static_graph) comm.all_reduce(used, ReduceOp::max, where_);
      },
      where_);
  const std::vector<std::int64_t> sizes_before = summary_.bucket_bytes;
  const BucketRange first_before = buckets_.front().parameters;
  make_buckets(order.to_vector<int>());
  summary_.follows_arrival =
      summary_.bucket_bytes != sizes_before || buckets_.front().parameters != first_before;
  if (!options_.static_graph) return;
  for (Parameter& parameter : parameters_) parameter.num_parts = std::max(parameter.parts, 1);
  for (Bucket& bucket : buckets_)
    bucket.is_used = std::any_of(used.data<std::int32_t>() + bucket.parameters.begin,
                                 used.data<std::int32_t>() + bucket.parameters.end,
                                 [](int is) { return is != 0; });
}

}  // namespace ringrad
