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

void send_request(Communicator& line, Request request, Where where);
Request receive_request(Communicator& line, Where where);
void send_reply(Communicator& line, Reply reply, Where where);
Reply receive_reply(Communicator& line, Where where);

}  // namespace ringrad
