#include "ringrad/parallel/comm/record/fault_injection.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <thread>
#include <utility>

#include "ringrad/parallel/comm/store/rank_environment.h"

namespace ringrad {
namespace {

using Kind = PlannedFault::Kind;
using Event = PlannedFault::Event;

constexpr std::pair<std::string_view, Kind> kKinds[] = {{"kill", Kind::kill},
                                                        {"stop", Kind::stop},
                                                        {"exit", Kind::exit},
                                                        {"abort", Kind::abort},
                                                        {"delay", Kind::delay}};

template <class Number>
Number number_in(std::string_view text, Number least, Number most, const char* what,
                 std::string_view fault, Where where) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  RINGRAD_CHECK(
      error == std::errc() && end == text.data() + text.size() && number >= least && number <= most,
      ValueError, where, "inject: ", what, " must be a number in [", least, ", ", most, "]; got \"",
      text, "\" in ", fault);
  return number;
}

std::chrono::milliseconds wait_in(std::string_view text, std::string_view fault, Where where) {
  const bool in_ms = text.ends_with("ms");
  RINGRAD_CHECK(in_ms || text.ends_with("s"), ValueError, where,
                "inject: a delay must say how long, as delay:0=50ms or delay:0=2s; got ", fault);
  text.remove_suffix(in_ms ? 2 : 1);
  const auto number = number_in<std::int64_t>(text, 0, 1'000'000, "a delay", fault, where);
  return std::chrono::milliseconds(in_ms ? number : 1000 * number);
}

// NAME[:N]
void read_point(std::string_view value, std::string_view text, PlannedFault& fault, Where where) {
  const auto colon = std::min(value.find(':'), value.size());
  const auto found = std::ranges::find(kFaultPointNames, value.substr(0, colon));
  RINGRAD_CHECK(found != std::end(kFaultPointNames), ValueError, where, "inject: a point must be ",
                kFaultPointNames[0], " or ", kFaultPointNames[1], "; got \"",
                value.substr(0, colon), "\" in ", text);
  fault.event = Event::point;
  fault.point = static_cast<FaultPoint>(found - std::begin(kFaultPointNames));
  fault.number = 1;
  if (colon < value.size())
    fault.number = number_in<std::uint64_t>(value.substr(colon + 1), 1,
                                            std::numeric_limits<std::uint64_t>::max(),
                                            "a passage of a point", text, where);
}

// What follows one '@'.
void read_condition(std::string_view condition, std::string_view text, PlannedFault& fault,
                    Where where) {
  const auto equals = std::min(condition.find('='), condition.size());
  const auto name = condition.substr(0, equals);
  const auto value = condition.substr(std::min(equals + 1, condition.size()));
  if (name == "restart") {
    fault.restart =
        number_in(value, 0, std::numeric_limits<int>::max(), "the restart", text, where);
    return;
  }
  RINGRAD_CHECK(name == "step" || name == "call" || name == "point", ValueError, where,
                "inject: after @ must stand step=N, call=N, point=NAME or restart=N; got \"",
                condition, "\" in ", text);
  RINGRAD_CHECK(!fault.number, ValueError, where,
                "inject: a fault must have one step, call or point; got two in ", text);
  if (name == "point") return read_point(value, text, fault, where);
  fault.event = name == "step" ? Event::step : Event::call;
  fault.number = number_in<std::uint64_t>(value, 1, std::numeric_limits<std::uint64_t>::max(),
                                          "a step or call", text, where);
}

PlannedFault parse_fault(std::string_view text, int world_size, Where where) {
  const auto at = std::min(text.find('@'), text.size());
  const auto head = text.substr(0, at);
  const auto colon = head.find(':');
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                 [&](const auto& k) { return k.first == head.substr(0, colon); });
  RINGRAD_CHECK(colon != head.npos && kind != std::end(kKinds), ValueError, where,
                "inject: a fault must be "
                "KIND:RANK[=VALUE][@step=N|@call=N|@point=NAME[:N]][@restart=N] with kill, "
                "stop, exit, abort or delay; got \"",
                text, '"');
  PlannedFault fault{.kind = kind->second};
  const auto equals = std::min(head.find('='), head.size());
  fault.rank = number_in(head.substr(colon + 1, equals - colon - 1), 0, world_size - 1, "the rank",
                         text, where);
  const bool has_value = equals < head.size();
  const auto value = head.substr(std::min(equals + 1, head.size()));
  if (fault.kind == Kind::delay)
    fault.wait = wait_in(value, text, where);
  else if (fault.kind == Kind::exit && has_value)
    fault.exit_code = number_in(value, 0, 255, "the exit code", text, where);
  else
    RINGRAD_CHECK(!has_value, ValueError, where,
                  "inject: only exit and delay may have a value; got ", text);

