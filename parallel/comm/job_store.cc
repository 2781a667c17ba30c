#include "parallel/comm/job_store.h"

namespace ringrad {

Store job_store(RankEnvironment job, std::chrono::milliseconds timeout, Where where) {
  RINGRAD_CHECK(job.store.port > 0 || job.world_size == 1, ValueError, where,
                "group: MASTER_PORT must say where ", job.world_size, " ranks meet; got nothing");
  if (!job.launcher_serves_store && job.rank == 0) {
    static const StoreServer server(job.store, where);
    job.store = server.address();
  }
  return Store(job.store, timeout, where);
}

}  // namespace ringrad
