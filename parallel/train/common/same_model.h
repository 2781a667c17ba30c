// What all ranks' models must have in common before they can share values.

#pragma once

#include <cstdint>
#include <string>

#include "ringrad/nn/module.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

/// Describes every parameter and buffer of the module, one per line: name, dtype, shape, strides
/// unless it is contiguous, and whether it is frozen.
std::string describe_model(const nn::Module& module);

/// Every rank must call it; `scheme` names the caller in messages.
///
/// Throws: CollectiveError on all ranks, naming those whose description differs from rank 0's
void check_same_model(const char* scheme, const nn::Module& module, Communicator& comm,
                      Where where);

/// A purpose for the calls that train this model (comm/common/call_purpose.h), so that those of two
/// models never match. Every rank must call it at the same point.
std::uint16_t purpose_of(const char* scheme, const nn::Module& module, Communicator& comm,
                         Where where);

/// Gives all ranks the root's value, whatever the tensor's strides.
void broadcast_value(const Tensor& tensor, Communicator& comm, Where where = Where::current(),
                     int root = 0);

/// Gives all ranks the mean of their values, whatever the tensor's strides.
void average_value(const Tensor& tensor, Communicator& comm, Where where = Where::current());

/// Gives all ranks the root's buffers. Call it before evaluation, so that all ranks evaluate the
/// same model.
void broadcast_buffers(const nn::Module& module, Communicator& comm, Where where = Where::current(),
                       int root = 0);

}  // namespace ringrad
