// ringrun: starts a program on several ranks of this machine.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "parallel/comm/launcher.h"

int main(int argc, char** argv) {
  ringrad::LaunchOptions options;
  double grace_s = 5;
  CLI::App app("Starts a program on several ranks of this machine, and ends them together.",
               "ringrun");
  app.add_option("-n,--ranks", options.num_ranks, "How many ranks")
      ->check(CLI::Range(1, 4096))
      ->required();
  app.add_option("--max-restarts", options.max_restarts,
                 "How often a job that failed is started anew")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--grace", grace_s, "Seconds that ranks have to end after one has failed")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--port", options.port, "Of the store where ranks meet; 0 takes a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option(
      "--chaos", options.chaos,
      "Planned faults, several with commas between them: KIND:RANK[=VALUE][@step=N|@call=N]"
      "[@restart=N], with kill, stop, exit[=CODE], abort or delay=50ms");
  app.prefix_command();  // the rest is the program
  app.footer("The program and its arguments come last: ringrun -n 4 ./train --epochs 3");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.program = app.remaining();
  options.grace = std::chrono::milliseconds(static_cast<long>(grace_s * 1000));
  if (!options.program.empty() && options.program.front() == "--")
    options.program.erase(options.program.begin());
  if (options.program.empty()) {
    std::fprintf(stderr, "ringrun: a program must follow the options; got none\n%s",
                 app.help().c_str());
    return 2;
  }
  try {
    return ringrad::launch(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringrun: %s\n", error.what());
    return 1;
  }
}
