#include "ringrad/parallel/comm/communication_stream.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/trace.h"
#include "ringrad/parallel/comm/common/call_purpose.h"

namespace ringrad {

using Clock = TraceClock;

class CommunicationStream::Started : public Work::State {
 public:
  /// Waits as wait() does, but leaves the error of a task that failed to another thread.
  virtual void finish() const = 0;
};

// What all streams of a communicator are on a device. Each has times of its own.
class CommunicationStream::Implementation {
 public:
  virtual ~Implementation() = default;
  virtual std::shared_ptr<const Started> run(std::string name, Task task,
                                             std::shared_ptr<Times> times, Where where) = 0;
  virtual Times take(Times& times) = 0;
};

namespace {

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Returns how long it took.
double run_traced(const std::string& name, const CommunicationStream::Task& task,
                  Communicator& comm) {
  const auto begin = Clock::now();
  task(comm);
  const auto end = Clock::now();
  if (is_tracing()) trace_span(name, "communication", begin, end);
  return seconds(end - begin);
}

// --- On the CPU: a thread ---

class ProgressThread final : public CommunicationStream::Implementation {
 public:
  explicit ProgressThread(Communicator& comm)
      : comm_(comm), shared_(std::make_shared<Shared>()), thread_([this] { work(); }) {}

  ~ProgressThread() override {
    {
      const std::lock_guard lock(shared_->mutex);
      ends_ = true;
    }
    shared_->changed.notify_all();
    thread_.join();
  }

  std::shared_ptr<const CommunicationStream::Started> run(
      std::string name, CommunicationStream::Task task,
      std::shared_ptr<CommunicationStream::Times> times, Where where) override {
    shared_->check_own_process(where);
    auto job =
        std::make_shared<Job>(shared_, std::move(name), std::move(task), std::move(times), where);
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->failed)
        job->end(shared_->failed);
      else
        jobs_.push_back(job);
    }
    shared_->changed.notify_all();
    return job;
  }

  CommunicationStream::Times take(CommunicationStream::Times& times) override {
    shared_->check_own_process(Where::current());
    const std::lock_guard lock(shared_->mutex);
    return std::exchange(times, {});
  }

 private:
  // What works share with the stream, which they may outlive.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::exception_ptr failed;  // until a thread has waited for it
    const OwnProcess in_own_process;

