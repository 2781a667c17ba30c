// Takes the place of the CUDA toolkit's header of this name where kernels are compiled as C++.

#pragma once

#include "sim/atomic.h"
#include "sim/device.h"
#include "sim/device_math.h"
#include "sim/runtime_api.h"
#include "sim/warp.h"
