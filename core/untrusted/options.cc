#include "ringrad/core/untrusted/options.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/core/version.h"

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

}  // namespace

namespace option {

CLI::Validator whole(std::int64_t least, std::int64_t most) {
  return in_range("whole number", least, most);
}

CLI::Validator number(double least, double most) { return in_range("number", least, most); }

CLI::Validator writable_file() {
  return {[](const std::string& path) {
            const bool is_writable = std::ofstream(path, std::ios::app).is_open();
            return is_writable ? "" : "the file must be writable; got " + quoted_bytes(path, 4096);
          },
          "FILE"};
}

}  // namespace option

std::optional<int> parse_options(CLI::App& app, int argc, const char* const* argv,
                                 const std::function<void()>& check) {
  app.set_version_flag("--version", std::string("Ringrad ") + version());
  try {
    app.parse(argc, argv);
    if (check) check();
    return {};
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    const std::string program = app.get_name();
    std::fprintf(stderr, "%s: %s (see --help)\n", program.substr(program.rfind('/') + 1).c_str(),
                 escaped_bytes(error.what(), kMostErrorBytes).c_str());
    return 2;
  }
}

}  // namespace ringrad
