#include "ringrad/examples/job.h"

#include <cstdlib>
#include <iostream>
#include <vector>

#include "ringrad/parallel/comm/network/join_group.h"
#include "ringrad/ringrad.h"

namespace ringrad {
namespace {

RankEnvironment environment_or_exit() {
  try {
    return rank_environment();
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    std::exit(1);
  }
}

}  // namespace

Job::Job(const std::string& about, int world_size)
    : environment_(environment_or_exit()), options_(about), world_size_(world_size) {
  if (is_launched()) {
    world_size_ = environment_.world_size;
    backend_ = "processes";
  }
  std::vector<std::string> backends = backend_names();
  backends.insert(backends.begin(), "threads");
  options_.option_defaults()->always_capture_default();
  options_.add_option("--world-size", world_size_, "ranks; a launcher decides it")
      ->check(CLI::Range(1, kMaxRanks));
  options_.add_option("--device", device_, "where ranks compute")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  options_.add_option("--backend", backend_, "what joins ranks; all but threads need a launcher")
      ->check(CLI::IsMember(backends));
  options_.add_flag("--nccl", nccl_, "GPUs talk through NCCL");
}

void Job::parse(int argc, char** argv) {
  const auto check = [&] {
    if (is_launched() && world_size_ != environment_.world_size)
      throw CLI::ValidationError(concat("--world-size: must be what the launcher started; got ",
                                        world_size_, " and ", environment_.world_size));
    if (is_launched() == (backend_ == "threads"))
      throw CLI::ValidationError(
          concat("--backend: must be threads unless a launcher has started this process; got ",
                 backend_, is_launched() ? " of a launcher" : " without one"));
    if (device_ == "cuda" && num_cuda_devices() == 0)
      throw CLI::ValidationError("--device: cuda needs a GPU; got a machine without");
    if (nccl_ && device_ != "cuda")
      throw CLI::ValidationError(concat("--nccl: needs --device cuda; got ", device_));
  };
  if (const auto exit_code = parse_options(options_, argc, argv, check)) std::exit(*exit_code);
}

Device Job::device_of(int rank) const {
  if (device_ == "cpu") return Device();
  return {DeviceType::cuda, (is_launched() ? environment_.local_rank : rank) % num_cuda_devices()};
}

void Job::run_rank(Communicator& comm, const std::function<void(Communicator&)>& body) const {
  const Device device = device_of(comm.rank());
  const DefaultDeviceGuard guard(device);
  body(nccl_ ? *with_nccl(comm.split(0), device) : comm);
}

int Job::run(const std::function<void(Communicator&)>& body) {
  try {
    if (device_ == "cuda" && is_cuda_simulated() && environment_.rank == 0)
      std::cerr << "The GPUs are simulated: what is computed is real, how long it takes says "
                   "nothing.\n";
    const auto run_one = [&](Communicator& comm) { run_rank(comm, body); };
    if (is_launched())
      run_one(*join_group(backend_, group_));
    else
      run_ranks(world_size_, run_one, group_);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << options_.get_name() << ": " << error.what() << '\n';
    return 1;
  }
}

}  // namespace ringrad
