#include "ringrad/parallel/comm/host/logical_ranks.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/blocks/block_communicator.h"
#include "ringrad/parallel/comm/common/culprit_report.h"
#include "ringrad/parallel/comm/common/unwinding.h"
#include "ringrad/parallel/comm/gather_values.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/host/thread_communicator.h"

namespace ringrad {
namespace {

struct Failure {
  int culprit = -1;  // -1: none yet
  std::string text;
  bool is_known_elsewhere = false;  // other processes find it by themselves
};

// Failures travel between physical ranks as the reason of an abort.
constexpr std::string_view kMark = "logical rank ", kAfter = ": ";

std::string as_reason(const Failure& failure) {
  return concat(kMark, failure.culprit, kAfter, failure.text);
}
Failure from_message(const std::string& message, const Failure& otherwise) {
  const std::size_t mark = message.find(kMark);
  if (mark == message.npos) return otherwise;
  char* end = nullptr;
  const long culprit = std::strtol(message.c_str() + mark + kMark.size(), &end, 10);
  const std::string_view rest(end);
  if (!rest.starts_with(kAfter)) return otherwise;  // not a message of ours
  return {static_cast<int>(culprit), std::string(rest.substr(kAfter.size()))};
}

// What the logical ranks of one physical rank have together.
class Site {
 public:
  explicit Site(std::unique_ptr<Communicator> physical) : physical_(std::move(physical)) {}

  /// The group of physical ranks: one thread's, but for abort() and failed_rank().
  Communicator& physical() const { return *physical_; }

  Failure failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  /// The first one counts.
  Failure fail(const Failure& failure) {
    const std::lock_guard lock(mutex_);
    if (failure_.culprit < 0) failure_ = failure;
    return failure_;
  }

  /// Waits for what another process does about a failure that all know: one that ended before it
  /// would be the first to fail. For the thread that has the physical group.
  void wait_for_abort() noexcept {
    if (has_waited_.exchange(true)) return;
    try {
      physical_->barrier();
    } catch (const Error&) {  // as it must be, unless nobody is to blame
    }
  }

  /// What one thread makes and the others take, between two calls that all make.
  std::map<int, std::shared_ptr<Site>> parts;

 private:
  const std::unique_ptr<Communicator> physical_;
  mutable std::mutex mutex_;
  Failure failure_;  // guarded by mutex_
  std::atomic<bool> has_waited_{false};
};

class LogicalCommunicator final : public BlockCommunicator {
 public:
  LogicalCommunicator(std::string group, const RankBlocks& blocks,
                      std::unique_ptr<Communicator> local, std::shared_ptr<Site> site,
                      RankNames rank_names)
      : BlockCommunicator(blocks.rank, blocks.world_size(), std::move(group),
                          std::move(rank_names)),
        blocks_(blocks),
        site_(std::move(site)),
        local_(std::move(local)) {}

  ~LogicalCommunicator() override {
    if (unwinding_) abort(kEndedByException);
  }

  Tensor empty_shared(const Shape& shape, const Options& options, Where where) override {
    return local_->empty_shared(shape, options, where);
  }
  int failed_rank() const noexcept override { return site_->failure().culprit; }

 protected:
  void do_abort(const std::string& reason) noexcept override { fail({rank(), reason}); }
  BlockCollectives by_block() const override {
    return {blocks_, *local_, leads() ? &site_->physical() : nullptr, SumOrder::tree};
  }
  void perform(const CollectiveCall& call, Where where, const std::function<void()>& body) override;
  void refuse(const Operation& operation, int culprit, const std::string& reason) override;
  void do_send(const Tensor&, int, Where where) override { refuse_message("send", where); }
  void do_recv(const Tensor&, int, Where where) override { refuse_message("recv", where); }
  std::unique_ptr<Communicator> do_split(const std::vector<int>& ranks, const std::string& name,
                                         Where where) override;

 private:
  bool reaches(const Device&) const override { return true; }
  bool leads() const { return blocks_.own.local == 0; }
  const std::vector<int>& own_block() const { return blocks_.ranks[blocks_.own.block]; }
  [[noreturn]] static void refuse_message(const char* operation, Where where) {
    throw CollectiveError(concat(operation, ": logical ranks have collectives only; got a message"),
                          where);
  }

  template <class Body>
  void guarded(const Operation& operation, Body body);
  Failure fail(const Failure& failure) noexcept;
  Failure found_in(const CollectiveError& error) const;
  [[noreturn]] void throw_broken(const Operation& operation, const Failure& failure) const;

