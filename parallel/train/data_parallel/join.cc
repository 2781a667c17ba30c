#include "ringrad/parallel/train/data_parallel/join.h"

#include <vector>

#include "ringrad/parallel/comm/common/gather_values.h"

namespace ringrad {

Join::Join(DistributedDataParallel& model, Where where) : model_(model) {
  RINGRAD_CHECK(!model.join_, ValueError, where,
                "Join: a model can have one at a time; got a second one while the first lives");
  model.join_ = [this](const Tensor& x, Where at) { before_forward(x, at); };
}

Join::~Join() {
  model_.join_ = nullptr;
  model_.buffers_root_ = 0;
  model_.reducer_->set_weight(1);
}

void Join::before_forward(const Tensor& x, Where where) {
  RINGRAD_CHECK(!finished_, ValueError, where,
                "Join: after finish() a rank has no more data; got a forward pass in training");
  RINGRAD_CHECK(x.dims(where) > 0 && x.size(0) > 0, ValueError, where,
                "Join: a batch must have rows along axis 0; got shape ", x.shape());
  rows_ += x.size(0);
  if (model_.reducer_->is_paused()) return;
  announce(rows_, where);
  rows_ = 0;
}

// True if some rank has rows.
bool Join::announce(std::int64_t rows, Where where) {
  model_.reducer_->wait();
  Communicator& comm = model_.comm_;
  const std::vector<std::int64_t> all = gather_values(comm, rows, where);
  std::int64_t total = 0;
  for (int rank = comm.world_size() - 1; rank >= 0; --rank) {
    const std::int64_t theirs = all[static_cast<std::size_t>(rank)];
    if (theirs > 0) model_.buffers_root_ = rank;
    total += theirs;
  }
  if (total == 0) return false;
  model_.reducer_->set_weight(static_cast<double>(comm.world_size() * rows) /
                              static_cast<double>(total));
  return true;
}

std::int64_t Join::finish(const std::function<void()>& step, Where where) {
  RINGRAD_CHECK(!finished_, ValueError, where,
                "Join: finish() must be called once; got a second call");
  RINGRAD_CHECK(rows_ == 0, ValueError, where,
                "Join: the last pass before finish() must not be under NoSync; got ", rows_,
                " rows that were not reduced");
  finished_ = true;
  std::int64_t num_steps = 0;
  for (; announce(0, where); ++num_steps) {
    if (model_.broadcasts_buffers_) model_.sync_buffers(where);
    model_.reducer_->reduce_zeros();
    step();
  }
  if (model_.broadcasts_buffers_) model_.sync_buffers(where);
  return num_steps;
}

}  // namespace ringrad
