// Tensors as messages: the receiver need not know what comes.
//
//     rank 0   send_tensor(comm, x, 1);         header (dtype, layout, shape), then the elements
//     rank 1   Tensor x = recv_tensor(comm, 0, device);
//
// A message is two of the communicator's (communicator.h), of which up to four per ordered pair of
// ranks wait to be received: so two tensors may be under way, and a sender is held up by the third.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

/// How many tensors from one rank to another are under way before the sender waits.
inline constexpr int kTensorsUnderWay = 2;

/// x itself, or a copy that lies without gaps, contiguous or channels_last.
Tensor packed(const Tensor& x, Where where = Where::current());

/// Sends the tensor's values, packed if they are not: then a GPU computes first.
///
/// Throws: as Communicator::send
void send_tensor(Communicator& comm, const Tensor& tensor, int to, Where where = Where::current());

/// The next tensor of rank `from`, on `device`.
///
/// Throws: CollectiveError, also if what comes was not sent by send_tensor
Tensor recv_tensor(Communicator& comm, int from, Device device, Where where = Where::current());

}  // namespace ringrad
