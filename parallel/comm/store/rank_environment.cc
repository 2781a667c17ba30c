#include "ringrad/parallel/comm/store/rank_environment.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>

#include "ringrad/core/trace.h"
#include "ringrad/parallel/comm/store/store_protocol.h"

namespace ringrad {
namespace {

struct Names {
  const char *rank, *world_size, *local_rank, *local_world_size;
};

constexpr int kDefaultPort = 29500;  // torchrun's

constexpr const char* kHydraRank = "PMI_RANK";
constexpr const char* kSlurmRank = "SLURM_PROCID";

constexpr Names kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {kHydraRank, "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {kSlurmRank, "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
};

// By which launchers tell their jobs apart. Each is the same on all ranks of a job.
constexpr const char* kIdentity[] = {
    "MASTER_ADDR",    "MASTER_PORT",  "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
    "PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"};

std::optional<int> number_in(const char* name, int least, Where where) {
  const char* text = std::getenv(name);
  if (!text) return {};
  const auto number = parse_number(text);
  RINGRAD_CHECK(number && *number >= least && *number <= std::numeric_limits<int>::max(),
                ValueError, where, name, ": it must be a number from ", least, "; got \"", text,
                '"');
  return static_cast<int>(*number);
}

std::string text_in(const char* name, const char* otherwise) {
  const char* text = std::getenv(name);
  return text ? text : otherwise;
}

// srun does not say how many ranks this node has. The number per node is what the user has asked
// for at most, maybe for a larger step. Each node has a rank.
int most_ranks_per_node(int world_size, std::optional<int> wanted, Where where) {
  const auto num_nodes = number_in("SLURM_STEP_NUM_NODES", 1, where);
  if (!num_nodes) return std::min(wanted.value_or(world_size), world_size);
  if (*num_nodes == 1) return world_size;
  const int equal_share = (world_size + *num_nodes - 1) / *num_nodes;
  return std::clamp(wanted.value_or(equal_share), 1, std::max(1, world_size - (*num_nodes - 1)));
}

void read_ranks(const Names& names, RankEnvironment& job, Where where) {
  const auto size = number_in(names.world_size, 1, where);
  RINGRAD_CHECK(size.has_value(), ValueError, where, names.rank, ": ", names.world_size,
                " must be set as well; got nothing");
  job.world_size = *size;
  job.rank = number_in(names.rank, 0, where).value_or(0);
  RINGRAD_CHECK(job.rank < job.world_size, ValueError, where, names.rank, ": it must be below ",
                names.world_size, " = ", job.world_size, "; got ", job.rank);
  const bool is_slurm = names.rank == kSlurmRank;
  const auto local_world_size = number_in(names.local_world_size, 1, where);
  job.local_world_size = is_slurm ? most_ranks_per_node(job.world_size, local_world_size, where)
                                  : local_world_size.value_or(job.world_size);  // on one host
  // Without it, ranks of two hosts would take themselves for ranks of one.
  RINGRAD_CHECK(names.rank != kHydraRank || std::getenv(names.local_rank), ValueError, where,
                names.rank, ": ", names.local_rank, " must be set as well; got nothing");
  job.local_rank = number_in(names.local_rank, 0, where).value_or(job.rank % job.local_world_size);
  if (is_slurm) return;  // whose nodes need not have equal numbers of ranks
  RINGRAD_CHECK(job.local_world_size <= job.world_size, ValueError, where, names.local_world_size,
                ": it must be at most ", names.world_size, " = ", job.world_size, "; got ",
                job.local_world_size);
  RINGRAD_CHECK(job.local_rank < job.local_world_size, ValueError, where, names.local_rank,
                ": it must be below ", names.local_world_size, " = ", job.local_world_size,
                "; got ", job.local_rank);
}

// A launcher sets its variables together: what is left of them says that there are other ranks, and
// not which this one is. SLURM_NTASKS and SLURM_NTASKS_PER_NODE are not srun's alone: within salloc
// and sbatch, a program that srun has not started has them too.
void check_no_remains(Where where) {
  for (const Names& names : kLaunchers)
    for (const char* name : {names.world_size, names.local_rank, names.local_world_size}) {
      const bool is_of_allocation = names.rank == kSlurmRank && name != names.local_rank;
      const char* const value = is_of_allocation ? nullptr : std::getenv(name);
      RINGRAD_CHECK(!value, ValueError, where, name, ": ", names.rank,
                    " must be set as well, as launchers do; got ", name, "=", value,
                    " alone; unset it for a program of one rank");
    }
}

// srun sets PMI_RANK as well, but says the local rank under its own name only. (Hydra in a job of
// Slurm starts its helpers by srun, so what is called SLURM_PROCID there is a helper's number.)
bool is_of_srun(const Names& names) {
  return names.rank == kHydraRank && !std::getenv(names.local_rank) && std::getenv(kSlurmRank);
}

// The variables of the launcher that started this process; null if none did.
const Names* launcher() {
  for (const Names& names : kLaunchers)
    if (std::getenv(names.rank) && !is_of_srun(names)) return &names;
  return nullptr;
}

// Traces name ranks from a program's start, also if it never joins a group. Each program with a
// Communicator links this file, since Communicator's constructor looks for planned faults.
const bool is_named_in_traces = [] {
  const Names* names = launcher();
  const int rank = names ? std::atoi(std::getenv(names->rank)) : 0;
  set_trace_process({.kind = "rank", .number = rank, .is_one_of_many = names != nullptr});
  return true;
}();

}  // namespace

RankEnvironment rank_environment(Where where) {
  RankEnvironment job;
  if (const Names* names = launcher()) {
    read_ranks(*names, job, where);
    job.rank_variable = names->rank;
    job.launched = true;
  } else {
    check_no_remains(where);
  }
  for (const char* name : {"RINGRAD_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"})
    if (const auto restart = number_in(name, 0, where)) job.restart = *restart;
  job.store.host = text_in("MASTER_ADDR", "127.0.0.1");
  job.store.port = number_in("MASTER_PORT", 1, where).value_or(job.launched ? kDefaultPort : 0);
  job.store.token = text_in("RINGRAD_TOKEN", "");
  if (!job.store.token.empty()) check_token(job.store.token, "RINGRAD_TOKEN", where);
  job.launcher_serves_store =
      !job.store.token.empty() && std::getenv("RINGRAD_LAUNCHER_SERVES_STORE") != nullptr;
  // Where torchrun serves a store of its own at that port, ours takes the next.
  if (!job.launcher_serves_store && std::getenv("TORCHELASTIC_USE_AGENT_STORE")) ++job.store.port;
  for (const char* name : kIdentity) job.identity += concat(name, '=', text_in(name, ""), '\n');
  return job;
}

std::string job_name() {
  if (const char* name = std::getenv("RINGRAD_JOB")) return name;
  std::string text;
  for (const char* name : kIdentity)
    if (const char* value = launcher() ? std::getenv(name) : nullptr)
      text += concat(text.empty() ? "" : " ", name, '=', value);
  return text;
}

}  // namespace ringrad
