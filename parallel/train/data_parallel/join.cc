#include "ringrad/parallel/train/data_parallel/join.h"

#include <utility>

#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/parallel/comm/gather_values.h"

namespace ringrad {

// The rows whose gradients have reached the model's outputs and have not been announced.
struct Join::Rows {
  struct PassAlive {};

  explicit Rows(std::shared_ptr<const Reducer> with) : reducer(std::move(with)) {}

  // Counts rows in the backward pass that is running. Those of a pass that fails do not count, nor
  // do those of one that is to be reduced and reaches no parameter.
  static void add(const std::shared_ptr<Rows>& self, std::int64_t rows, Where where) {
    if (self->pass.expired()) {
      const auto alive = std::make_shared<PassAlive>();
      self->pass = alive;
      self->in_pass = 0;
      self->is_announced = false;
      at_end_of_backward([self, alive] {
        const std::int64_t left = std::exchange(self->in_pass, 0);
        if (self->reducer->is_paused()) self->waiting += left;
      });
    }
    RINGRAD_CHECK(!self->is_announced, AutogradError, where,
                  "Join: a backward pass must reach all calls of the model before it completes a "
                  "parameter's gradient; got a call of ",
                  rows, " rows later");
    self->in_pass += rows;
  }
  std::int64_t take() {
    is_announced = true;
    by_hand = false;
    return std::exchange(waiting, 0) + std::exchange(in_pass, 0);
  }

