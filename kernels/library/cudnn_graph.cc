#include "ringrad/kernels/library/cudnn_graph.h"

#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "ringrad/core/capture.h"
#include "ringrad/core/gpu/shared_library.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/kernels/library/fastest.h"
#include "ringrad/kernels/library/kept_choices.h"
#include "ringrad/kernels/library/per_device.h"
#include "ringrad/kernels/library/workspace.h"

namespace fe = cudnn_frontend;

// The frontend's functions look up cuDNN's functions in this handle.
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
  if (dtype == DType::float16) return fe::DataType_t::HALF;
  if (dtype == DType::bfloat16) return fe::DataType_t::BFLOAT16;
  return fe::DataType_t::FLOAT;
}

// The strides of (B, C, ...) with the channels last in memory.
Extents channels_last(const Extents& extents) {
  Extents strides(extents.size(), 1);
  std::int64_t stride = extents[1];
  for (std::size_t axis = extents.size() - 1; axis > 1; --axis) {
    strides[axis] = stride;
    stride *= extents[axis];
  }
  strides[0] = stride;
  return strides;
}

std::string name_of(const Graph& graph, std::int64_t engine) {
  std::string name;
  return graph.get_plan_name_at_index(engine, name).is_good() ? name : "";
}

// A key as text, for the file of kept choices.
std::string text_of(const Key& key) {
  std::string text;
  for (const std::int64_t number : key) text += concat(text.empty() ? "" : ",", number);
  return text;
}

// A graph and the engine that runs it. Captured work may run it again at any time, so it is never
// freed.
struct Plan {
  Graph graph;
  std::int64_t engine;
  bool timed;  // otherwise guessed, while work was captured
};

// The frontend throws on unexpected errors; this turns exceptions into error values.
template <class Call>
fe::error_t guarded(Call call) {
  try {
    return call();
  } catch (const std::exception& error) {
    return {fe::error_code_t::CUDNN_BACKEND_API_FAILED, error.what()};
  }
}

// A device's handle, and the plans found so far.
class CudnnContext {
 public:
  CudnnContext(Device device, Where where)
      : device_(device),
        kept_(default_candidates() > 1 ? cache_folder() : "",
              concat("cudnn ", fe::detail::get_backend_version()), gpu_name(device, where)) {
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
    const bool is_final = known != plans_.end() && (!known->second || known->second->timed);
    if (!is_final && (known == plans_.end() || !is_capturing())) {
      if (!find(key, make, dtype, search, operands, where)) return false;
      known = plans_.find(key);
    }
    return known->second && execute(*known->second, operands, where);
  }

 private:
  // Uses the engine that an earlier process found, if it still exists, else the fastest of a new
  // search.
  bool find(const Key& key, const std::function<Graph()>& make, DType dtype, Search search,
            Operands& operands, Where where) {
    if (const auto kept = kept_.find(text_of(key))) {
      search.name = *kept;
      if (try_engines(key, make, dtype, search, operands, where)) return true;
      search.name.clear();
    }
    return try_engines(key, make, dtype, search, operands, where);
  }

  // Makes the fastest engine the key's plan. If no engine is proposed at all, the plan is null for
  // good.
  bool try_engines(const Key& key, const std::function<Graph()>& make, DType dtype,
                   const Search& search, Operands& operands, Where where) {
    auto plan = std::make_unique<Plan>(Plan{make(), 0, !is_capturing()});
    std::vector<std::int64_t> engines;
    const fe::error_t error =
        guarded([&] { return propose(plan->graph, handle_, dtype, search, engines); });
    if (error.is_bad() || engines.empty()) {
      if (!is_capturing() && search.name.empty()) plans_[key] = nullptr;
      return false;
    }
    const auto number = [&](int i) { return engines[static_cast<unsigned>(i)]; };
    const auto chosen = fastest(
        device_, static_cast<int>(engines.size()),
        [&](int i) { return attempt(plan->graph, number(i), operands, where).is_good(); }, where);
    if (!chosen) return false;  // perhaps memory is short now; a later call may succeed
    plan->engine = number(*chosen);
    if (engines.size() > 1 && !is_capturing())
      kept_.keep(text_of(key), name_of(plan->graph, plan->engine));
    std::unique_ptr<Plan>& place = plans_[key];
    if (place) guessed_.push_back(std::move(place));
    place = std::move(plan);
    return true;
  }

  fe::error_t attempt(Graph& graph, std::int64_t engine, Operands& operands, Where where) {
    return guarded([&] {
      const auto bytes = static_cast<std::size_t>(graph.get_workspace_size_plan_at_index(engine));
      const Workspace workspace(bytes, device_, where);
      return graph.execute_plan_at_index(handle_, operands, workspace.address(), engine);
    });
  }

  bool execute(Plan& plan, Operands& operands, Where where) {
    std::optional<Workspace> workspace;
    try {
      workspace.emplace(plan.graph.get_workspace_size_plan_at_index(plan.engine), device_, where);
    } catch (const OutOfMemoryError&) {
      return false;  // our own kernels need no workspace
    }
    check(guarded([&] {
            return plan.graph.execute_plan_at_index(handle_, operands, workspace->address(),
                                                    plan.engine);
          }),
          "cudnnBackendExecute", where);
    return true;
  }

  Device device_;
  cudnnHandle_t handle_ = nullptr;
  std::mutex mutex_;
  KeptChoices kept_;
  std::map<Key, std::unique_ptr<Plan>> plans_;  // null where cuDNN has no engine
  std::vector<std::unique_ptr<Plan>> guessed_;  // replaced by timed plans
};

}  // namespace

int default_candidates() { return parse_candidates(std::getenv("RINGRAD_CUDNN_CANDIDATES"), 3); }

const std::string& missing() {
  static const std::string why = []() -> std::string {
    if (!library().missing().empty() || num_cuda_devices() == 0) return library().missing();
    cudnnHandle_t handle = nullptr;
    cudnnStatus_t status = CUDNN_STATUS_NOT_INITIALIZED;
    fe::error_t error = guarded([&]() -> fe::error_t {
      status = fe::detail::create_handle(&handle);
      if (status == CUDNN_STATUS_SUCCESS) fe::detail::destroy_handle(handle);
      return {};
    });
    if (error.is_bad()) return error.get_message();
    if (status == CUDNN_STATUS_SUCCESS) return "";
    return concat("a cuDNN that does not start: ", fe::detail::get_error_string(status));
  }();
  return why;
}

Graph make_graph(DType dtype) {
  Graph graph;
  // Plans live as long as the process, so captured work need not retain them. Retention would also
  // require a libcudart.so, which is not needed otherwise.
  graph.set_cuda_graph_retention(fe::CudaGraphRetention_t::NONE);
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

GraphTensor add_vector(Graph& graph, std::int64_t id, std::int64_t channels, DType dtype,
                       std::size_t axes) {
  Extents extents(axes, 1);
  extents[1] = channels;
  return add_image(graph, id, extents, dtype);
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
    if (search.name.empty() || name_of(graph, i) == search.name)
      if (graph.build_plan_at_index(i).is_good()) engines.push_back(i);
  return {};
}

bool run(Device device, DType dtype, const Key& key, const std::function<Graph()>& make,
         const Search& search, Operands operands, Where where) {
  for (const auto& [id, address] : operands)
    if (reinterpret_cast<std::uintptr_t>(address) % kAlignment != 0) return false;
  return per_device<CudnnContext>(device, where).run(key, make, dtype, search, operands, where);
}

}  // namespace ringrad::kernels::cudnn
