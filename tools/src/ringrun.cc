// ringrun: starts a program on several ranks, of this machine or of several.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>

#include "ringrad/core/base/error.h"
#include "ringrad/core/base/version.h"
#include "ringrad/core/untrusted/options.h"
#include "ringrad/parallel/comm/common/no_broken_pipe.h"
#include "ringrad/parallel/comm/group_options.h"
#include "ringrad/parallel/comm/job/agent.h"
#include "ringrad/parallel/comm/job/launcher.h"

namespace {

constexpr const char* kFooter =
    "The program and its arguments come last:\n"
    "  ringrun -n 4 ./train --epochs 3\n"
    "  ringrun --hosts h1:2,h2:2 ./train\n"
    "Each rank gets these environment variables: RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE,\n"
    "GROUP_RANK (the number of its host), GROUP_WORLD_SIZE, MASTER_ADDR and MASTER_PORT (of the\n"
    "store), RINGRAD_TOKEN and RINGRAD_RESTART_COUNT.\n"
    "On another host, a rank starts in the folder of the same name, with the environment of the\n"
    "remote shell and this machine's RINGRAD_* variables. To pass other variables:\n"
    "  ringrun --hosts h1,h2 env NAME=VALUE ./train\n"
    "ringrun starts the remote shell as `RSH HOST RINGRUN --agent`, and sends the job and its "
    "token\n"
    "through the shell's stdin. If ringrun is stopped for longer than --host-timeout, the other\n"
    "hosts consider it lost and end their ranks. If its output is not read, the job goes on; "
    "ranks\n"
    "wait once 64 MiB of it are unread. If output cannot be written, as on a full disk, the job "
    "goes\n"
    "on as well, and the exit code is not 0. A rank's stdout is a terminal, with TERM=dumb where\n"
    "ringrun's own is none, so that lines and progress are seen as they are printed. For a pipe:\n"
    "  ringrun -n 2 bash -c './train | cat'";

constexpr int kBadArguments = 2, kFailed = 1;  // exit codes

// CLI::Range lets "nan" through.
CLI::Validator seconds_in(double least, double most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    double seconds = std::nan("");
    const bool is_number = CLI::detail::lexical_cast(text, seconds);
    if (is_number && seconds >= least && seconds <= most) return {};
    return ringrad::concat("must be in [", least, ", ", most, "] seconds; got \"", text, '"');
  };
  return {check, ringrad::concat("[", least, " - ", most, "]")};
}

struct Arguments {
  ringrad::LaunchOptions options;
  double grace_s = 5, host_timeout_s = 10;
  const CLI::Option* host_timeout_option = nullptr;
  std::string hosts, remote_shell = "ssh -o BatchMode=yes";
  const CLI::Option* hosts_option = nullptr;

