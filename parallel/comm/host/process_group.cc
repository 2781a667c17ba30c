#include "ringrad/parallel/comm/host/process_group.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <locale>
#include <sstream>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/common/process_state.h"
#include "ringrad/parallel/comm/common/rank_names.h"
#include "ringrad/parallel/comm/common/system_limits.h"
#include "ringrad/parallel/comm/job/job_store.h"
#include "ringrad/parallel/comm/memory/program_cache.h"
#include "ringrad/parallel/comm/memory/rank_group.h"

namespace ringrad {
namespace {

// Another process: readable when it has ended.
class Process {
 public:
  Process(pid_t number, Where where)
      : number_(number), file_(static_cast<int>(syscall(SYS_pidfd_open, number, 0))) {
    RINGRAD_CHECK(file_.is_open(), CollectiveError, where, "process group: process ", number,
                  " must live on this machine; got \"", text_of_errno(errno), '"');
  }

  bool has_ended() const {
    pollfd ended{file_.number(), POLLIN, 0};
    return poll(&ended, 1, 0) == 1;
  }

  pid_t number() const { return number_; }
  int file() const { return file_.number(); }

  void kill() const { syscall(SYS_pidfd_send_signal, file(), SIGKILL, nullptr, 0); }

 private:
  pid_t number_;
  Descriptor file_;
};

// Tells with one system call, which costs the same for any number of processes, whether one of them
// has ended.
class Ends {
 public:
  explicit Ends(Where where) : file_(epoll_create1(EPOLL_CLOEXEC)) {
    check(file_.is_open(), where);
  }

  void add(const Process& process, Where where) {
    epoll_event ended{.events = EPOLLIN, .data = {}};
    check(epoll_ctl(file_.number(), EPOLL_CTL_ADD, process.file(), &ended) == 0, where);
  }

  bool has_any() const {
    epoll_event ended;
    return epoll_wait(file_.number(), &ended, 1, 0) != 0;  // an error is no proof of life
  }

 private:
  static void check(bool is_watched, Where where) {
    RINGRAD_CHECK(is_watched, CollectiveError, where, "process group: the ends of processes must ",
                  "be watched by epoll; got \"", text_of_errno(errno), '"');
  }

  Descriptor file_;
};

// What a rank tells the others in the store.
struct Card {
  pid_t process = 0;
  int world_size = 0;
  std::ptrdiff_t shared = 0;  // rank 0: where the group's state lies in its heap
  std::string heap;

  std::string text() const { return concat(process, ' ', world_size, ' ', shared, ' ', heap); }
  static Card parse(const std::string& text, Where where) {
    Card card;
    std::istringstream words(text);
    words.imbue(std::locale::classic());
    words >> card.process >> card.world_size >> card.shared >> std::ws;
    std::getline(words, card.heap);
    RINGRAD_CHECK(!words.fail(), CollectiveError, where,
                  "process group: the store must hold a rank's card; got \"", text, '"');
    return card;
  }
};

// --- Memory ---

class ProcessMemory final : public GroupMemory {
 public:
  ProcessMemory(Store& store, const std::string& name, int rank, int world_size,
                const ProcessGroupOptions& options, Where where)
      : rank_(rank),
        names_(options.rank_names),
        heap_(std::make_shared<SharedHeap>(options.heap_bytes, where)),
        ends_(where) {
    RINGRAD_CHECK(store.add(concat(name, '/', rank, "/claims"), 1, where) == 1, CollectiveError,
                  where, "process group: each rank must be one process; got a second rank ",
                  options.rank_names(rank), " of ", name);
    Card own{.process = getpid(), .world_size = world_size, .heap = heap_->name()};
    if (rank == 0) {
      std::byte* shared = heap_->allocate(shared_bytes(world_size), where);
      make_shared(shared, world_size);
      own.shared = shared - heap_->memory().begin();
    }
    store.set(concat(name, '/', rank), own.text(), where);
    cpu_set_t all;  // ranks may be kept to one processor each
    CPU_ZERO(&all);
    for (int r = 0; r < world_size; ++r) {
      const Card card =
          r == rank ? own : Card::parse(store.get(concat(name, '/', r), where), where);
      RINGRAD_CHECK(card.world_size == world_size, CollectiveError, where,
                    "process group: all ranks must be of as many; got ", card.world_size,
                    " on rank ", options.rank_names(r), " and ", world_size, " on rank ",
                    options.rank_names(rank));
      // In this order: if the heap is the one that was named, so was the process.
      processes_.emplace_back(card.process, where);
      if (r != rank) ends_.add(processes_.back(), where);
      cpu_set_t of_rank;
      if (sched_getaffinity(card.process, sizeof of_rank, &of_rank) == 0)
        CPU_OR(&all, &all, &of_rank);
      views_.push_back(r == rank ? nullptr : SharedHeap::open(card.heap, where));
      bases_.push_back(r == rank ? heap_->memory().begin() : views_.back()->begin());
      if (r == 0) shared_ = bases_[0] + card.shared;
    }
    num_processors_ = CPU_COUNT(&all);
  }

