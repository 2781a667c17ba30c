#include "ringrad/core/untrusted/options.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "ringrad/core/base/version.h"
#include "ringrad/core/untrusted/quoted_bytes.h"

namespace ringrad {
namespace {

constexpr std::size_t kMostErrorBytes = 1000;  // enough for the names of all models

template <class Number>
CLI::Validator in_range(const char* what, Number least, Number most) {
  std::ostringstream range;
  range << "[" << least << ", " << most << "]";
  const auto check = [what, least, most, range = range.str()](const std::string& text) {
    Number value{};
    // In this form NaN is outside every range.
    const bool fits = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return fits ? ""
                : std::string("must be a ") + what + " in " + range + "; got " + quoted_bytes(text);
  };
  return {check, "in " + range.str()};
}

// How many letters must be changed, put in or left out to make one of the other. 0 if `typed` is
// the beginning of `name`.
std::size_t distance(std::string_view typed, std::string_view name) {
  if (name.starts_with(typed)) return 0;
  std::vector<std::size_t> row(name.size() + 1);  // from a beginning of `typed` to those of `name`
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < typed.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < name.size(); ++j) {
      const std::size_t changed = diagonal + (typed[i] != name[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// The long names of all options, also of those in groups.
std::vector<std::string> long_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const CLI::App* group : app.get_subcommands([](const CLI::App*) { return true; }))
    for (std::string& name : long_names(*group)) names.push_back(std::move(name));
  return names;
}

// CLI11 2.5 would wrap descriptions and footers, and so break up tables.
template <class Formatter>
void keep_lines(Formatter& formatter) {
  if constexpr (requires { formatter.enable_footer_formatting(false); }) {
    formatter.enable_description_formatting(false);
    formatter.enable_footer_formatting(false);
  }
}

// A reader that has gone is no error, as in `program | head`.
void check_stdout() {
  errno = 0;
  const bool is_written = std::fflush(stdout) == 0 && !std::ferror(stdout);
  if (is_written || errno == EPIPE) return;
  std::fprintf(stderr, "stdout must be writable; got %s\n",
               errno != 0 ? std::strerror(errno) : "an error");
  _exit(1);
}

}  // namespace

std::string unknown_option(const CLI::App& app, const std::vector<std::string>& arguments) {
  const std::string typed =
      arguments.empty() ? "" : arguments.front().substr(0, arguments.front().find('='));
  // -3 is a number.
  const std::size_t num_dashes = typed.starts_with("--") ? 2 : 1;
  if (typed.size() <= num_dashes || typed[0] != '-' ||
      !std::isalpha(static_cast<unsigned char>(typed[num_dashes])))
    return {};
  std::string nearest;
  std::size_t least = typed.size() / 2;
  for (const std::string& name : long_names(app))
    if (const std::size_t d = distance(typed, name); d < least) {
      least = d;
      nearest = name;
    }
  return "unknown option " + typed + (nearest.empty() ? "" : ", nearest is " + nearest);
}

namespace option {

CLI::Validator whole(std::int64_t least, std::int64_t most) {
  return in_range("whole number", least, most);
}

CLI::Validator number(double least, double most) { return in_range("number", least, most); }

// Opening it would create the file, or wait for a pipe's reader. A link's target may not exist yet.
bool may_be_written(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  using Type = std::filesystem::file_type;
  if (status.type() != Type::not_found && status.type() != Type::none)
    return !std::filesystem::is_directory(status) && access(path.c_str(), W_OK) == 0;
  if (status.type() == Type::none) return false;  // a loop of links, say
  if (std::filesystem::is_symlink(std::filesystem::symlink_status(path, error))) {
    const auto target = path.parent_path() / std::filesystem::read_symlink(path, error);
    return !error && may_be_written(target);
  }
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  return path.has_filename() && access(folder.c_str(), W_OK | X_OK) == 0;
}

CLI::Validator writable_file() {
  return {[](const std::string& path) {
            return may_be_written(path)
                       ? ""
                       : "the file must be writable; got " + quoted_bytes(path, 4096);
          },
          "FILE"};
}

}  // namespace option

void guard_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", O_RDWR);  // takes the lowest number
  [[maybe_unused]] static const int registered = std::atexit(check_stdout);
}

std::optional<int> parse_options(CLI::App& app, int argc, const char* const* argv,
                                 const std::function<void()>& check) {
  guard_standard_streams();
  app.set_version_flag("--version", std::string("Ringrad ") + version());
  keep_lines(*app.get_formatter());
  try {
    app.parse(argc, argv);
    if (check) check();
    return {};
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    const std::string program = app.get_name(), unknown = unknown_option(app, app.remaining());
    std::fprintf(stderr, "%s: %s (see --help)\n", program.substr(program.rfind('/') + 1).c_str(),
                 escaped_bytes(unknown.empty() ? error.what() : unknown, kMostErrorBytes).c_str());
    return 2;
  }
}

}  // namespace ringrad
