// Everything for one device: tensors, gradients, layers, optimizers and data. For many devices,
// also include ringrad/parallel.h.

#pragma once

#include "ringrad/core/base/version.h"
#include "ringrad/core/dlpack.h"
#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/data/csv.h"
#include "ringrad/data/distributed_sampler.h"
#include "ringrad/data/fashion_mnist.h"
#include "ringrad/data/iterable_loader.h"
#include "ringrad/data/loader.h"
#include "ringrad/data/npy.h"
#include "ringrad/data/synthetic.h"
#include "ringrad/data/tensor_dataset.h"
#include "ringrad/data/text/bpe_tokenizer.h"
#include "ringrad/data/text/text_dataset.h"
#include "ringrad/data/text_file.h"
#include "ringrad/data/transform.h"
#include "ringrad/data/weighted_sampler.h"
#include "ringrad/kernels/library/backend.h"
#include "ringrad/nn.h"
