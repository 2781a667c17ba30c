// Replaces the CUDA toolkit's header of this name where kernels are compiled as C++.

#pragma once

#include "ringrad/sim/device/atomic.h"
#include "ringrad/sim/device/device.h"
#include "ringrad/sim/device/device_math.h"
#include "ringrad/sim/device/warp.h"
#include "ringrad/sim/runtime/runtime_api.h"
