#include "ringrad/parallel/train/loose/parameter_messages.h"

namespace ringrad {

std::vector<std::unique_ptr<Communicator>> connect_workers(Communicator& comm, Where where) {
  std::vector<std::unique_ptr<Communicator>> lines;
  for (int worker = 1; worker < comm.world_size(); ++worker) {
    const bool is_end = comm.rank() == kServer || comm.rank() == worker;
    if (auto line = comm.split(is_end ? 0 : -1, 0, where)) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace ringrad
