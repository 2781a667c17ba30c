#include "ringrad/benchmarks/collective_report.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "ringrad/benchmarks/collective_backends.h"
#include "ringrad/benchmarks/timing.h"

namespace ringrad::bench {
namespace {

struct Rates {
  double algbw, busbw;  // GB/s
};

// Launching moves nothing.
bool has_rates(const Row& row) { return std::string(row.one.backend) != "launch"; }

Rates rates(const Row& row, const Column& column) {
  const double algbw = static_cast<double>(row.one.bytes()) / column.time.us * 1e-3;
  return {algbw, row.is_limit() ? algbw : algbw * row.one.busbw_factor()};
}

// nccl-tests prints N/A for unknown values.
std::string number(const char* format, double value, bool is_known = true) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return is_known ? text.data() : "N/A";
}

std::string cells(const Row& row, bool in_place) {
  const std::optional<Column> column = row.column(in_place);
  const Rates rate = column ? rates(row, *column) : Rates{};
  std::array<char, 96> text{};
  std::snprintf(
      text.data(), text.size(), " %10s %7s %7s %7s",
      number("%.2f", column ? column->time.us : 0, column.has_value()).c_str(),
      number("%.2f", rate.algbw, column && has_rates(row)).c_str(),
      number("%.2f", rate.busbw, column && has_rates(row)).c_str(),
      number("%.0f", column ? static_cast<double>(column->wrong) : 0, column && column->wrong >= 0)
          .c_str());
  return text.data();
}

nlohmann::json to_json(const Row& row, bool in_place) {
  const std::optional<Column> column = row.column(in_place);
  if (!column) return nullptr;
  const Rates rate = rates(row, *column);
  nlohmann::json json = {{"time_us", column->time.us},
                         {"iqr_percent", column->time.iqr_percent},
                         {"busy", column->time.busy},
                         {"wrong", nullptr},
                         {"rounds_us", nlohmann::json::array()}};
  if (has_rates(row)) {
    json["algbw_gbps"] = rate.algbw;
    json["busbw_gbps"] = rate.busbw;
  }
  if (column->wrong >= 0) json["wrong"] = column->wrong;
  for (const Measured& round : row.rounds)
    json["rounds_us"].push_back(round.column(in_place).time.us);
  if (row.rounds.front().is_simulated) json["wall_us"] = column->wall_us;
  return json;
}

}  // namespace

std::optional<Column> Row::column(bool in_place) const {
  std::vector<double> quiet, all, walls, spreads;
  Column result;
  result.wrong = 0;
  for (const Measured& round : rounds) {
    const Column& column = round.column(in_place);
    if (!column.has_time) return std::nullopt;
    all.push_back(column.time.us);
    if (!column.time.busy) quiet.push_back(column.time.us);
    walls.push_back(column.wall_us);
    spreads.push_back(column.time.iqr_percent);
    result.wrong = column.wrong < 0 ? -1 : result.wrong + column.wrong;
  }
  if (all.empty()) return std::nullopt;
  result.has_time = true;
  result.wall_us = median(walls);
  result.time = {.us = median(quiet.empty() ? all : quiet),
                 .iqr_percent = median(spreads),
                 .busy = quiet.empty()};
  return result;
}

Column Row::best_column() const {
  const std::optional<Column> in_place = column(true);
  return in_place ? *in_place : column(false).value_or(Column{});
}

std::int64_t Row::wrong() const {
  std::int64_t sum = 0;
  for (const bool in_place : {false, true})
    if (const auto one_column = column(in_place))
      sum += std::max<std::int64_t>(one_column->wrong, 0);
  return sum;
}

std::string Row::label() const {
  const std::string algorithm = one.algorithm;
  return algorithm == "default" ? one.backend : std::string(one.backend) + "/" + algorithm;
}

bool Row::is_limit() const { return backend_named(one.backend).kind == Backend::Kind::limit; }

// --- The table ---

void print_title() {
  std::printf("# %73s %34s %34s\n", "", "out-of-place           ", "in-place              ");
  std::printf("# %12s %12s %8s %7s %5s %5s %-34s", "size", "count", "type", "redop", "root",
              "ranks", "backend/algorithm");
  for (int i = 0; i < 2; ++i) std::printf(" %10s %7s %7s %7s", "time", "algbw", "busbw", "#wrong");
  std::printf("\n# %12s %12s %58s", "(B)", "(elements)", "");
  for (int i = 0; i < 2; ++i)
    std::printf("       %10s %7s %7s %1s", "(us)", "(GB/s)", "(GB/s)", "");
  std::printf("\n");
}

