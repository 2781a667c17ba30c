// The messages between a worker and the parameter server. Each worker shares a group of two with
// the server ("line"), in which the server is rank 0.
//
//     worker                        server
//     pull               ------->
//                        <-------   wait                    every few milliseconds, while it must
//                        <-------   go on, lead; parameters
//     push; presence of
//     gradients; those   ------->
//     finish             ------->
//                        <-------   wait                    until all have finished
//                        <-------   go on, 0; parameters
//
// The presence of gradients (gradient_presence.h) is one message; parameters and gradients are one
// message per arena. Everything lies on the CPU when it is sent.

#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

enum class Request : std::int64_t { pull, push, finish };
enum class Answer : std::int64_t { wait, go_on };

struct Reply {
  Answer answer;
  std::int64_t lead;
};

inline constexpr int kServer = 0;  // in a line, and in the whole group
inline constexpr int kWorker = 1;  // in a line

/// The lines that end on this rank: on the server one per worker, in the order of rank; on a worker
/// its own. All ranks must call it.
std::vector<std::unique_ptr<Communicator>> connect_workers(Communicator& comm, Where where);

/// The memory of a Request or a Reply, which consist of 64-bit integers.
template <class Message>
Tensor numbers_of(Where where) {
  constexpr std::int64_t kCount = sizeof(Message) / sizeof(std::int64_t);
  return empty({kCount}, {.dtype = DType::int64, .device = Device()}, where);
}

template <class Message>
void send_message(Communicator& line, const Message& message, int to, Where where) {
  const Tensor numbers = numbers_of<Message>(where);
  std::memcpy(numbers.raw_data(), &message, sizeof message);
  line.send(numbers, to, where);
}

template <class Message>
Message receive_message(Communicator& line, int from, Where where) {
  const Tensor numbers = numbers_of<Message>(where);
  line.recv(numbers, from, where);
  Message message;
  std::memcpy(&message, numbers.raw_data(), sizeof message);
  return message;
}

}  // namespace ringrad
