// Runs examples as a user does: through a shell.

#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "ringrad/tests/nn/checkpoint/folder.h"

namespace ringrad::testing {

struct Outcome {
  int exit_code;
  std::string output;
};

/// Runs a shell command; the output is its standard output only, unless the command says otherwise.
inline Outcome run(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    output.append(buffer.data(), count);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

inline std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string line, last;
  while (std::getline(lines, line)) last = line;
  return last;
}

/// The commands that run an example (job.h) on n thread ranks, on as many processes, and on thread
/// ranks with one GPU each. Simulated GPUs are slow, so `on_gpus` may replace the arguments there.
inline std::vector<std::string> every_way(const std::string& example, int n,
                                          const std::string& arguments = "",
                                          const std::string& on_gpus = "") {
  const std::string program = "examples/" + example + ' ' + arguments, count = std::to_string(n);
  return {program + " --world-size " + count, "tools/src/ringrun -n " + count + ' ' + program,
          "examples/" + example + ' ' + (on_gpus.empty() ? arguments : on_gpus) +
              " --device cuda --world-size " + count};
}

/// The command, which a program follows, that starts n ranks over MPI. OpenMPI keeps sockets, so in
/// a folder with a short path. It names its own by the number of its process, and processes of two
/// sandboxes that share /tmp may have equal numbers; so each test program has a folder. OpenMPI 5
/// asks for a home.
inline std::string mpirun(int n) {
  static const Folder folder("/tmp");
  return "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=" +
         folder.path().string() + " HOME=" + folder.path().string() +
         " mpirun --oversubscribe --bind-to none -n " + std::to_string(n) + ' ';
}

/// The output of ringrun's ranks, without the "[rank] " before each line.
inline std::string without_ranks(const std::string& output) {
  return std::regex_replace(output, std::regex("(^|\n)\\[\\d+\\] "), "$1");
}

}  // namespace ringrad::testing