void print_row(const Row& row) {
  const CollectiveCase& one = row.one;
  const std::string root = is_rooted(one.routine) ? std::to_string(one.root) : "-1";
  std::printf("  %12lld %12lld %8s %7s %5s %5d %-34s%s%s", static_cast<long long>(one.bytes()),
              static_cast<long long>(one.count), std::string(name(one.dtype)).c_str(),
              is_reduction(one.routine) ? name(one.op) : "none", root.c_str(), one.ranks,
              row.label().c_str(), cells(row, false).c_str(), cells(row, true).c_str());
  const Column column = row.best_column();
  if (row.rounds.front().is_simulated)
    std::printf("  simulated, %.3f s on this machine", column.wall_us * 1e-6);
  std::printf("%s\n", column.time.busy ? "  busy" : "");
  std::fflush(stdout);
}

nlohmann::json to_json(const Row& row) {
  const CollectiveCase& one = row.one;
  const Measured& first = row.rounds.front();
  nlohmann::json json = {{"collective", name(one.routine)},
                         {"backend", one.backend},
                         {"algorithm", one.algorithm},
                         {"ranks", one.ranks},
                         {"dtype", std::string(name(one.dtype))},
                         {"op", is_reduction(one.routine) ? name(one.op) : "none"},
                         {"root", is_rooted(one.routine) ? one.root : -1},
                         {"size", one.bytes()},
                         {"count", one.count},
                         {"simulated", first.is_simulated},
                         {"out_of_place", to_json(row, false)},
                         {"in_place", to_json(row, true)}};
  if (first.device[0] != '\0') {
    json["gpu"] = first.device.data();
    for (const auto& [transfers, value] : device_transfers())
      if (value == one.transfers) json["transfers"] = transfers;
  }
  return json;
}

// --- Side by side ---

namespace {

// The rows of one size, by backend.
class Side {
 public:
  explicit Side(const std::vector<const Row*>& rows) : rows_(rows) {}

  /// The first requested algorithm of the backend; for Gloo, the fastest.
  const Row* find(const std::string& backend) const {
    const Row* found = nullptr;
    for (const Row* row : rows_) {
      if (row->one.backend != backend) continue;
      if (!found) found = row;
      if (backend == "gloo_itself" && row->best_column().time.us < found->best_column().time.us)
        found = row;
    }
    return found;
  }

