#include "ringrad/parallel/train/loose/parameter_server.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/core/transfer.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/parallel/train/common/gradient_presence.h"
#include "ringrad/parallel/train/loose/parameter_messages.h"
#include "ringrad/parallel/train/loose/worker_clocks.h"

namespace ringrad {
namespace {

// Interval of the server's messages to a waiting worker; well below any deadline.
constexpr auto kWordTime = std::chrono::milliseconds(20);

// One thread per worker communicates with it. The caller's thread alone touches the model and its
// device: it applies gradients that have come, and publishes the resulting values.
//
//     worker's thread    receives gradients, has_come = true --.     .--> sends published values,
//    caller's thread                                          '-- applies, publishes  now constant
class Server {
 public:
  Server(const nn::Module& module, nn::Optimizer& optimizer, Communicator& comm,
         std::int64_t staleness, Where where)
      : where_(where),
        comm_(comm),
        staleness_(staleness),
        optimizer_(optimizer),
        replica_("serve_parameters", module, comm, where),
        clocks_(comm.world_size() - 1) {
    report_.num_gradients.resize(static_cast<std::size_t>(comm.world_size()));
    values_ = values_on_host();
    auto lines = connect_workers(comm, where);
    for (std::size_t i = 0; i < lines.size(); ++i)
      workers_.push_back({static_cast<int>(i),
                          std::move(lines[i]),
                          gradient_presence(replica_.arenas()),
                          gradients_on_host(),
                          false,
                          {}});
  }
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  ParameterServerReport run();

 private:
  struct Worker {
    int number;  // rank - 1
    std::unique_ptr<Communicator> line;
    // Owned by the caller's thread while has_come, else by the worker's thread:
    Tensor presence;
    std::vector<Tensor> gradients;  // one per arena
    bool has_come;                  // guarded by mutex_
    std::thread thread;
  };

  std::vector<Tensor> gradients_on_host() const;
  std::vector<Tensor> values_on_host() const;

  // On the caller's thread.
  std::vector<int> due() const;
  void apply(const std::vector<int>& due, double scale);

  // On a worker's thread.
  void serve(Worker& worker) noexcept;
  bool answer(Worker& worker);
  template <class Ready>
  void wait_until(Worker& worker, std::unique_lock<std::mutex>& lock, Ready ready);
  void send_values(Worker& worker, std::unique_lock<std::mutex>& lock, std::int64_t lead);

  const Where where_;
  Communicator& comm_;
  const std::int64_t staleness_;
  nn::Optimizer& optimizer_;
  const Replica replica_;
  std::vector<Worker> workers_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  WorkerClocks clocks_;
  std::vector<Tensor> values_;  // one per arena, on the CPU; constant once published
  std::optional<std::string> failure_;
  ParameterServerReport report_;

