// launch() for simulated devices; core/nvcc/cuda_launch.h takes its place for real ones.

#pragma once

#include "sim/launch.h"
