#include "ringrad/core/trace.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "ringrad/core/base/locked.h"
#include "ringrad/core/file/quiet_writes.h"

namespace ringrad {
namespace detail {
std::atomic<bool> is_tracing = false;
}
namespace {

using Json = nlohmann::ordered_json;

// A group and the name of one of its threads; unnamed threads get a number.
using ThreadName = std::pair<int, std::string>;

constinit TraceProcess this_process;

thread_local ThreadName thread_name{this_process.number, ""};

// The file: an array of events, one per line, each written when it ends. Readers accept an array
// without its end, as a killed process leaves it.
class TraceFile {
 public:
  TraceFile(std::FILE* file, const std::string& path, Where where) : file_(file), path_(path) {
    RINGRAD_CHECK(file_, DataError, where, "trace: the file must be writable; got ", path, ", \"",
                  std::generic_category().message(errno), '"');
    std::fputs("[", file_.get());
  }
  ~TraceFile() { finish(); }

  /// Completes the file. Returns the error of the first event that was lost; empty if there is
  /// none.
  std::string finish() {
    if (!file_) return error_;
    std::fputs("\n]\n", file_.get());
    flush();
    const QuietWrites quiet;
    file_.reset();
    return error_;
  }
  bool is_damaged() const { return !error_.empty(); }

  void write(const std::string& name, const char* category, TraceClock::time_point begin,
             TraceClock::time_point end, const std::string& args) {
    if (thread_name.second.empty()) thread_name.second = concat("thread ", ++num_anonymous_);
    const auto [thread, is_new] =
        threads_.try_emplace(thread_name, static_cast<int>(threads_.size()));
    if (is_new) {
      put_name("process_name", thread->second, concat(this_process.kind, ' ', thread_name.first));
      put_name("thread_name", thread->second, thread_name.second);
    }
    const auto us = [](auto duration) {
      return std::chrono::duration<double, std::micro>(duration).count();
    };
    Json event{{"name", name},
               {"cat", category},
               {"ph", "X"},
               {"pid", thread_name.first},
               {"tid", thread->second},
               {"ts", us(begin.time_since_epoch())},
               {"dur", us(end - begin)}};
    if (!args.empty()) {
      // A span ends in a destructor, which must not throw: malformed members are left out.
      Json members = Json::parse('{' + args + '}', nullptr, /*allow_exceptions=*/false);
      if (!members.is_discarded()) event["args"] = std::move(members);
    }
    put(event);
    flush();
  }

 private:
  void flush() {
    const QuietWrites quiet;
    errno = 0;
    const bool is_written = std::fflush(file_.get()) == 0 && !std::ferror(file_.get());
    if (is_written || is_damaged()) return;
    const int error = errno != 0 ? errno : EIO;
    error_ = concat("trace: ", path_, " must be writable; got \"",
                    std::generic_category().message(error), '"');
  }
  void put_name(const char* what, int thread, const std::string& name) {
    put({{"name", what},
         {"ph", "M"},
         {"pid", thread_name.first},
         {"tid", thread},
         {"args", {{"name", name}}}});
  }
  void put(const Json& event) {
    const std::string text = event.dump(-1, ' ', false, Json::error_handler_t::replace);
    std::fprintf(file_.get(), "%s\n%s", separator(), text.c_str());
  }
  const char* separator() { return std::exchange(is_empty_, false) ? "" : ","; }

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  const std::string path_;
  std::string error_;  // of the first event that was lost
  std::map<ThreadName, int> threads_;
  int num_anonymous_ = 0;
  bool is_empty_ = true;
};

// Opens an empty file. While another process writes to it, because both have the same RINGRAD_TRACE
// and no number (set_trace_process), this process's id is appended to the name.
std::FILE* open_own_file(std::string& path) {
  for (;; path += concat('.', getpid())) {
    std::FILE* const file = std::fopen(path.c_str(), "a");
    if (!file) return nullptr;
    if (flock(fileno(file), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
      // Fails for a pipe, which holds nothing of an earlier program.
      [[maybe_unused]] const int failed = ftruncate(fileno(file), 0);
      return file;
    }
    std::fclose(file);
  }
}

struct Tracer {
  std::mutex mutex;
  std::unique_ptr<TraceFile> file;
  std::string asked_for;  // what RINGRAD_TRACE names, until that file is made

  // Spans that end after the tracer's destruction are dropped.
  ~Tracer() {
    if (const std::string error = end(); !error.empty())
      std::fprintf(stderr, "%s\n", error.c_str());
  }
  /// Returns the error of the first event that was lost; empty if there is none.
  std::string end() {
    const std::lock_guard lock(mutex);
    make_file();
    detail::is_tracing = false;
    const std::string error = file ? file->finish() : "";
    file.reset();
    return error;
  }

  // A file that cannot be written must not end the program. REQUIRES: the mutex is held
  void make_file() {
    if (asked_for.empty()) return;
    std::string path = std::exchange(asked_for, "");
    if (this_process.is_one_of_many) path += concat('.', this_process.number);
    try {
      std::FILE* const own = open_own_file(path);
      file = std::make_unique<TraceFile>(own, path, Where::current());
    } catch (const Error& error) {
      std::fprintf(stderr, "RINGRAD_TRACE: %s\n", error.what());
      detail::is_tracing = false;
    }
  }
};

Tracer& tracer() {
  static Tracer tracer;
  return tracer;
}

// The names in use by live threads. Never destroyed, because threads may outlive static objects.
struct LiveThreads {
  std::mutex mutex;
  std::set<ThreadName> names;
};

LiveThreads& live_threads() {
  static auto* const live = new LiveThreads;
  return *live;
}

// The file is made later: static initializers of other files say which process this is.
const bool is_asked_for = [] {
  const char* path = std::getenv("RINGRAD_TRACE");
  if (!path || !*path) return false;
  tracer().asked_for = path;
  return detail::is_tracing = true;
}();

}  // namespace

void trace_to(const std::string& path, Where where) {
  end_trace(where);
  const Locked all(tracer());
  all->file = std::make_unique<TraceFile>(std::fopen(path.c_str(), "w"), path, where);
  detail::is_tracing = true;
}

void end_trace(Where where) {
  const std::string error = tracer().end();
  RINGRAD_CHECK(error.empty(), DataError, where, error);
}

void set_trace_process(const TraceProcess& process) {
  const std::lock_guard lock(tracer().mutex);
  this_process = process;
}

TraceThread::TraceThread(int group, std::string name) : before_(std::move(thread_name)) {
  const std::lock_guard lock(live_threads().mutex);
  thread_name = {group, name};
  for (int number = 2; !live_threads().names.insert(thread_name).second; ++number)
    thread_name.second = concat(name, " (", number, ')');
}
TraceThread::~TraceThread() {
  const std::lock_guard lock(live_threads().mutex);
  live_threads().names.erase(thread_name);
  thread_name = std::move(before_);
}

int trace_group() { return thread_name.first; }

void trace_span(const std::string& name, const char* category, TraceClock::time_point begin,
                TraceClock::time_point end, const std::string& args) {
  const Locked all(tracer());
  all->make_file();
  if (all->file && !all->file->is_damaged()) all->file->write(name, category, begin, end, args);
}

}  // namespace ringrad
