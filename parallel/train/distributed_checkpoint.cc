#include "parallel/train/distributed_checkpoint.h"

#include <algorithm>
#include <string>

#include "nn/tensor_file.h"
#include "parallel/train/on_root.h"

namespace ringrad {
namespace {

constexpr Options kNumbers{.dtype = DType::int64, .device = Device()};

// Rank 0's number, on all ranks.
std::int64_t number_of_root(std::int64_t number, Communicator& comm, Where where) {
  const Tensor shared = full({1}, number, kNumbers);
  comm.broadcast(shared, 0, where);
  return shared.item<std::int64_t>();
}

bool is_per_rank(const nn::Checkpoint& checkpoint, const std::string& name) {
  const auto& names = checkpoint.names_per_rank();
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void save_checkpoint(const nn::Checkpoint& checkpoint, const std::filesystem::path& path,
                     Communicator& comm, Where where) {
  nn::StateDict state = checkpoint.state();
  for (const std::string& name : checkpoint.names_per_rank()) {
    Tensor& own = state.at(name);
    const Tensor rows = empty({comm.world_size(), own.shape()[1]}, kNumbers);
    comm.all_gather(rows, own, where);
    own = rows;
  }
  on_root<DataError>(comm, where, [&] { nn::write_tensors(path, state, where); });
}

bool load_checkpoint(nn::Checkpoint& checkpoint, const std::filesystem::path& path,
                     Communicator& comm, Where where) {
  bool found = false;
  nn::StateDict state;
  on_root<DataError>(comm, where, [&] {
    found = nn::may_be_file(path);
    if (!found) return;
    state = nn::read_tensors(path, where);
    checkpoint.load_state(state, 0, where);
  });
  if (!number_of_root(found, comm, where)) return false;
  for (const auto& [name, own] : checkpoint.state()) {
    Shape shape = own.shape();
    const bool is_root = comm.rank() == 0;
    if (is_per_rank(checkpoint, name))
      shape = {number_of_root(is_root ? state.at(name).shape()[0] : 0, comm, where), shape[1]};
    if (!is_root) state[name] = empty(shape, {.dtype = own.dtype(), .device = Device()}, where);
    comm.broadcast(state.at(name), 0, where);
  }
  if (comm.rank() != 0) checkpoint.load_state(state, comm.rank(), where);
  return true;
}

}  // namespace ringrad
