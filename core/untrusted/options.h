// Options of programs: ranges that several programs share, and one way to report a bad argument.
//
//     app.add_option("--epochs", epochs)->check(option::epochs());
//     if (const auto exit_code = parse_options(app, argc, argv)) return *exit_code;
//
//     $ program --version
//     Ringrad 0.2.0
//     $ program --epochs -3
//     program: --epochs: must be a whole number in [1, 1000000]; got "-3" (see --help)
//                                                                             exit code 2
//     $ program --epoch 3
//     program: unknown option --epoch, nearest is --epochs (see --help)       exit code 2
//
// CLI::Range and CLI::PositiveNumber accept "nan", and CLI::PositiveNumber has no upper limit.

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace ringrad {

namespace option {

/// A whole number in [least, most].
CLI::Validator whole(std::int64_t least, std::int64_t most);

/// A finite number in [least, most]; 1e-3 is also accepted.
CLI::Validator number(double least, double most);

/// True for a file that exists and can be written, and for a new one in a folder that can be
/// written. Opens nothing.
bool may_be_written(const std::filesystem::path& path);
/// The path of a file that may_be_written().
CLI::Validator writable_file();

/// Passes over the training data.
inline CLI::Validator epochs() { return whole(1, 1'000'000); }
/// Steps of training.
inline CLI::Validator steps() { return whole(1, 1'000'000); }
/// Samples per step: more would hardly fit into memory.
inline CLI::Validator batch() { return whole(1, 1 << 20); }
/// Micro-batches per step: as many as tools/draw draws at most. Each is a list of tensors.
inline CLI::Validator micro_batches() { return whole(1, 512); }
inline CLI::Validator seed() { return whole(0, std::numeric_limits<std::int64_t>::max()); }

}  // namespace option

/// A message such as "unknown option --epoch, nearest is --epochs" about the first argument, which
/// `app` did not recognise, if it looks like an option. The message names no other option if none
/// is near. Empty if the first argument does not look like an option, or there are no arguments.
std::string unknown_option(const CLI::App& app, const std::vector<std::string>& arguments);

/// For the beginning of a program. Opens /dev/null in place of each of stdin, stdout and stderr
/// that the program's caller has closed. Otherwise the program's next file would take the stream's
/// number, and would receive what the program prints. From now on, if the program's output could
/// not be written, as on a full disk, exit() prints a line on stderr and ends the program with 1.
void guard_standard_streams();

/// Calls guard_standard_streams(), parses the arguments, then calls `check`, which may throw
/// CLI::ValidationError for arguments that do not go together.
///
/// Returns nothing if the program may continue, else its exit code: 0 after --help, 2 after one
/// line on stderr that says which argument is wrong.
std::optional<int> parse_options(CLI::App& app, int argc, const char* const* argv,
                                 const std::function<void()>& check = {});

}  // namespace ringrad
