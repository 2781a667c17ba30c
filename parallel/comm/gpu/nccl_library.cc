#include "ringrad/parallel/comm/gpu/nccl_library.h"

#include <cstdlib>

#include "ringrad/core/gpu/shared_library.h"
#include "ringrad/core/gpu/stream.h"

namespace ringrad::nccl {
namespace {

constexpr int kOldest = version_code(2, 14, 0);

std::string file_of(const std::string& file) {
  if (!file.empty()) return file;
  const char* named = std::getenv("RINGRAD_NCCL");
  return named && *named ? named : "libnccl.so.2";
}

Functions find_all(SharedLibrary& library) {
  Functions all{};
  library.find("ncclGetVersion", all.get_version);
  library.find("ncclGetErrorString", all.get_error_string);
  library.find("ncclGetLastError", all.get_last_error);
  library.find("ncclGetUniqueId", all.get_unique_id);
  library.find("ncclCommInitRankConfig", all.comm_init_rank_config);
  library.find("ncclCommGetAsyncError", all.comm_get_async_error);
  library.find("ncclCommFinalize", all.comm_finalize);
  library.find("ncclCommDestroy", all.comm_destroy);
  library.find("ncclCommAbort", all.comm_abort);
  library.find("ncclGroupStart", all.group_start);
  library.find("ncclGroupEnd", all.group_end);
  library.find("ncclAllReduce", all.all_reduce);
  library.find("ncclReduceScatter", all.reduce_scatter);
  library.find("ncclAllGather", all.all_gather);
  library.find("ncclBroadcast", all.broadcast);
  library.find("ncclReduce", all.reduce);
  library.find("ncclSend", all.send);
  library.find("ncclRecv", all.recv);
  return all;
}

}  // namespace

std::string version_name(int version) {
  // Before 2.9 a minor version had one digit.
  const int major = version < 10000 ? 1000 : 10000;
  return concat(version / major, '.', version % major / 100, '.', version % 100);
}

Library open(const std::string& file, Where where) {
  const std::string name = file_of(file);
  SharedLibrary library{name.c_str()};
  RINGRAD_CHECK(library.missing().empty(), CollectiveError, where, "nccl: ", name,
                " must be there, or RINGRAD_NCCL name another file; got ", library.missing());
  // The oldest versions lack functions: a version says more than a symbol that is not there.
  Library found{};
  library.find("ncclGetVersion", found.functions.get_version);
  if (found.functions.get_version) {
    const Result result = found.functions.get_version(&found.version);
    RINGRAD_CHECK(result == Result::success && found.version >= kOldest, CollectiveError, where,
                  "nccl: ", name, " must be 2.14.0 or later, whose calls do not block; got ",
                  version_name(found.version));
  }
  found.functions = find_all(library);
  RINGRAD_CHECK(library.missing().empty(), CollectiveError, where, "nccl: ", name,
                " must have every function that is used; got ", library.missing());
  if (is_cuda_simulated()) {
    void (*simulated)() = nullptr;
    library.find("ncclOnSimulatedGpus", simulated);
    RINGRAD_CHECK(simulated, CollectiveError, where, "nccl: ", name,
                  " needs real GPUs; got simulated ones");
  }
  return found;
}

}  // namespace ringrad::nccl