  const RankBlocks blocks_;
  const std::shared_ptr<Site> site_;
  const std::unique_ptr<Communicator> local_;
  std::uint64_t num_calls_ = 0;
  const Unwinding unwinding_;
};

// --- One call ---

void LogicalCommunicator::perform(const CollectiveCall& call, Where where,
                                  const std::function<void()>& body) {
  const Operation operation{call, rank(), ++num_calls_, where, {}, &rank_names()};
  guarded(operation, [&] { compare(operation); });
  guarded(operation, body);
}

template <class Body>
void LogicalCommunicator::guarded(const Operation& operation, Body body) {
  if (const Failure failure = site_->failure(); failure.culprit >= 0)
    throw_broken(operation, failure);
  try {
    body();
  } catch (const CollectiveError& error) {
    throw_broken(operation, fail(found_in(error)));
  }
}

// --- Failures ---

// Every process has all calls to compare. An abort blames the process that makes it, so only that
// of the culprit does.
void LogicalCommunicator::refuse(const Operation& operation, int culprit,
                                 const std::string& reason) {
  const std::vector<int>& here = own_block();
  const bool is_here = std::find(here.begin(), here.end(), culprit) != here.end();
  if (culprit == kNobody) report_culprit(kNobody);
  fail({culprit == kNobody ? rank() : culprit, reason, /*is_known_elsewhere=*/!is_here});
  throw CollectiveError(concat(operation, ": ", reason), operation.where);
}

// Tells all ranks, here and elsewhere.
Failure LogicalCommunicator::fail(const Failure& failure) noexcept {
  const Failure first = site_->fail(failure);
  local_->abort(first.text);
  if (!first.is_known_elsewhere)
    site_->physical().abort(as_reason(first));
  else if (leads())
    site_->wait_for_abort();
  return first;
}

// Whose failure it was that a part of the group has thrown.
Failure LogicalCommunicator::found_in(const CollectiveError& error) const {
  const std::string message(error.message());
  if (const int physical = site_->physical().failed_rank(); physical >= 0)
    return from_message(message, {blocks_.ranks[static_cast<std::size_t>(physical)][0],
                                  "among physical ranks, " + message});
  const auto local = static_cast<std::size_t>(std::max(local_->failed_rank(), 0));
  return {own_block()[local], message};
}

void LogicalCommunicator::throw_broken(const Operation& operation, const Failure& failure) const {
  throw_broken_group(operation, rank_names()(failure.culprit), failure.text);
}

// --- Groups of parts ---

// A part has its own group of the physical ranks that it lies on. The thread that may call those
// makes the groups of all parts, in one order everywhere.
std::unique_ptr<Communicator> LogicalCommunicator::do_split(const std::vector<int>& ranks,
                                                            const std::string& name, Where where) {
  const int head = ranks.empty() ? -1 : ranks[0];
  const auto own = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin());
  std::unique_ptr<Communicator> local;
  std::shared_ptr<Site> site;
  guarded({{}, rank(), num_calls_, where, {}, &rank_names()}, [&] {
    // The first rank of each rank's part, -1 for none.
    const std::vector<int> heads = gather_values(by_block(), world_size(), head, where);
    for (int part = 0; leads() && part < world_size(); ++part) {
      if (std::find(heads.begin(), heads.end(), part) == heads.end()) continue;
      const bool is_here = std::any_of(own_block().begin(), own_block().end(), [&](int r) {
        return heads[static_cast<std::size_t>(r)] == part;
      });
      auto physical = site_->physical().split(is_here ? 0 : -1, 0, where);
      if (is_here) site_->parts[part] = std::make_shared<Site>(std::move(physical));
    }
    local = local_->split(head, own, where);
    if (local) site = site_->parts.at(head);
    local_->barrier(where);
    if (leads()) site_->parts.clear();
  });
  if (!local) return nullptr;
  std::vector<std::vector<int>> blocks;  // of new ranks
  for (std::size_t block = 0; block < blocks_.ranks.size(); ++block) {
    std::vector<int> here;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      if (blocks_.place_of(ranks[i]).block == block) here.push_back(static_cast<int>(i));
    if (!here.empty()) blocks.push_back(std::move(here));
  }
  return std::make_unique<LogicalCommunicator>(name, RankBlocks(std::move(blocks), own),
                                               std::move(local), std::move(site),
                                               rank_names().of(ranks));
}

// --- All of them ---

void check_same_number(Communicator& comm, int num_logical, Where where) {
  const std::vector<int> all = gather_values(comm, num_logical, where);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    RINGRAD_CHECK(all[rank] == all[0], CollectiveError, where,
                  "logical ranks: all ranks must ask for as many; got ", all[0], " on rank ",
                  comm.rank_names()(0), " and ", all[rank], " on rank ",
                  comm.rank_names()(static_cast<int>(rank)));
}

}  // namespace

void run_logical_ranks(Communicator& comm, int num_logical,
                       const std::function<void(Communicator&)>& body,
                       const LogicalRanksOptions& options, Where where) {
  check_same_number(comm, num_logical, where);
  const int num_physical = comm.world_size(), share = num_logical / num_physical;
  RINGRAD_CHECK(num_logical >= 1 && num_logical <= kMaxRanks && num_logical % num_physical == 0,
                ValueError, where, "logical ranks: there must be a multiple of ", num_physical,
                " in [1, ", kMaxRanks, "]; got ", num_logical);
  RINGRAD_CHECK(options.num_threads > 0, ValueError, where,
                "logical ranks: num_threads must be positive; got ", options.num_threads);
  std::vector<std::vector<int>> blocks(static_cast<std::size_t>(num_physical),
                                       std::vector<int>(static_cast<std::size_t>(share)));
  for (int r = 0; r < num_physical; ++r)
    std::iota(blocks[static_cast<std::size_t>(r)].begin(),
              blocks[static_cast<std::size_t>(r)].end(), r * share);

  auto locals =
      make_thread_group(share,
                        {.deadline = options.deadline,
                         .order = SumOrder::tree,
                         .rank_names = RankNames(blocks[static_cast<std::size_t>(comm.rank())])},
                        where);
  auto site = std::make_shared<Site>(comm.split(0, 0, where));
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int i = 0; i < share; ++i)
    ranks.push_back(std::make_unique<LogicalCommunicator>(
        comm.group() + ".logical", RankBlocks(blocks, comm.rank() * share + i),
        std::move(locals[static_cast<std::size_t>(i)]), site, RankNames()));
  const Device device = default_device();
  try {
    run_on_threads(
        std::move(ranks), options.num_threads,
        [&](Communicator& logical) {
          const DefaultDeviceGuard guard(device);
          body(logical);
        },
        where);
  } catch (...) {
    site.reset();  // now, since the physical group would blame this process if the stack unwound
    throw;
  }
}

}  // namespace ringrad
