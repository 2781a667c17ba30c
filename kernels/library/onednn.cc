#include "ringrad/kernels/library/has_onednn.h"

#if RINGRAD_ONEDNN

#include <omp.h>

#include "ringrad/kernels/library/onednn.h"
#include "ringrad/kernels/spinning.h"

namespace ringrad::kernels::onednn {
namespace {

// On the CPU engine a stream queues no work; one stream per thread avoids a lock.
dnnl::stream& stream() {
  thread_local dnnl::stream stream(engine());
  return stream;
}

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::desc describe(std::span<const std::int64_t> extents,
                            std::span<const std::int64_t> strides) {
  return {dnnl::memory::dims(extents.begin(), extents.end()), dnnl::memory::data_type::f32,
          dnnl::memory::dims(strides.begin(), strides.end())};
}

dnnl::memory::desc describe(std::span<const std::int64_t> extents, dnnl::memory::format_tag order) {
  return {dnnl::memory::dims(extents.begin(), extents.end()), dnnl::memory::data_type::f32, order};
}

void rethrow(const dnnl::error& error, const char* operation, Where where) {
  const std::string message = concat(operation, ": oneDNN must succeed; got ", error.what());
  if (error.status == dnnl_out_of_memory) throw OutOfMemoryError(message, where);
  throw InternalError(message, where);
}

int team_size() {
  if (omp_in_parallel() || omp_get_max_active_levels() == 0) return 1;
  return std::min(omp_get_max_threads(), omp_get_thread_limit());
}

FixedTeam::FixedTeam(int threads)
    : max_threads_before_(omp_get_max_threads()), dynamic_before_(omp_get_dynamic() != 0) {
  if (threads != max_threads_before_) omp_set_num_threads(threads);
  if (dynamic_before_) omp_set_dynamic(0);
}

FixedTeam::~FixedTeam() {
  if (omp_get_max_threads() != max_threads_before_) omp_set_num_threads(max_threads_before_);
  if (dynamic_before_) omp_set_dynamic(1);
}

Plan::Plan(dnnl::primitive primitive,
           std::initializer_list<std::pair<int, dnnl::memory::desc>> descriptions)
    : primitive_(std::move(primitive)), threads_(omp_get_max_threads()) {
  for (const auto& [index, description] : descriptions)
    if (!description.is_zero())
      memories_.emplace(index, dnnl::memory(description, engine(), nullptr));
}

void Plan::run(std::initializer_list<Argument> arguments, const char* operation, Where where) {
  RINGRAD_ASSERT(threads_ == team_size());
  const FixedTeam team(threads_);
  if (threads_ > 1) watch_for_load();
  try {
    for (const auto& [index, data] : arguments)
      if (const auto memory = memories_.find(index); memory != memories_.end())
        memory->second.set_data_handle(const_cast<void*>(data));
    primitive_.execute(stream(), memories_);
  } catch (const dnnl::error& error) {
    rethrow(error, operation, where);
  }
}

}  // namespace ringrad::kernels::onednn

#endif
