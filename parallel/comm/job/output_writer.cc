#include "ringrad/parallel/comm/job/output_writer.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "ringrad/parallel/comm/common/system_limits.h"

namespace ringrad {
namespace {

// Short texts are written together, up to this size. No single write is longer.
constexpr std::size_t kMostAtOnce = 64 << 10;

struct Text {
  std::shared_ptr<const OutputFile> file;
  std::string bytes;
};

// Returns 0 or an errno, and how much was written.
std::pair<int, std::size_t> write_some(int file, const char* bytes, std::size_t size) {
  const ssize_t count = write(file, bytes, std::min(size, kMostAtOnce));
  if (count >= 0) return {0, static_cast<std::size_t>(count)};
  if (errno == EINTR) return {0, 0};
  if (errno != EAGAIN && errno != EWOULDBLOCK) return {errno, 0};
  // Another process that shares the file has made it non-blocking.
  pollfd writable{file, POLLOUT, 0};
  poll(&writable, 1, -1);
  return {0, 0};
}

// True if nobody is left to read: a pipe's reader has gone, or a terminal has.
bool has_no_reader(int file, int error_number) {
  struct stat status {};
  return error_number == EPIPE ||
         (error_number == EIO && fstat(file, &status) == 0 && S_ISCHR(status.st_mode));
}

}  // namespace

// Owned by the writer and its thread together: the thread may be blocked for longer than the writer
// lives.
struct OutputWriter::State {
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<Text> queue;
  std::size_t num_unwritten = 0;
  std::set<std::shared_ptr<const OutputFile>> failed;
  std::optional<std::string> error;
  bool is_ending = false;

  void run() {
    std::unique_lock lock(mutex);
    for (std::size_t num_written = 0;;) {
      changed.wait(lock, [&] { return is_ending || !queue.empty(); });
      if (is_ending) return;
      const Text& text = queue.front();  // put() leaves the front of the queue alone
      int error_number = 0;
      std::size_t count = text.bytes.size() - num_written;
      if (!failed.contains(text.file)) {
        lock.unlock();
        std::tie(error_number, count) =
            write_some(text.file->descriptor.number(), text.bytes.data() + num_written, count);
        lock.lock();
      }
      if (error_number != 0) fail(text.file, error_number);
      num_written += count;
      num_unwritten -= count;
      if (num_written < text.bytes.size()) continue;
      queue.pop_front();
      num_written = 0;
    }
  }

  void fail(const std::shared_ptr<const OutputFile>& file, int error_number) {
    const bool is_first = failed.empty();
    failed.insert(file);
    if (is_first && !has_no_reader(file->descriptor.number(), error_number))
      error = concat(file->name, ": ", text_of_errno(error_number));
  }
};

// The thread takes no signals: they are for the launcher, and a broken pipe is an error of write().
OutputWriter::OutputWriter(Where where) : state_(std::make_shared<State>()) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::optional<std::string> error;
  try {
    std::thread([state = state_] { state->run(); }).detach();
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  RINGRAD_CHECK(!error, Error, where, "launch: a thread must be made; got ", *error);
}

OutputWriter::~OutputWriter() {
  const std::lock_guard guard(state_->mutex);
  state_->is_ending = true;
  state_->changed.notify_all();
}

void OutputWriter::put(std::shared_ptr<const OutputFile> file, std::string text) {
  if (text.empty()) return;
  const std::lock_guard guard(state_->mutex);
  std::deque<Text>& queue = state_->queue;
  state_->num_unwritten += text.size();
  // The front may be being written.
  if (queue.size() > 1 && queue.back().file == file &&
      queue.back().bytes.size() + text.size() <= kMostAtOnce)
    queue.back().bytes += text;
  else
    queue.push_back({std::move(file), std::move(text)});
  state_->changed.notify_all();
}

std::size_t OutputWriter::num_unwritten() const {
  const std::lock_guard guard(state_->mutex);
  return state_->num_unwritten;
}

std::optional<std::string> OutputWriter::take_error() {
  const std::lock_guard guard(state_->mutex);
  return std::exchange(state_->error, {});
}

std::unique_lock<std::mutex> OutputWriter::lock() const { return std::unique_lock(state_->mutex); }

}  // namespace ringrad
