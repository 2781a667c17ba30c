
#include "ringrad/core/transfer.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/parallel/comm/common/unwinding.h"
#include "ringrad/parallel/comm/record/fault_injection.h"
#include "ringrad/parallel/train/common/gradient_presence.h"
#include "ringrad/parallel/train/loose/parameter_messages.h"
#include "ringrad/parallel/train/loose/parameter_server.h"

namespace ringrad {
namespace {

Communicator& checked(Communicator& comm, Where where) {
  RINGRAD_CHECK(comm.rank() != kServer, ValueError, where,
                "ParameterClient: the rank must be a worker; got rank 0, which serves");
  return comm;
}

}  // namespace

ParameterClient::ParameterClient(const nn::Module& module, Communicator& comm, Where where)
    : comm_(checked(comm, where)),
      replica_("ParameterClient", module, comm, where),
      line_(std::move(connect_workers(comm, where).front())) {}

// The line breaks by itself, but the group must learn which rank failed before other ranks report
// their own failures.
ParameterClient::~ParameterClient() {
  if (unwinding_) comm_.abort(kEndedByException);
}

void ParameterClient::check_not_finished(const char* operation, Where where) const {
  RINGRAD_CHECK(!has_finished_, ValueError, where, operation,
                ": a worker that has finished must make no more calls; got one");
}

void ParameterClient::pull(Where where) {
  check_not_finished("pull", where);
  if (!has_pulled_) fault_step();
  send_message(*line_, Request::pull, kServer, where);
  receive_parameters(where);
  has_pulled_ = true;
}

void ParameterClient::push(Where where) {
  check_not_finished("push", where);
  RINGRAD_CHECK(has_pulled_, ValueError, where,
                "push: each step must begin with a pull; got a second push after one");
  replica_.settle(where);
  send_message(*line_, Request::push, kServer, where);
  line_->send(gradient_presence(replica_.arenas()), kServer, where);
  for (const nn::ParameterArena& arena : replica_.arenas()) {
    line_->send(to_host(arena.gradients(), where), kServer, where);
    arena.clear_gradients();
  }
  has_pulled_ = false;
  ++clock_;
}

void ParameterClient::finish(Where where) {
  check_not_finished("finish", where);
  send_message(*line_, Request::finish, kServer, where);
  receive_parameters(where);
  has_finished_ = true;
}

void ParameterClient::receive_parameters(Where where) {
  Reply reply{Answer::wait, 0};
  while (reply.answer == Answer::wait) reply = receive_message<Reply>(*line_, kServer, where);
  lead_ = reply.lead;
  replica_.settle(where);  // they must still be in their arenas
  for (const nn::ParameterArena& arena : replica_.arenas()) {
    const Tensor& values = arena.values();
    const Tensor on_host =
        values.device().is_cpu()
            ? values
            : empty(values.shape(), {.dtype = values.dtype(), .device = Device()}, where);
    line_->recv(on_host, kServer, where);
    if (!values.device().is_cpu()) kernels::copy_(values, on_host, where);
  }
  replica_.mark_changed(where);
}

}  // namespace ringrad