  for (auto rest = text.substr(at); !rest.empty();) {
    const auto next = std::min(rest.find('@', 1), rest.size());
    read_condition(rest.substr(1, next - 1), text, fault, where);
    rest.remove_prefix(next);
  }
  RINGRAD_CHECK(fault.kind == Kind::delay || fault.number, ValueError, where,
                "inject: all faults but delays must say when, as @step=17 or @call=40; got ", text);
  return fault;
}

std::string deed_of(const PlannedFault& fault) {
  switch (fault.kind) {
    case Kind::kill:
      return "kills itself at";
    case Kind::stop:
      return "stops itself at";
    case Kind::exit:
      return concat("exits with code ", fault.exit_code, " at");
    case Kind::abort:
      return "aborts at";
    case Kind::delay:
      break;
  }
  return concat("waits ", fault.wait.count(), " ms before");
}

std::string_view event_of(const PlannedFault& fault) {
  if (fault.event == Event::point) return name(fault.point);
  return fault.event == Event::step ? "step" : "call";
}

void say(const PlannedFault& fault) {
  const std::string line = concat("ringrad inject: rank ", fault.rank, ' ', deed_of(fault), ' ',
                                  fault.number ? "" : "every ", event_of(fault),
                                  fault.number ? concat(' ', *fault.number) : "", '\n');
  // In one piece, whatever others write. What has been said need not be heard.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

void suffer(const PlannedFault& fault) {
  switch (fault.kind) {
    case Kind::kill:
      kill(getpid(), SIGKILL);
      break;
    case Kind::stop:
      kill(getpid(), SIGSTOP);
      break;
    case Kind::exit:
      _exit(fault.exit_code);
    case Kind::abort:
      std::abort();
    case Kind::delay:
      std::this_thread::sleep_for(fault.wait);
  }
}

std::unique_ptr<FaultInjection> faults_of_environment() {
  const char* plan = std::getenv("RINGRAD_INJECT");
  if (!plan) return nullptr;
  const RankEnvironment job = rank_environment();
  if (!job.launched) return nullptr;
  // The job may have had more ranks before its restarts.
  const int most_ranks = job.restart > 0 ? std::numeric_limits<int>::max() : job.world_size;
  std::vector<PlannedFault> faults = parse_faults(plan, most_ranks);
  std::erase_if(faults, [&](const PlannedFault& fault) {
    return fault.rank != job.rank || fault.restart != job.restart;
  });
  if (faults.empty()) return nullptr;
  if (std::ranges::any_of(faults, [](const auto& fault) { return fault.event == Event::point; }))
    fault_handler = [](FaultPoint point) { FaultInjection::planned()->pass(point); };
  return std::make_unique<FaultInjection>(std::move(faults));
}

}  // namespace

std::vector<PlannedFault> parse_faults(std::string_view plan, int world_size, Where where) {
  std::vector<PlannedFault> faults;
  while (!plan.empty()) {
    const auto comma = std::min(plan.find(','), plan.size());
    faults.push_back(parse_fault(plan.substr(0, comma), world_size, where));
    plan.remove_prefix(std::min(comma + 1, plan.size()));
  }
  return faults;
}

FaultInjection* FaultInjection::planned() {
  static const std::unique_ptr<FaultInjection> injection = faults_of_environment();
  return injection.get();
}

void FaultInjection::happens(Event event, std::uint64_t number, FaultPoint point) {
  for (const PlannedFault& fault : faults_) {
    if (fault.event != event || fault.point != point || (fault.number && *fault.number != number))
      continue;
    if (fault.number || number == 1) say(fault);
    suffer(fault);
  }
}

}  // namespace ringrad