  const Unwinding unwinding_;
};

// --- The caller's thread ---

std::vector<Tensor> Server::gradients_on_host() const {
  std::vector<Tensor> gradients;
  for (const nn::ParameterArena& arena : replica_.arenas())
    gradients.push_back(empty(arena.gradients().shape(),
                              {.dtype = arena.gradients().dtype(), .device = Device()}, where_));
  return gradients;
}

std::vector<Tensor> Server::values_on_host() const {
  std::vector<Tensor> values;
  for (const nn::ParameterArena& arena : replica_.arenas())
    values.push_back(arena.values().device().is_cpu() ? kernels::clone(arena.values(), where_)
                                                      : to_host(arena.values(), where_));
  return values;
}

// The workers whose gradients form the next step. REQUIRES: mutex_ is held
std::vector<int> Server::due() const {
  std::vector<int> come;
  for (const Worker& worker : workers_) {
    if (worker.has_come) come.push_back(worker.number);
    if (worker.has_come && staleness_ > 0) return come;
  }
  return static_cast<int>(come.size()) == clocks_.num_here() ? come : std::vector<int>();
}

// Makes one step with the sum of these workers' gradients, in this order, times `scale`.
void Server::apply(const std::vector<int>& due, double scale) {
  for (const nn::ParameterArena& arena : replica_.arenas()) arena.clear_gradients();
  replica_.settle(where_);
  for (std::size_t i = 0; i < replica_.arenas().size(); ++i) {
    const Tensor& sum = replica_.arenas()[i].gradients();
    bool is_first = true;
    for (const int number : due) {
      const Tensor& gradients = workers_[static_cast<std::size_t>(number)].gradients[i];
      if (std::exchange(is_first, false))
        kernels::copy_(sum, gradients, where_);
      else
        add_(sum, to_device(gradients, sum.device(), where_), 1, where_);
    }
  }
  for (const int number : due)
    adopt_gradients(replica_.arenas(), workers_[static_cast<std::size_t>(number)].presence);
  optimizer_.step(scale, where_);
}

// Waits without a deadline of its own: every wait of a worker's thread ends, with a request or a
// failure.
ParameterServerReport Server::run() {
  for (Worker& worker : workers_) worker.thread = std::thread([this, &worker] { serve(worker); });
  std::unique_lock lock(mutex_);
  for (;;) {
    std::vector<int> due;
    changed_.wait(
        lock, [&] { return failure_ || clocks_.num_here() == 0 || !(due = this->due()).empty(); });
    if (failure_ || clocks_.num_here() == 0) break;
    const double scale = 1.0 / clocks_.num_here();
    lock.unlock();
    apply(due, scale);
    auto values = values_on_host();
    lock.lock();
    values_ = std::move(values);
    ++report_.num_steps;
    for (const int number : due) {
      workers_[static_cast<std::size_t>(number)].has_come = false;
      clocks_.advance(number);
      ++report_.num_gradients[static_cast<std::size_t>(number) + 1];
    }
    changed_.notify_all();
  }
  if (!failure_) {  // the last values are being sent
    lock.unlock();
    for (Worker& worker : workers_) worker.thread.join();
    lock.lock();
  }
  if (failure_) throw CollectiveError(*failure_, where_);
  return std::move(report_);
}

// Ends the workers' threads, including those that wait for a worker. If no worker has failed, the
// group must learn that this rank has, before other ranks report failures.
Server::~Server() {
  std::string reason = "the server failed";
  {
    const std::lock_guard lock(mutex_);
    if (failure_)
      reason = *failure_;
    else if (unwinding_)
      comm_.abort(kEndedByException);
    failure_ = reason;
  }
  changed_.notify_all();
  for (Worker& worker : workers_)
    if (worker.thread.joinable()) worker.line->abort(reason);
  for (Worker& worker : workers_)
    if (worker.thread.joinable()) worker.thread.join();
}

// --- A worker's thread ---

void Server::serve(Worker& worker) noexcept {
  const auto fail = [&](std::string_view message) {
    const std::lock_guard lock(mutex_);
    if (!failure_)
      failure_ = concat(
          "serve_parameters: every worker must pull, push or finish in time; got a "
          "failure of rank ",
          worker.line->rank_names()(kWorker), ": ", message);
    changed_.notify_all();
  };
  try {
    while (answer(worker)) {
    }
  } catch (const Error& error) {
    fail(error.message());
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

// Returns false when the worker has finished. Gradients that it pushed before are always applied
// first.
bool Server::answer(Worker& worker) {
  const Request request = receive_message<Request>(*worker.line, kWorker, where_);
  if (request == Request::push) {
    worker.line->recv(worker.presence, kWorker, where_);
    for (const Tensor& gradients : worker.gradients) worker.line->recv(gradients, kWorker, where_);
    const std::lock_guard lock(mutex_);
    worker.has_come = true;
    changed_.notify_all();
    return true;
  }
  std::unique_lock lock(mutex_);
  wait_until(worker, lock, [&] { return !worker.has_come; });
  if (request == Request::pull) {
    wait_until(worker, lock, [&] { return clocks_.lead(worker.number) <= staleness_; });
    const std::int64_t lead = clocks_.lead(worker.number);
    auto& counts = report_.num_pulls_at_lead;
    counts.resize(std::max(counts.size(), static_cast<std::size_t>(lead) + 1));
    ++counts[static_cast<std::size_t>(lead)];
    send_values(worker, lock, lead);
    return true;
  }
  clocks_.leave(worker.number);
  changed_.notify_all();
  wait_until(worker, lock, [&] { return clocks_.num_here() == 0; });
  send_values(worker, lock, 0);
  return false;
}

template <class Ready>
void Server::wait_until(Worker& worker, std::unique_lock<std::mutex>& lock, Ready ready) {
  while (!changed_.wait_for(lock, kWordTime, [&] { return failure_ || ready(); })) {
    lock.unlock();
    send_message(*worker.line, Reply{Answer::wait, 0}, kWorker, where_);
    lock.lock();
  }
  if (failure_) throw CollectiveError(*failure_, where_);
}

void Server::send_values(Worker& worker, std::unique_lock<std::mutex>& lock, std::int64_t lead) {
  const std::vector<Tensor> values = values_;
  lock.unlock();
  send_message(*worker.line, Reply{Answer::go_on, lead}, kWorker, where_);
  for (const Tensor& of_arena : values) worker.line->send(of_arena, kWorker, where_);
}

}  // namespace

ParameterServerReport serve_parameters(const nn::Module& module, nn::Optimizer& optimizer,
                                       Communicator& comm, const ParameterServerOptions& options,
                                       Where where) {
  RINGRAD_CHECK(comm.rank() == kServer, ValueError, where,
                "serve_parameters: the rank must be 0; got ", comm.rank(), ", which is a worker");
  RINGRAD_CHECK(comm.world_size() > 1, ValueError, where,
                "serve_parameters: there must be a worker; got a group of one rank");
  RINGRAD_CHECK(options.staleness >= 0, ValueError, where,
                "serve_parameters: the staleness must not be negative; got ", options.staleness);
  return Server(module, optimizer, comm, options.staleness, where).run();
}

}  // namespace ringrad
