// DeviceLinks of ranks that are processes of one machine: each shows the others what they can open.
//
//     rank 0's card        segments  [ handle, bytes | handle, bytes | ... ]     taken with cudaMalloc, never
//                          events    [ handle | handle | ... ]                   given back while the group lives
//
// A card lies in the memory that all ranks share. Its owner fills entries in before it says anything that depends on
// them; others open an entry when they first need it. A place in a rank's memory is named by its segment's number
// and its distance from the segment's begin. Tensors that lie elsewhere are copied to a segment and back;
// empty_shared() on a GPU makes those that need not be.
//
// Memory must not be freed while another process has it open. So each card counts who has, and a rank that
// leaves gives the others a second to close them, and if they have not, keeps its segments until its next group
// finds the count at zero, or its process ends. After a failure they stay until it ends.

#pragma once

#include "parallel/comm/device_links.h"

namespace ringrad {

std::unique_ptr<DeviceLinks> link_processes(RankSession& session, Device device, Where where);

}  // namespace ringrad