  const std::shared_ptr<const Reducer> reducer;
  std::int64_t waiting = 0;  // of passes under NoSync, and of begin_forward()
  std::int64_t in_pass = 0;
  bool is_announced = false;  // in this pass
  bool by_hand = false;       // begin_forward() has counted the next call of the module
  std::weak_ptr<PassAlive> pass;
};

// What may throw comes before the module gets hooks that refer to this object.
DistributedDataParallel& Join::prepared(DistributedDataParallel& model, Where where) {
  RINGRAD_CHECK(!model.join_, ValueError, where,
                "Join: a model can have one at a time; got a second one while the first lives");
  model.sync_buffers(where);
  return model;
}

Join::Join(DistributedDataParallel& model, Where where)
    : model_(prepared(model, where)),
      where_(where),
      rows_(std::make_shared<Rows>(model.reducer_)),
      before_(model.module().add_forward_pre_hook([this](nn::Module&, const Tensor& x) {
        check_call(x, where_);
        return Tensor();
      })),
      after_(model.module().add_forward_hook([this](nn::Module&, const Tensor& x, const Tensor& y) {
        if (!std::exchange(rows_->by_hand, false)) watch(x, y);
        return Tensor();
      })) {
  model.join_ = [this](const Tensor& x, bool by_hand, Where at) {
    where_ = at;
    check_call(x, at);
    if (!by_hand || !grad_enabled()) return;
    rows_->waiting += x.size(0);
    rows_->by_hand = true;
  };
  model.reducer_->set_pass_callbacks([this] { begin_pass(); }, [this] { share_buffers(where_); });
}

Join::~Join() {
  before_.remove();
  after_.remove();
  model_.join_ = nullptr;
  model_.buffers_root_ = 0;
  model_.reducer_->set_pass_callbacks({}, {});
  model_.reducer_->set_weight(1);
}

void Join::check_call(const Tensor& x, Where where) const {
  if (!grad_enabled() || !model_.module().is_training()) return;
  RINGRAD_CHECK(!finished_, ValueError, where,
                "Join: after finish() a rank has no more data; got a forward pass in training");
  RINGRAD_CHECK(x.dims(where) > 0 && x.size(0) > 0, ValueError, where,
                "Join: a batch must have rows along axis 0; got shape ", x.shape());
}

// Only a backward pass shows that a call was not an evaluation.
void Join::watch(const Tensor& x, const Tensor& y) const {
  if (!grad_enabled() || !y.defined() || !y.requires_grad()) return;
  const std::int64_t count = x.dims() > 0 ? x.size(0) : 0;
  register_hook(y, [weak = std::weak_ptr<Rows>(rows_), count, where = where_](const Tensor&) {
    if (const auto rows = weak.lock(); rows && !computing_grad()) Rows::add(rows, count, where);
    return Tensor();
  });
}

void Join::begin_pass() {
  RINGRAD_CHECK(!finished_, ValueError, where_,
                "Join: after finish() a rank has no more data; got a backward pass");
  const std::int64_t rows = rows_->take();
  RINGRAD_CHECK(rows > 0, AutogradError, where_,
                "Join: a backward pass must come from a call of the model or its module, or from "
                "one that begin_forward() has counted; got a pass of none");
  announce(rows, where_);
}

// True if some rank has rows.
bool Join::announce(std::int64_t rows, Where where) {
  Communicator& comm = model_.comm_;
  const std::uint64_t version = this->version();
  const bool has_changed = std::exchange(has_announced_, true) && version != version_;
  version_ = version;
  std::vector<std::int64_t> all;
  model_.reducer_->run(
      "rows",
      [&](Communicator& group) { all = gather_values(group, 2 * rows + has_changed, where); },
      where);
  std::vector<int> changed, others;
  for (int rank = 0; rank < comm.world_size(); ++rank)
    (all[static_cast<std::size_t>(rank)] % 2 ? changed : others).push_back(rank);
  RINGRAD_CHECK(changed.empty() || others.empty(), CollectiveError, where,
                "Join: all ranks must change their parameters after the same passes, so a step of "
                "several passes accumulates under NoSync; got parameters that changed since the "
                "latest pass on ",
                comm.rank_names().list(changed), " and not on ", comm.rank_names().list(others));
  std::int64_t total = 0;
  for (int rank = comm.world_size() - 1; rank >= 0; --rank) {
    const std::int64_t theirs = all[static_cast<std::size_t>(rank)] / 2;
    if (theirs > 0) model_.buffers_root_ = rank;
    total += theirs;
  }
  if (total == 0) return false;
  model_.reducer_->set_weight(static_cast<double>(comm.world_size() * rows) /
                              static_cast<double>(total));
  return true;
}

// Grows with each change of a parameter.
std::uint64_t Join::version() const {
  std::uint64_t sum = 0;
  for (const nn::ParameterArena& arena : model_.reducer_->arenas())
    for (const Tensor& parameter : arena.parameters()) sum += parameter.version();
  return sum;
}

void Join::share_buffers(Where where) {
  if (!model_.broadcasts_buffers_) return;
  model_.reducer_->run(
      "buffers", [&](Communicator&) { model_.broadcast_buffers(where); }, where);
}

std::int64_t Join::finish(const std::function<void()>& step, Where where) {
  return finish({this}, step, where);
}

std::int64_t Join::finish(const std::vector<Join*>& joins, const std::function<void()>& step,
                          Where where) {
  for (Join* join : joins) join->end_calls(where);
  const auto take_part = [&] {
    bool has_data = false;
    for (Join* join : joins) has_data |= join->take_part(where);
    return has_data;
  };
  std::int64_t num_steps = 0;
  for (; take_part(); ++num_steps) step();
  return num_steps;
}

void Join::end_calls(Where where) {
  RINGRAD_CHECK(!finished_, ValueError, where,
                "Join: finish() must be called once; got a second call");
  RINGRAD_CHECK(rows_->waiting == 0, ValueError, where,
                "Join: the last pass before finish() must not be under NoSync; got ",
                rows_->waiting, " rows that were not reduced");
  finished_ = true;
}

// Takes part in one pass, without rows; false if no rank has any.
bool Join::take_part(Where where) {
  if (!announce(0, where)) return false;
  model_.reducer_->reduce_zeros();
  share_buffers(where);
  return true;
}

}  // namespace ringrad
