#include "ringrad/kernels/library/kept_choices.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "ringrad/core/base/error.h"
#include "ringrad/core/file/atomic_file.h"
#include "ringrad/core/untrusted/json.h"
#include "ringrad/core/untrusted/quoted_bytes.h"

namespace ringrad::kernels {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::size_t kMostCharacters = 300;  // per problem or choice

[[noreturn]] void refuse(const std::string& must, const std::string& got) {
  throw std::invalid_argument("must " + must + "; got " + got);
}

// Keeps letters, digits, dots and dashes, because a device's name becomes part of a file name.
std::string as_file_name(std::string_view text) {
  std::string name(text.substr(0, 100));
  for (char& c : name)
    if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '.')
      c = c == ' ' ? '_' : '-';
  return name;
}

// The bytes of a regular file; nullopt if the file does not exist.
std::optional<std::string> read_file(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // no blocking on a pipe
  if (file < 0 && errno == ENOENT) return std::nullopt;
  if (file < 0) refuse("be readable", std::generic_category().message(errno));
  struct stat status {};
  const bool is_regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  std::string text(kMostBytes + 1, '\0');
  std::size_t size = 0;
  ssize_t got = is_regular ? 1 : 0;
  while (got > 0 && size < text.size())
    if ((got = read(file, text.data() + size, text.size() - size)) > 0)
      size += static_cast<std::size_t>(got);
  close(file);
  if (!is_regular) refuse("be a regular file", "another kind of file");
  if (got < 0) refuse("be readable", "an error while it was read");
  if (size > kMostBytes) refuse(concat("have at most ", kMostBytes, " bytes"), "more");
  text.resize(size);
  return text;
}

const json& member(const json& object, const char* name) {
  if (!object.is_object() || !object.contains(name))
    refuse(concat("have a member \"", name, '"'), "none");
  return object.at(name);
}

void check_is(const json& object, const char* name, const std::string& expected) {
  const json& value = member(object, name);
  if (value != expected)
    refuse(concat("have ", name, ' ', quoted_bytes(expected)), quoted_bytes(value.dump(), 200));
}

std::map<std::string, std::string> parse(const std::string& text, const std::string& library,
                                         const std::string& device) {
  const json file = parse_untrusted_json(text, {.depth = 3, .bytes = kMostBytes});
  check_is(file, "library", library);
  check_is(file, "device", device);
  const json& choices = member(file, "choices");
  if (!choices.is_object()) refuse("have choices by problem", choices.type_name());
  std::map<std::string, std::string> result;
  for (const auto& [problem, choice] : choices.items()) {
    if (!choice.is_string()) refuse("name choices", choice.type_name());
    const std::string& name = choice.get_ref<const std::string&>();
    if (problem.size() > kMostCharacters || name.size() > kMostCharacters)
      refuse(concat("name each in at most ", kMostCharacters, " characters"), "more");
    result.emplace(problem, name);
  }
  return result;
}

}  // namespace

std::filesystem::path cache_folder() {
  const auto absolute = [](const char* variable) {
    const char* value = std::getenv(variable);
    const std::filesystem::path path = value ? value : "";
    return path.is_absolute() ? path : std::filesystem::path();
  };
  if (const auto cache = absolute("XDG_CACHE_HOME"); !cache.empty()) return cache / "ringrad";
  if (const auto home = absolute("HOME"); !home.empty()) return home / ".cache" / "ringrad";
  return {};
}

KeptChoices::KeptChoices(const std::filesystem::path& folder, std::string library,
                         std::string device)
    : library_(std::move(library)), device_(std::move(device)) {
  if (folder.empty()) return;
  file_ = folder / (as_file_name(library_) + '-' + as_file_name(device_) + ".json");
  read();
}

void KeptChoices::read() {
  try {
    const auto text = read_file(file_);
    if (!text) return;
    auto found = parse(*text, library_, device_);
    choices_.merge(found);  // this process's own choices take precedence
  } catch (const std::invalid_argument& error) {
    ignore(error.what());
  }
}

std::optional<std::string> KeptChoices::find(const std::string& problem) const {
  const auto found = choices_.find(problem);
  return found == choices_.end() ? std::nullopt : std::optional(found->second);
}

void KeptChoices::keep(const std::string& problem, const std::string& choice) {
  choices_[problem] = choice;
  if (file_.empty()) return;
  read();
  if (!file_.empty()) write();
}

void KeptChoices::write() {
  const std::string text =
      json{{"library", library_}, {"device", device_}, {"choices", choices_}}.dump(
          1, ' ', false, json::error_handler_t::replace) +
      '\n';
  if (text.size() > kMostBytes) return ignore("must have room for one more; got a full file");
  std::error_code error;
  std::filesystem::create_directories(file_.parent_path(), error);
  try {
    AtomicFile file(file_, {.operation = "keep", .has_many_writers = true, .is_durable = false});
    file.write(text);
    file.commit();
  } catch (const DataError& failure) {
    ignore(concat("must be kept as a whole; got ", failure.message()));
  }
}

void KeptChoices::ignore(std::string_view why) {
  std::fprintf(stderr, "ringrad: %s is ignored: it %s\n", file_.c_str(), std::string(why).c_str());
  file_.clear();
}

int parse_candidates(const char* text, int otherwise) {
  if (!text) return otherwise;
  const std::string_view digits(text);
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  RINGRAD_CHECK(
      error == std::errc() && end == digits.data() + digits.size() && value >= 1 && value <= 100,
      ValueError, Where::current(),
      "RINGRAD_CUDNN_CANDIDATES: it must be a whole number in [1, 100]; got ",
      quoted_bytes(digits));
  return value;
}

}  // namespace ringrad::kernels
