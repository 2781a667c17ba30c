// Job: the common options of a program with ranks: their number, their devices, and their backend.
//
//     int main(int argc, char** argv) {
//       int steps = 20;
//       Job job("Trains a small network.");
//       job.options().add_option("--steps", steps);
//       return job.run(argc, argv, [&](Communicator& comm) { train(comm, steps); });
//     }
//
//     ./program --world-size 4                    ranks are threads of this process
//     ./program --world-size 4 --device cuda      each with a GPU, simulated if there is none
//     ringrun -n 4 ./program --backend gloo       processes
//     mpirun -n 4 ./program --backend mpi

#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "ringrad/options.h"
#include "ringrad/parallel.h"

namespace ringrad {

class Job {
 public:
  /// Adds --world-size, --device, --backend and --nccl to the program's options; `world_size` is
  /// the default number of ranks.
  explicit Job(const std::string& about, int world_size = 2);

  CLI::App& options() { return options_; }
  /// Plans of the group, for thread ranks and for the backends that have plans.
  GroupOptions& group() { return group_; }

  /// Parses the arguments; ends the program after --help, or if an argument is wrong.
  void parse(int argc, char** argv);

  /// Calls body(communicator) for this process's ranks: all of them, or the one rank that a
  /// launcher started it as. Tensors that name no device are made on the rank's device. Returns the
  /// program's exit code; prints what a rank throws.
  int run(const std::function<void(Communicator&)>& body);
  int run(int argc, char** argv, const std::function<void(Communicator&)>& body) {
    parse(argc, argv);
    return run(body);
  }

  int world_size() const { return world_size_; }
  bool is_launched() const { return environment_.launched; }
  const std::string& backend() const { return backend_; }
  /// The device of this rank; ranks take the GPUs of their machine in turn.
  Device device_of(int rank) const;

 private:
  void run_rank(Communicator& comm, const std::function<void(Communicator&)>& body) const;

  const RankEnvironment environment_;
  CLI::App options_;
  GroupOptions group_;
  int world_size_;
  std::string device_ = "cpu", backend_ = "threads";
  bool nccl_ = false;
};

}  // namespace ringrad
