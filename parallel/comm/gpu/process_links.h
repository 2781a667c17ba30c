// DeviceLinks of ranks that are processes of one machine: each shows the others what they can open.
//
//     rank 0's card        GPU       its UUID, since processes may number GPUs differently
//                          segments  [ handle, bytes | handle, bytes | ... ]  from cudaMalloc
//                          events    [ handle | handle | ... ]                kept like segments
//                                                                             while the group lives
//
// A card lies in the memory that all ranks share. Its owner fills entries in before it says
// anything that depends on them; others open an entry when they first need it. A place in a rank's
// memory is named by its segment's number and its distance from the segment's begin. Tensors that
// lie elsewhere are copied to a segment and back; empty_shared() on a GPU makes those that need not
// be.
//
// Neither memory nor events may go while other processes use them, or have work queued that does.
// So each card counts its users; a rank is one until it has left and its work is done. A rank that
// leaves gives the others a second to leave as well, and if they do not, keeps what it has for them
// until its next group finds that no process uses it, or its process ends. For a rank that died it
// stays until then, and all of it does if a GPU may wait forever (device_runner.h).

#pragma once

#include "ringrad/parallel/comm/gpu/device_links.h"

namespace ringrad {

std::unique_ptr<DeviceLinks> link_processes(RankSession& session, Device device, Where where);

}  // namespace ringrad
