// Computations by cuDNN, which takes them as graphs. Private to kernels/.
//
//     graph        tensors, each with a number, and operations between them
//     engines      cuDNN proposes ways to compute it, its best guess first
//     fastest      the first few are timed once; the winner is kept under a key, and on disk for the next
//                  process (kept_choices.h), which then builds this engine alone
//
// cuDNN compiles many of its engines when they are built, so few are tried: RINGRAD_CUDNN_CANDIDATES says how many,
// default 3. With 1 its best guess is taken untimed, and nothing is written.
//
// A call that was made before costs a look into a map. Engines whose results depend on the order in which
// threads happen to run are never asked, so within a process and a device a call repeats itself bit by bit.
// Which engine is the fastest may differ from one process to the next, and with it the last bits.

#pragma once

#include <cudnn_frontend.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/error.h"

namespace ringrad::kernels::cudnn {

using Graph = cudnn_frontend::graph::Graph;
using GraphTensor = std::shared_ptr<cudnn_frontend::graph::Tensor_attributes>;
using Extents = std::vector<std::int64_t>;

/// Why cuDNN cannot be used; empty if it can. Loads the library, and tries it on the GPU if there is one.
const std::string& missing();

/// cuDNN reads packs of values: memory that is not so aligned is none for it.
inline constexpr std::uintptr_t kAlignment = 16;

/// A graph whose operations compute in float32.
Graph make_graph(DType dtype);

/// An input (B, C, H, W) that lies with its channels last, or a filter (K, C, R, S) likewise.
GraphTensor add_image(Graph& graph, std::int64_t id, const Extents& extents, DType dtype);

/// An input with one value per channel.
GraphTensor add_vector(Graph& graph, std::int64_t id, std::int64_t channels, DType dtype);

/// Makes a tensor of the graph one that is written, channels last.
void write_image(const GraphTensor& tensor, std::int64_t id, const Extents& extents, DType dtype);

/// RINGRAD_CUDNN_CANDIDATES. Throws: ValueError unless it is a whole number in [1, 100]
int default_candidates();

struct Search {
  int candidates = default_candidates();  ///< how many are timed
  bool tf32 = false;      ///< tensor cores for float32, with inputs rounded to 10 bits of mantissa
  std::string name = {};  ///< if not empty: the only engine wanted, by the name that cuDNN gives it
};

/// Puts the numbers of the engines for `graph` into `engines`, at most search.candidates, built and ready to
/// run; of search.name, none or one. The graph is for the GPU of `handle`, or, without one, for its set_device_properties().
cudnn_frontend::error_t propose(Graph& graph, cudnnHandle_t handle, DType dtype,
                                const Search& search, std::vector<std::int64_t>& engines);

/// All that a graph depends on.
using Key = std::vector<std::int64_t>;

/// Where the graph's tensors lie, by number.
using Operands = std::unordered_map<std::int64_t, void*>;

/// Runs a graph on the device's current stream; `make` is called for a key that is new. False, and nothing
/// done, if cuDNN has no engine for it, there is no memory for its workspace, or an operand is not aligned.
///
/// REQUIRES: missing() is empty
/// Throws:   CudaError if an engine that has run before fails
bool run(Device device, DType dtype, const Key& key, const std::function<Graph()>& make,
         const Search& search, Operands operands, Where where);

}  // namespace ringrad::kernels::cudnn