 private:
  const std::vector<const Row*>& rows_;
};

const Timing& time_in(const Measured& round) { return round.column(round.in_place.has_time).time; }

// The median over the rounds of the time of a / the time of b.
double ratio(const Row& a, const Row& b) {
  std::vector<double> all, quiet;
  for (std::size_t i = 0; i < a.rounds.size(); ++i) {
    const Timing &of_a = time_in(a.rounds[i]), &of_b = time_in(b.rounds[i]);
    all.push_back(of_a.us / of_b.us);
    if (!of_a.busy && !of_b.busy) quiet.push_back(all.back());
  }
  return median(quiet.empty() ? all : quiet);
}

constexpr std::int64_t kKiB = 1 << 10, kMiB = 1 << 20;

std::vector<Check> cpu_checks(const CollectiveCase& one, const Side& side) {
  std::vector<Check> checks;
  const Row* ours = side.find("processes");
  if (!ours) return checks;
  const std::int64_t bytes = one.bytes();
  const Row *openmpi = side.find("openmpi"), *gloo = side.find("gloo_itself");
  const Row* best = openmpi;
  if (gloo && (!best || gloo->best_column().time.us < best->best_column().time.us)) best = gloo;
  if (best)
    checks.push_back({"best peer/ours", ratio(*best, *ours), bytes < 4 * kKiB ? 1 / 1.15 : 1});
  if (openmpi) {
    Check check{"openmpi/ours", ratio(*openmpi, *ours)};
    if ((one.ranks == 2 && bytes >= 64 * kKiB) || (one.ranks == 4 && bytes >= kMiB))
      check.goal = 2.5;
    checks.push_back(check);
  }
  if (const Row* threads = side.find("threads"))
    checks.push_back({"processes/threads", ratio(*ours, *threads), 1});
  if (const Row* memcpy = side.find("memcpy"); memcpy && one.routine == Routine::all_reduce) {
    Check check{"memcpy/ours", ratio(*memcpy, *ours)};
    if (one.ranks == 2 && bytes == 64 * kMiB) check.goal = 0.7;
    checks.push_back(check);
  }
  return checks;
}

// The checks of a ring of ranks on one GPU.
std::vector<Check> gpu_checks(const CollectiveCase& one, const std::vector<const Row*>& rows,
                              const Side& side) {
  std::vector<Check> checks;
  const Row* copy = side.find("device_copy");
  for (const Row* row : rows) {
    if (!copy || std::string(row->one.backend) != "gpus" ||
        std::string(row->one.algorithm) != "ring")
      continue;
    const double per_step = row->one.transfers == DeviceTransfers::copy_engines ? 5 + 2 : 3 + 2;
    const double traffic = per_step * (one.ranks - 1) / one.ranks;  // a copy's traffic is 2
    Check check{"device copies/ring", traffic / 2 * ratio(*copy, *row)};
    if (one.ranks == 8 && one.bytes() == 256 * kMiB && !row->rounds.front().is_simulated)
      check.goal = 0.8;
    checks.push_back(check);
  }
  return checks;
}

SizeSummary summarize_size(const std::vector<const Row*>& rows) {
  SizeSummary summary{rows.front()->one, {}, {}};
  const Side side(rows);
  for (const Row* row : rows) {
    const bool is_gloo = std::string(row->one.backend) == "gloo_itself";
    if (is_gloo && row != side.find("gloo_itself")) continue;
    std::string label = is_gloo ? "gloo_itself" : row->label();
    if (row->rounds.front().is_simulated) label += "(simulated)";
    const Timing time = row->best_column().time;
    summary.times.emplace_back(label, SizeSummary::Time{time.us, time.busy});
  }
  summary.checks = cpu_checks(summary.one, side);
  for (Check& check : gpu_checks(summary.one, rows, side)) summary.checks.push_back(check);
  if (summary.one.routine != Routine::all_reduce)
    for (Check& check : summary.checks) check.goal.reset();
  return summary;
}

template <class T>
void add_new(std::vector<T>& values, const T& value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

}  // namespace

std::vector<SizeSummary> summarize(const std::vector<Row>& rows) {
  using Key = std::tuple<Routine, int, std::int64_t>;
  std::vector<Key> keys;
  std::map<Key, std::vector<const Row*>> by_size;
  for (const Row& row : rows) {
    const Key key(row.one.routine, row.one.ranks, row.one.bytes());
    add_new(keys, key);
    by_size[key].push_back(&row);
  }
  std::vector<SizeSummary> summaries;
  for (const Key& key : keys) summaries.push_back(summarize_size(by_size[key]));
  return summaries;
}

void print_summaries(const std::vector<SizeSummary>& summaries) {
  std::vector<std::string> times, checks;
  for (const SizeSummary& summary : summaries) {
    for (const auto& [label, _] : summary.times) add_new(times, label);
    for (const Check& check : summary.checks) add_new(checks, check.name);
  }
  const auto width = [](const std::string& label) {
    return std::max<int>(10, static_cast<int>(label.size()));
  };
  std::printf("\n# times in us, then ratios; larger ratios are better\n# %-14s %5s %12s",
              "collective", "ranks", "size (B)");
  for (const auto& labels : {times, checks})
    for (const std::string& label : labels) std::printf(" %*s", width(label), label.c_str());
  std::printf("\n");
  for (const SizeSummary& summary : summaries) {
    std::printf("  %-14s %5d %12lld", name(summary.one.routine), summary.one.ranks,
                static_cast<long long>(summary.one.bytes()));
    for (const std::string& label : times) {
      const auto found = std::find_if(summary.times.begin(), summary.times.end(),
                                      [&](const auto& time) { return time.first == label; });
      const bool has = found != summary.times.end();
      std::printf(
          " %*s", width(label),
          has ? number(found->second.is_busy ? "%.2f~" : "%.2f", found->second.us).c_str() : "");
    }
    std::string missed;
    bool has_goal = false;
    for (const std::string& label : checks) {
      const auto check = std::find_if(summary.checks.begin(), summary.checks.end(),
                                      [&](const Check& one) { return one.name == label; });
      const bool has = check != summary.checks.end();
      std::printf(" %*s", width(label), has ? number("%.2fx", check->ratio).c_str() : "");
      if (!has || !check->goal) continue;
      has_goal = true;
      if (check->is_missed()) missed += " " + label + number(" (goal %.2fx)", *check->goal);
    }
    std::printf("%s%s\n", !has_goal ? "" : missed.empty() ? "  PASS" : "  MISS", missed.c_str());
  }
}

nlohmann::json to_json(const SizeSummary& summary) {
  nlohmann::json json = {{"collective", name(summary.one.routine)},
                         {"ranks", summary.one.ranks},
                         {"size", summary.one.bytes()},
                         {"checks", nlohmann::json::array()}};
  for (const auto& [label, time] : summary.times) json["times_us"][label] = time.us;
  for (const Check& check : summary.checks)
    json["checks"].push_back(
        {{"name", check.name},
         {"ratio", check.ratio},
         {"goal", check.goal ? nlohmann::json(*check.goal) : nullptr},
         {"reached", check.goal ? nlohmann::json(!check.is_missed()) : nullptr}});
  return json;
}

}  // namespace ringrad::bench