  void add_to(CLI::App& app) {
    auto* where = app.add_option_group("ranks");
    where->add_option("-n,--ranks", options.num_ranks, "Number of ranks on this machine")
        ->check(CLI::Range(1, ringrad::kMaxRanks));
    hosts_option = where->add_option(
        "--hosts", hosts,
        "Hosts and the number of ranks on each: h1:2,h2:2; localhost is this machine");
    where->require_option(1);
    app.add_option("--max-restarts", options.max_restarts, "How many times to restart a failed job")
        ->check(CLI::Range(0, 1'000'000));
    app.add_option(
           "--min-ranks", options.min_ranks,
           "Restart on the remaining ranks while there are at least this many: without the rank "
           "that failed first, ranks that were killed, and ranks of lost hosts. By default, "
           "restart on all ranks")
        ->check(CLI::Range(1, ringrad::kMaxRanks));
    app.add_option("--grace", grace_s,
                   "Seconds that the other ranks have to end after one has failed")
        ->check(seconds_in(0, 3600))
        ->capture_default_str();
    app.add_option("--port", options.port, "Port of the store where ranks meet; 0 takes a free one")
        ->check(CLI::Range(0, 65535))
        ->capture_default_str();
    app.add_option("--inject", options.inject,
                   "Faults to inject, separated by commas: KIND:RANK[=VALUE]"
                   "[@step=N|@call=N|@point=NAME[:N]][@restart=N], with kill, stop, exit[=CODE], "
                   "abort or delay=50ms");
    app.add_flag("--pin", options.pin,
                 "Keep each rank to its own equal share of the CPUs that ringrun may use on the "
                 "rank's host, in the order of LOCAL_RANK; where there are fewer CPUs than "
                 "LOCAL_WORLD_SIZE, none is pinned");
    app.add_option("--rsh", remote_shell,
                   "With --hosts: the command that starts a program on another host")
        ->capture_default_str();
    app.add_option("--remote-ringrun", options.ringrun,
                   "With --hosts: the path of this program on the other hosts")
        ->capture_default_str();
    app.add_option(
        "--master-addr", options.master_addr,
        "Where ranks find the store; by default, the address that faces the first other host");
    app.add_option(
        "--bind", options.bind,
        "Address on which the store listens, which ranks of this host get as MASTER_ADDR; "
        "by default, --master-addr");
    host_timeout_option =
        app.add_option("--host-timeout", host_timeout_s,
                       "Seconds of silence after which another host is lost. The agent of this "
                       "one is lost when it has ended; with this option also after it has been "
                       "stopped for that long")
            ->check(seconds_in(1, 3600))
            ->capture_default_str();
    app.add_option("--log-dir", options.log_folder,
                   "Folder for a file per rank, rank_0.log, ..., with what it writes to stdout and "
                   "stderr; of all hosts, on this one. After restart K: rank_0.restart_K.log. "
                   "Such files of an earlier job are removed");
    app.prefix_command();  // the rest is the program
    app.footer(kFooter);
  }

  // Throws: ValueError
  void complete(std::vector<std::string> program) {
    options.program = std::move(program);
    if (!options.program.empty() && options.program.front() == "--")
      options.program.erase(options.program.begin());
    RINGRAD_CHECK(!options.program.empty(), ringrad::ValueError, ringrad::Where::current(),
                  "launch: a program must follow the options; got none");
    options.grace = std::chrono::milliseconds(static_cast<long>(grace_s * 1000));
    if (host_timeout_option->count() > 0)
      options.host_timeout = std::chrono::milliseconds(static_cast<long>(host_timeout_s * 1000));
    options.remote_shell.clear();
    std::istringstream words(remote_shell);
    for (std::string word; words >> word;) options.remote_shell.push_back(word);
    if (hosts_option->count() > 0) options.hosts = ringrad::parse_hosts(hosts);
  }
};

// One line, whatever the reason.
int refuse(std::string why, int exit_code) {
  const ringrad::NoBrokenPipe guard;  // the exit code counts, even if stderr is closed
  std::replace(why.begin(), why.end(), '\n', ' ');
  std::fprintf(stderr, "ringrun: %s\n", why.c_str());
  return exit_code;
}

int run(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--agent") return ringrad::run_agent();
  Arguments arguments;
  arguments.options.ringrun = std::filesystem::read_symlink("/proc/self/exe");
  CLI::App app("Starts a program on several ranks, and ends them together.", "ringrun");
  arguments.add_to(app);
  app.set_version_flag("--version", std::string("Ringrad ") + ringrad::version());
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    const std::string unknown = ringrad::unknown_option(app, app.remaining());
    return refuse((unknown.empty() ? error.what() : unknown) + " (see ringrun --help)",
                  kBadArguments);
  }
  // The program would come first otherwise.
  if (const std::string unknown = ringrad::unknown_option(app, app.remaining()); !unknown.empty())
    return refuse(unknown + " (see ringrun --help)", kBadArguments);
  arguments.complete(app.remaining());
  return ringrad::launch(arguments.options);
}

}  // namespace

int main(int argc, char** argv) {
  ringrad::guard_standard_streams();
  try {
    return run(argc, argv);
  } catch (const ringrad::ValueError& error) {
    return refuse(error.what(), kBadArguments);
  } catch (const std::exception& error) {
    return refuse(error.what(), kFailed);
  }
}