  std::byte* shared() const override { return shared_; }
  std::uintptr_t base_of(int rank) const override {
    return reinterpret_cast<std::uintptr_t>(bases_[static_cast<std::size_t>(rank)]);
  }
  bool is_visible(const void* p) const override { return heap_->memory().contains(p); }
  std::shared_ptr<std::byte> allocate(std::size_t bytes, Where where) override {
    return {heap_->allocate(bytes, where), [heap = heap_](std::byte* p) { heap->release(p); }};
  }
  bool has_died(int rank) const override {
    return rank != rank_ && processes_[static_cast<std::size_t>(rank)].has_ended();
  }
  bool has_any_died() const override { return ends_.has_any(); }
  ProcessState state_of(int rank) const override {
    return rank == rank_ ? ProcessState::running
                         : process_state(processes_[static_cast<std::size_t>(rank)].number());
  }
  void expel(int rank, const char* reason) noexcept override {
    const Process& process = processes_[static_cast<std::size_t>(rank)];
    std::fprintf(stderr, "ringrad: rank %d (process %d) %s; rank %d kills it\n", names_(rank),
                 static_cast<int>(process.number()), reason, names_(rank_));
    process.kill();
  }
  bool is_one_process() const override { return false; }
  int num_processors() const override { return num_processors_; }

 private:
  const int rank_;
  const RankNames names_;
  const std::shared_ptr<SharedHeap> heap_;
  std::byte* shared_ = nullptr;
  int num_processors_ = 0;
  std::vector<Process> processes_;                     // (world_size)
  Ends ends_;                                          // of processes_
  std::vector<std::unique_ptr<SharedMapping>> views_;  // (world_size), none of this rank
  std::vector<std::byte*> bases_;                      // (world_size)
};

}  // namespace

std::unique_ptr<Communicator> join_process_group(Store& store, const std::string& name, int rank,
                                                 int world_size, const ProcessGroupOptions& options,
                                                 Where where) {
  auto programs = make_programs(world_size, options, where);
  auto memory = std::make_shared<ProcessMemory>(store, name, rank, world_size, options, where);
  auto comm = make_shared_communicator(name, rank, world_size, std::move(memory),
                                       std::move(programs), options);
  comm->barrier(where);  // no rank goes on before all have found each other
  return comm;
}

std::unique_ptr<Communicator> join_process_group(const ProcessGroupOptions& options, Where where) {
  static std::atomic<int> num_groups = 0;
  const RankEnvironment job = rank_environment(where);
  Store store = job_store(job, options.join_timeout, where);
  return join_process_group(store, concat("group", num_groups++), job.rank, job.world_size, options,
                            where);
}

}  // namespace ringrad
