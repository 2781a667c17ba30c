// DeviceLinks of ranks that are processes of one machine: each shows the others what they can open.
//
//     rank 0's card        GPU       its UUID, since processes may number GPUs differently
//                          segments  [ handle, bytes | handle, bytes | ... ]  from cudaMalloc
//                          events    [ handle | handle | ... ]                kept like segments
//                                                                             while the group lives
//
// A card lies in the memory that all ranks share. Its owner fills in an entry before it publishes
// anything that depends on it; other ranks open the entry when they first need it. A place in a
// rank's memory is named by its segment's number and its distance from the segment's begin. Tensors
// that lie elsewhere are copied to a segment and back; tensors that empty_shared() makes on a GPU
// need no copy.
//
// Memory and events must not go while other processes use them, or have queued work that does. So
// each card counts its users; a rank is a user until it has left and its work is done. A rank that
// leaves gives the others a second to leave as well. If they do not, it keeps its memory and events
// until its next group finds that no process uses them, or its process ends. They always stay until
// the process ends if a user has died, or if a GPU may wait forever (device_runner.h).

#pragma once

#include "ringrad/parallel/comm/gpu/device_links.h"

namespace ringrad {

std::unique_ptr<DeviceLinks> link_processes(RankSession& session, Device device, Where where);

}  // namespace ringrad
