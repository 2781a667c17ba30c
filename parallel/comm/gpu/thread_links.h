// DeviceLinks of ranks that are threads of one process: memory and events have the same names for
// all.

#pragma once

#include "ringrad/parallel/comm/gpu/device_links.h"

namespace ringrad {

std::unique_ptr<DeviceLinks> link_threads(RankSession& session, Device device, Where where);

}  // namespace ringrad
