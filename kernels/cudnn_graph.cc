#include "kernels/cudnn_graph.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "core/allocator_cuda.h"
#include "core/shared_library.h"
#include "core/stream.h"
#include "kernels/fastest.h"

namespace fe = cudnn_frontend;

// The frontend's functions look cuDNN's up here.
void* fe::cudnn_dlhandle = nullptr;

namespace ringrad::kernels::cudnn {
namespace {

constexpr std::int64_t kMaxWorkspaceBytes = std::int64_t{512} << 20;

const SharedLibrary& library() {
  static const auto* loaded = [] {
    const auto* cudnn = new SharedLibrary{"libcudnn.so.9"};  // never closed
    fe::cudnn_dlhandle = cudnn->handle();
    return cudnn;
  }();
  return *loaded;
}

void check(fe::error_t error, const char* call, Where where) {
  RINGRAD_CHECK(error.is_good(), CudaError, where, "cudnn: the call must succeed; got \"",
                error.get_message(), "\" from ", call);
}

void check(cudnnStatus_t status, const char* call, Where where) {
  RINGRAD_CHECK(status == CUDNN_STATUS_SUCCESS, CudaError, where,
                "cudnn: the call must succeed; got \"", fe::detail::get_error_string(status),
                "\" from ", call);
}

fe::DataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return fe::DataType_t::HALF;
    case DType::bfloat16:
      return fe::DataType_t::BFLOAT16;
    default:
      return fe::DataType_t::FLOAT;
  }
}

Extents channels_last(const Extents& extents) {
  const std::int64_t C = extents[1], H = extents[2], W = extents[3];
  return {H * W * C, 1, W * C, C};
}

// A graph and the engine that runs it.
struct Plan {
  Graph graph;
  std::int64_t engine;
  std::int64_t workspace_bytes;
};

// From our own allocator, in the order of the stream.
class Workspace {
 public:
  Workspace(std::int64_t bytes, Device device, Where where)
      : device_(device),
        address_(bytes > 0 ? cuda_allocate(static_cast<std::size_t>(bytes), device, where)
                           : nullptr) {}
  ~Workspace() {
    if (address_) cuda_deallocate(address_, device_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* address() const { return address_; }

 private:
  Device device_;
  void* address_;
};

// A device's handle, and the plans found so far.
class Engine {
 public:
  Engine(Device device, Where where) : device_(device) {
    const DeviceGuard guard(device, where);
    check(fe::detail::create_handle(&handle_), "cudnnCreate", where);
  }

  bool run(const Key& key, const std::function<Graph()>& make, DType dtype, const Search& search,
           Operands& operands, Where where) {
    const DeviceGuard guard(device_, where);
    const std::scoped_lock lock(mutex_);  // a handle serves one thread at a time
    check(fe::detail::set_stream(handle_, current_stream(device_).handle()), "cudnnSetStream",
          where);
    auto known = plans_.find(key);
    if (known == plans_.end())
      known = plans_.emplace(key, find(make, dtype, search, operands, where)).first;
    if (!known->second) return false;
    Plan& plan = *known->second;
    const Workspace workspace(plan.workspace_bytes, device_, where);
    check(plan.graph.execute_plan_at_index(handle_, operands, workspace.address(), plan.engine),
          "cudnnBackendExecute", where);
    return true;
  }

 private:
  // Null if cuDNN cannot do it, which is an answer, too.
  std::unique_ptr<Plan> find(const std::function<Graph()>& make, DType dtype, const Search& search,
                             Operands& operands, Where where) {
    Graph graph = make();
    std::vector<std::int64_t> engines;
    if (propose(graph, handle_, dtype, search, engines).is_bad()) return nullptr;
    std::int64_t most = 0;
    for (const std::int64_t engine : engines)
      most = std::max(most, graph.get_workspace_size_plan_at_index(engine));
    const Workspace workspace(most, device_, where);
    const auto chosen = fastest(
        device_, static_cast<int>(engines.size()),
        [&](int i) {
          return graph
              .execute_plan_at_index(handle_, operands, workspace.address(),
                                     engines[static_cast<unsigned>(i)])
              .is_good();
        },
        where);
    if (!chosen) return nullptr;
    const std::int64_t engine = engines[static_cast<unsigned>(*chosen)];
    // Made anew with the winner alone: the others' kernels need not stay on the device.
    auto plan = std::make_unique<Plan>(
        Plan{make(), engine, graph.get_workspace_size_plan_at_index(engine)});
    std::vector<std::int64_t> none;
    check(propose(plan->graph, handle_, dtype, {.candidates = 0, .tf32 = search.tf32}, none),
          "cudnnBackendFinalize", where);
    check(plan->graph.build_plan_at_index(engine), "cudnnBackendFinalize", where);
    return plan;
  }

  Device device_;
  cudnnHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

Engine& engine_of(Device device, Where where) {
  static std::mutex mutex;
  static auto* engines =
      new std::map<int, Engine>;  // never destroyed, as the driver may be gone then
  const std::scoped_lock lock(mutex);
  return engines->try_emplace(device.index, device, where).first->second;
}

}  // namespace

const std::string& missing() { return library().missing(); }

Graph make_graph(DType dtype) {
  Graph graph;
  graph.set_io_data_type(data_type(dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  return graph;
}

GraphTensor add_image(Graph& graph, std::int64_t id, const Extents& extents, DType dtype) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_uid(id)
                          .set_dim(extents)
                          .set_stride(channels_last(extents))
                          .set_data_type(data_type(dtype)));
}

GraphTensor add_vector(Graph& graph, std::int64_t id, std::int64_t channels, DType dtype) {
  return add_image(graph, id, {1, channels, 1, 1}, dtype);
}

void write_image(const GraphTensor& tensor, std::int64_t id, const Extents& extents, DType dtype) {
  tensor->set_output(true)
      .set_uid(id)
      .set_dim(extents)
      .set_stride(channels_last(extents))
      .set_data_type(data_type(dtype));
}

fe::error_t propose(Graph& graph, cudnnHandle_t handle, DType dtype, const Search& search,
                    std::vector<std::int64_t>& engines) {
  fe::error_t error = graph.validate();
  if (error.is_good())
    error = handle ? graph.build_operation_graph(handle) : graph.build_operation_graph();
  if (error.is_good())
    error = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  if (error.is_bad()) return error;
  std::vector<fe::NumericalNote_t> unwanted = {fe::NumericalNote_t::NONDETERMINISTIC,
                                               fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION};
  if (dtype == DType::float32 && !search.tf32)
    unwanted.insert(unwanted.end(),
                    {fe::NumericalNote_t::TENSOR_CORE, fe::NumericalNote_t::DOWN_CONVERT_INPUTS});
  graph.deselect_numeric_notes(unwanted).deselect_workspace_greater_than(kMaxWorkspaceBytes);
  const std::int64_t count = graph.get_execution_plan_count();
  for (std::int64_t i = 0; i < count && std::ssize(engines) < search.candidates; ++i)
    if (graph.build_plan_at_index(i).is_good()) engines.push_back(i);
  return {};
}

bool run(Device device, DType dtype, const Key& key, const std::function<Graph()>& make,
         const Search& search, Operands operands, Where where) {
  for (const auto& [id, address] : operands)
    if (reinterpret_cast<std::uintptr_t>(address) % kAlignment != 0) return false;
  return engine_of(device, where).run(key, make, dtype, search, operands, where);
}

}  // namespace ringrad::kernels::cudnn