    // A forked child has a copy without the thread; the mutex may be locked for ever.
    void check_own_process(Where where) const {
      RINGRAD_CHECK(in_own_process, CollectiveError, where,
                    "communication stream: it serves the process that made it; got a call in a "
                    "forked child");
    }
  };

  struct Job final : CommunicationStream::Started {
    Job(std::shared_ptr<Shared> all, std::string what, CommunicationStream::Task how,
        std::shared_ptr<CommunicationStream::Times> takes, Where from)
        : shared(std::move(all)),
          name(std::move(what)),
          task(std::move(how)),
          times(std::move(takes)),
          where(from) {}

    void finish() const override { finish_locked(); }
    void wait() const override {
      const std::unique_lock lock = finish_locked();
      if (!error) return;
      if (shared->failed == error) shared->failed = nullptr;  // not a later one
      std::rethrow_exception(error);
    }
    std::unique_lock<std::mutex> finish_locked() const {
      shared->check_own_process(where);
      std::unique_lock lock(shared->mutex);
      if (!done) {
        const TraceSpan span("wait for communication", "wait");
        const auto begin = Clock::now();
        shared->changed.wait(lock, [&] { return done; });
        times->waited_s += seconds(Clock::now() - begin);
      }
      return lock;
    }
    bool is_done() const override {
      shared->check_own_process(where);
      const std::lock_guard lock(shared->mutex);
      return done;
    }
    // The task's captures are freed before the end is announced.
    void end(std::exception_ptr with) {
      task = nullptr;
      error = std::move(with);
      done = true;
    }

    const std::shared_ptr<Shared> shared;
    const std::string name;
    CommunicationStream::Task task;
    const std::shared_ptr<CommunicationStream::Times> times;
    const Where where;  // its run()
    bool done = false;
    std::exception_ptr error;
  };

  void work() {
    omp_set_num_threads(1);
    const TraceThread name(comm_.rank(), "communication");
    std::unique_lock lock(shared_->mutex);
    for (;;) {
      shared_->changed.wait(lock, [&] { return ends_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const std::shared_ptr<Job> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      double worked_s = 0;
      std::exception_ptr error;
      try {
        worked_s = run_traced(job->name, job->task, comm_);
      } catch (...) {
        error = std::current_exception();
      }
      job->task = nullptr;  // outside of the lock
      lock.lock();
      job->times->work_s += worked_s;
      job->end(error);
      if (error) {
        shared_->failed = error;
        for (const auto& later : jobs_) later->end(error);
        jobs_.clear();
      }
      shared_->changed.notify_all();
    }
  }

  Communicator& comm_;
  const std::shared_ptr<Shared> shared_;
  std::deque<std::shared_ptr<Job>> jobs_;
  bool ends_ = false;
  std::thread thread_;
};

// --- On a GPU: a stream ---

class DeviceStream final : public CommunicationStream::Implementation {
 public:
  DeviceStream(Communicator& comm, Device device) : comm_(comm), stream_(device) {}

  // Memory freed from now on may be in use by work that no thread has waited for, as an exception
  // came between.
  ~DeviceStream() override {
    try {
      const DeviceGuard device(stream_.device());
      Event(stream_).block(current_stream(stream_.device()));
    } catch (const std::exception&) {  // the device has failed; its next user gets the error
    }
  }

  std::shared_ptr<const CommunicationStream::Started> run(
      std::string name, CommunicationStream::Task task,
      std::shared_ptr<CommunicationStream::Times> times, Where where) override {
    const DeviceGuard device(stream_.device(), where);
    add_finished();
    Event(current_stream(stream_.device())).block(stream_, where);
    const StreamGuard guard(stream_);
    const Event begin(stream_, true, where);
    run_traced(name, task, comm_);
    auto queued = std::make_shared<Queued>(stream_.device(), begin, Event(stream_, true, where),
                                           std::move(times));
    queued_.push_back(queued);
    return queued;
  }

  CommunicationStream::Times take(CommunicationStream::Times& times) override {
    stream_.synchronize();
    add_finished();
    return std::exchange(times, {});
  }

 private:
  struct Queued final : CommunicationStream::Started {
    Queued(Device on, Event from, Event to, std::shared_ptr<CommunicationStream::Times> takes)
        : device(on), begin(std::move(from)), end(std::move(to)), times(std::move(takes)) {}

    void wait() const override {
      const DeviceGuard guard(device);
      const Stream stream = current_stream(device);
      if (!waited_from) waited_from.emplace(stream, true);
      end.block(stream);
    }
    void finish() const override { wait(); }
    bool is_done() const override { return end.is_done(); }

    const Device device;
    const Event begin, end;
    const std::shared_ptr<CommunicationStream::Times> times;
    mutable std::optional<Event>
        waited_from;  // where the stream that waits would else have gone on
  };

  // Adds up the times of finished work, without waiting.
  void add_finished() {
    while (!queued_.empty()) {
      const Queued& first = *queued_.front();
      if (!first.is_done() || (first.waited_from && !first.waited_from->is_done())) return;
      first.times->work_s += Event::milliseconds(first.begin, first.end) / 1e3;
      if (first.waited_from)
        first.times->waited_s +=
            std::max(0.0, Event::milliseconds(*first.waited_from, first.end) / 1e3);
      queued_.pop_front();
    }
  }

  Communicator& comm_;
  const Stream stream_;
  std::deque<std::shared_ptr<const Queued>> queued_;
};

// The one that serves the communicator on this device.
std::shared_ptr<CommunicationStream::Implementation> shared_stream(Communicator& comm,
                                                                   Device device) {
  struct Known {
    const Communicator* comm;
    Device device;
    std::weak_ptr<CommunicationStream::Implementation> stream;
  };
  static std::mutex mutex;
  static std::vector<Known> all;
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const Known& known) { return known.stream.expired(); });
  for (const Known& known : all)
    if (known.comm == &comm && known.device == device)
      if (auto stream = known.stream.lock()) return stream;
  std::shared_ptr<CommunicationStream::Implementation> stream;
  if (device.is_cpu())
    stream.reset(new ProgressThread(comm), DeleteInOwnProcess<ProgressThread>());
  else
    stream.reset(new DeviceStream(comm, device), DeleteInOwnProcess<DeviceStream>());
  all.push_back({&comm, device, stream});
  return stream;
}

}  // namespace

CommunicationStream::CommunicationStream(Communicator& comm, Device device, bool overlaps)
    : comm_(comm), implementation_(overlaps ? shared_stream(comm, device) : nullptr) {}

CommunicationStream::~CommunicationStream() {
  if (!latest_ || !in_own_process_) return;
  if (unwinding_ && is_at_work()) comm_.abort(kEndedByException);
  try {
    latest_->finish();
  } catch (const std::exception&) {  // the device has failed; its next user gets the error
  }
}

bool CommunicationStream::is_at_work() const noexcept {
  try {
    return !latest_->is_done();
  } catch (const std::exception&) {
    return true;  // the device has failed, and will not be done
  }
}

Work CommunicationStream::run(std::string name, Task call, Where where) {
  Task task = [purpose = PurposeScope::current(), call = std::move(call)](Communicator& comm) {
    const PurposeScope scope(purpose);
    call(comm);
  };
  if (implementation_)
    return Work(latest_ = implementation_->run(std::move(name), std::move(task), times_, where));
  const double taken_s = run_traced(name, task, comm_);
  times_->work_s += taken_s;
  times_->waited_s += taken_s;
  return {};
}

CommunicationStream::Times CommunicationStream::take_times() {
  return implementation_ ? implementation_->take(*times_) : std::exchange(*times_, {});
}

}  // namespace ringrad
