// Tensors as messages: the receiver need not know the tensor's dtype and shape in advance.
//
//     rank 0   send_tensor(comm, x, 1);         header (dtype, layout, shape), then the elements
//     rank 1   Tensor x = recv_tensor(comm, 0, device);
//
// Each tensor takes two of the communicator's messages (communicator.h). Up to four messages per
// ordered pair of ranks may wait to be received, so two tensors may be under way; sending a third
// one waits.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

/// How many tensors from one rank to another are under way before the sender waits.
inline constexpr int kTensorsUnderWay = 2;

/// x itself, or a copy that lies without gaps, contiguous or channels_last.
Tensor packed(const Tensor& x, Where where = Where::current());

/// Sends the tensor's values. A tensor with gaps is packed first, which takes a copy on its device.
///
/// Throws: as Communicator::send
void send_tensor(Communicator& comm, const Tensor& tensor, int to, Where where = Where::current());

/// The next tensor of rank `from`, on `device`.
///
/// Throws: CollectiveError, also if the next message was not sent by send_tensor
Tensor recv_tensor(Communicator& comm, int from, Device device, Where where = Where::current());

}  // namespace ringrad
