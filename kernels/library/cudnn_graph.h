// Runs computations by cuDNN, which takes them as graphs. Private to kernels/.
//
//     graph        tensors, each with a number, and operations between them
//     engines      cuDNN proposes ways to compute it, its best guess first
//     fastest      the first few are timed once; the winner is kept under a key, and on disk for
//                  the next process (kept_choices.h), which then builds only this engine
//
// cuDNN compiles many of its engines when it builds them, so few are tried:
// RINGRAD_CUDNN_CANDIDATES of them, default 3. With 1, cuDNN's best guess is taken untimed and
// nothing is written to disk.
//
// A repeated call costs one map lookup. Engines whose results depend on the order in which threads
// run are never used, so within a process and a device repeated calls agree bit by bit. The fastest
// engine, and with it the last bits, may differ from one process to the next.

#pragma once

#include <cudnn_frontend.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/dtype.h"

namespace ringrad::kernels::cudnn {

using Graph = cudnn_frontend::graph::Graph;
using GraphTensor = std::shared_ptr<cudnn_frontend::graph::Tensor_attributes>;
using Extents = std::vector<std::int64_t>;

/// Why cuDNN cannot be used; empty if it can. Loads the library, and tries it on the GPU if there
/// is one.
const std::string& missing();

/// Alignment in bytes that operands need, because cuDNN reads several values at once.
inline constexpr std::uintptr_t kAlignment = 16;

/// A graph whose operations compute in float32.
Graph make_graph(DType dtype);

/// An input (B, C, ...) or filter (K, C, ...) with the channels last in memory.
GraphTensor add_image(Graph& graph, std::int64_t id, const Extents& extents, DType dtype);

/// An input with one value per channel, next to images of as many axes.
GraphTensor add_vector(Graph& graph, std::int64_t id, std::int64_t channels, DType dtype,
                       std::size_t axes = 4);

/// Makes a tensor of the graph an output, channels last.
void write_image(const GraphTensor& tensor, std::int64_t id, const Extents& extents, DType dtype);

/// RINGRAD_CUDNN_CANDIDATES. Throws: ValueError unless it is a whole number in [1, 100]
int default_candidates();

struct Search {
  int candidates = default_candidates();  ///< how many to time
  bool tf32 = false;      ///< tensor cores for float32, with inputs rounded to 10 bits of mantissa
  std::string name = {};  ///< if not empty: the only engine to use, by cuDNN's name for it
};

/// Puts the numbers of engines for `graph`, built and ready to run, into `engines`: at most
/// search.candidates, or, if search.name is set, at most that one. The graph is for the GPU of
/// `handle` or, without a handle, for the graph's set_device_properties().
cudnn_frontend::error_t propose(Graph& graph, cudnnHandle_t handle, DType dtype,
                                const Search& search, std::vector<std::int64_t>& engines);

/// Everything that a graph depends on.
using Key = std::vector<std::int64_t>;

/// The addresses of the graph's tensors, by number.
using Operands = std::unordered_map<std::int64_t, void*>;

/// Runs a graph on the device's current stream; calls `make` if the key is new. Returns false,
/// having done nothing, if cuDNN has no engine for it, if there is no memory for its workspace, or
/// if an operand is misaligned.
///
/// REQUIRES: missing() is empty
/// Throws:   CudaError if an engine that has run before fails
bool run(Device device, DType dtype, const Key& key, const std::function<Graph()>& make,
         const Search& search, Operands operands, Where where);

}  // namespace ringrad::kernels::cudnn
