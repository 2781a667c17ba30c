#include "ringrad/parallel/train/loose/parameter_messages.h"

namespace ringrad {
namespace {

Tensor numbers(std::int64_t count, Where where) {
  return empty({count}, {.dtype = DType::int64, .device = Device()}, where);
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> connect_workers(Communicator& comm, Where where) {
  std::vector<std::unique_ptr<Communicator>> lines;
  for (int worker = 1; worker < comm.world_size(); ++worker) {
    const bool is_end = comm.rank() == kServer || comm.rank() == worker;
    if (auto line = comm.split(is_end ? 0 : -1, 0, where)) lines.push_back(std::move(line));
  }
  return lines;
}

void send_request(Communicator& line, Request request, Where where) {
  const Tensor message = numbers(1, where);
  message.data<std::int64_t>()[0] = static_cast<std::int64_t>(request);
  line.send(message, kServer, where);
}

Request receive_request(Communicator& line, Where where) {
  const Tensor message = numbers(1, where);
  line.recv(message, kWorker, where);
  return static_cast<Request>(message.data<std::int64_t>()[0]);
}

void send_reply(Communicator& line, Reply reply, Where where) {
  const Tensor message = numbers(2, where);
  message.data<std::int64_t>()[0] = static_cast<std::int64_t>(reply.answer);
  message.data<std::int64_t>()[1] = reply.lead;
  line.send(message, kWorker, where);
}

Reply receive_reply(Communicator& line, Where where) {
  const Tensor message = numbers(2, where);
  line.recv(message, kServer, where);
  const std::int64_t* const words = message.data<std::int64_t>();
  return {static_cast<Answer>(words[0]), words[1]};
}

}  // namespace ringrad
