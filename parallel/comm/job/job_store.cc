#include "ringrad/parallel/comm/job/job_store.h"

#include <algorithm>
#include <thread>

#include "ringrad/parallel/comm/common/hosts.h"
#include "ringrad/parallel/comm/job/job_file.h"
#include "ringrad/parallel/comm/store/store_connection.h"
#include "ringrad/parallel/comm/store/store_server.h"

namespace ringrad {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kPause = milliseconds(20);     // between looks at the file
constexpr auto kOneTry = milliseconds(2000);  // to reach the server that it names

// False if the file belongs to a rank 0 that has ended, or if its store does not answer in time.
bool is_served(const StoreAddress& address, milliseconds time) {
  try {
    StoreConnection(address, time);
    return true;
  } catch (const SilentServer&) {
    return false;
  } catch (const ForeignServer&) {
    return false;
  }
}

// The server of this process, to its end.
const StoreAddress& serve(const StoreAddress& wanted, Where where) {
  static const StoreServer server(wanted, where);
  return server.address();
}

// The same for ranks that have no secret yet.
const StoreAddress& serve_by_file(const RankEnvironment& job, Where where) {
  struct Published {
    Published(const RankEnvironment& job, Where where) : file(job, where) {
      const auto present = file.read();
      RINGRAD_CHECK(!present || !is_served(*present, kOneTry), CollectiveError, where,
                    "group: of the jobs that one launcher runs at the same time, each must have a "
                    "MASTER_PORT of its own; got a second rank 0, and that of ",
                    file.path(), " still runs");
      file.write(serve({}, where), where);
    }
    JobFile file;
  };
  static const Published published(job, where);
  return serve({}, where);
}

// Waits for rank 0's file. One of a job that has ended is soon replaced.
StoreAddress wait_for_file(const RankEnvironment& job, milliseconds timeout, Where where) {
  const JobFile file(job, where);
  const auto begin = Clock::now();
  for (;;) {
    const auto left = timeout - std::chrono::floor<milliseconds>(Clock::now() - begin);
    const auto address = file.read();
    if (address && is_served(*address, std::clamp(left, milliseconds(), kOneTry))) return *address;
    RINGRAD_CHECK(left > kPause, CollectiveError, where, "group: rank 0 must write ", file.path(),
                  " within ", std::chrono::duration<double>(timeout).count(),
                  " s and serve the store; got ", address ? "no answer" : "no file",
                  ". Ranks on several hosts, in containers or of several launchers must ",
                  kHowToShareSecret);
    std::this_thread::sleep_for(kPause);
  }
}

// On the host itself, its name often leads to a loopback address, where ranks of other hosts do not
// reach the store. An explicit loopback address is for several launchers on one host.
void check_reachable(const RankEnvironment& job, Where where) {
  const std::string& host = job.store.host;
  if (job.local_world_size == job.world_size || host == "localhost" || is_loopback(host)) return;
  const std::string address = source_address_towards(host);
  RINGRAD_CHECK(
      !is_loopback(address), ValueError, where, "group: MASTER_ADDR must be an address at ",
      "which other hosts reach rank 0; got \"", host, "\", which rank 0's host takes for ", address,
      ". Set it to one that `hostname -I` prints on that host");
}

// The store that rank 0 serves, as soon as this rank knows where.
StoreAddress address_of_rank_0(const RankEnvironment& job, milliseconds timeout, Where where) {
  if (job.world_size == 1) return serve({}, where);
  RINGRAD_CHECK(job.store.port > 0, ValueError, where, "group: MASTER_PORT must say where ",
                job.world_size, " ranks meet; got nothing");
  if (!job.store.token.empty()) {
    if (job.rank != 0) return job.store;
    check_reachable(job, where);
    return serve(job.store, where);
  }
  RINGRAD_CHECK(job.local_world_size == job.world_size, ValueError, where,
                "group: ranks on several hosts must ", kHowToShareSecret, "; got ",
                job.local_world_size, " of ", job.world_size, " ranks on this host, and no secret");
  return job.rank == 0 ? serve_by_file(job, where) : wait_for_file(job, timeout, where);
}

}  // namespace

Store job_store(const RankEnvironment& job, milliseconds timeout, Where where) {
  if (job.launcher_serves_store) return Store(job.store, timeout, where);
  Store store(address_of_rank_0(job, timeout, where), timeout, where);
  store.note_server_rank(0);
  return store;
}

}  // namespace ringrad
