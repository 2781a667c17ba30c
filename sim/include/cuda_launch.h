// launch() for simulated devices; core/gpu/nvcc/cuda_launch.h takes its place for real ones.

#pragma once

#include "ringrad/sim/device/launch.h"
