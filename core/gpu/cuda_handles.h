// The CUDA runtime's handles, declared as its header declares them: Ringrad's headers name them,
// and a program may include Ringrad with, before, after or without <cuda_runtime.h>.

#pragma once

struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaGraphExec_t = CUgraphExec_st*;
