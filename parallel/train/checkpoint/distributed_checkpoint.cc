#include "ringrad/parallel/train/checkpoint/distributed_checkpoint.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ringrad/core/transfer.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/nn/checkpoint/generation.h"
#include "ringrad/nn/checkpoint/tensor_file.h"
#include "ringrad/parallel/train/checkpoint/checkpoint_agreement.h"
#include "ringrad/parallel/train/checkpoint/checkpoint_index.h"

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

// Refuses tensors that are not the same on all ranks.
void check_equal(const nn::Checkpoint& checkpoint, const nn::StateDict& state, Communicator& comm,
                 Where where) {
  const auto& buffers = checkpoint.names_of_buffers();
  std::vector<PieceFacts> facts;
  on_all_ranks(comm, where, [&] {
    for (const auto& [name, tensor] : state) {
      if (is_per_rank(checkpoint, name)) continue;
      facts.push_back({name, tensor.dtype(), tensor.shape(), whole_slice(tensor.shape())});
      if (std::find(buffers.begin(), buffers.end(), name) == buffers.end())
        facts.back().crc = crc_of(to_host(kernels::contiguous(tensor, where), where));
    }
  });
  merge_pieces(facts_of_all(facts, comm, where), where);
}

}  // namespace

void save_checkpoint(const nn::Checkpoint& checkpoint, const std::filesystem::path& path,
                     Communicator& comm, std::chrono::nanoseconds deadline, Where where) {
  nn::StateDict state;
  on_all_ranks(comm, where, [&] { state = checkpoint.state(); });
  check_equal(checkpoint, state, comm, where);
  for (const std::string& name : checkpoint.names_per_rank()) {
    Tensor& own = state.at(name);
    const Tensor rows = empty({comm.world_size(), own.shape()[1]}, kNumbers);
    comm.all_gather(rows, own, where);
    own = rows;
  }
  const std::int64_t generation = agree_on_generation(comm, where);
  try {
    on_root<DataError>(
        comm, where, [&] { nn::write_tensors(path, state, generation, where); }, deadline);
  } catch (const CollectiveError&) {
    nn::raise_generation(generation + 1);  // rank 0 may be paused in the middle, and go on later
    throw;
  }
}

bool load_checkpoint(nn::Checkpoint& checkpoint, const std::filesystem::path& path,
                     Communicator& comm, std::chrono::nanoseconds deadline, Where where) {
  bool found = false;
  nn::StateDict state;
  const auto read = [&] {
    found = nn::may_be_file(path);
    if (!found) return;
    std::int64_t generation = 0;
    state = checkpoint.completed(nn::read_tensors(path, generation, where));
    checkpoint.check_state(state, 0, where);
    nn::continue_from_generation(generation);
  };
  on_root<DataError>(comm, where, read, deadline);
  if (!number_of_root(found, comm, where)) return false;
  nn::StateDict listed;
  on_all_ranks(comm, where, [&] { listed = checkpoint.state(); });
  for (const auto& [name, own] : listed) {
    Shape shape = own.shape();
    const bool is_root = comm.rank() == 0;
    if (is_per_rank(checkpoint, name))
      shape = {number_of_root(is_root ? state.at(name).shape()[0] : 0, comm, where), shape[1]};
    if (!is_root) state[name] = empty(shape, {.dtype = own.dtype(), .device = Device()}, where);
    comm.broadcast(state.at(name), 0, where);
  }
  // All ranks check before any of them changes anything.
  on_all_ranks(comm, where, [&] { checkpoint.check_state(state, comm.rank(), where); });
  on_all_ranks(comm, where, [&] { checkpoint.load_state(state, comm.rank(), where); });
  agree_on_generation(comm, where);
  return true;
}

}  // namespace ringrad
