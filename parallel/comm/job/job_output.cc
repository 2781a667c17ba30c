#include "ringrad/parallel/comm/job/job_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <regex>
#include <system_error>
#include <utility>

#include "ringrad/parallel/comm/common/running_time.h"
#include "ringrad/parallel/comm/common/system_limits.h"
#include "ringrad/parallel/comm/job/child_process.h"
#include "ringrad/parallel/comm/job/message_stream.h"

namespace ringrad {
namespace {

constexpr auto kLastWrite = std::chrono::seconds(2);  // that an interrupted launcher waits for

bool are_same_file(int a, int b) {
  struct stat of_a {
  }, of_b{};
  return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

// A copy, which nobody closes while a thread writes to it.
std::shared_ptr<const OutputFile> copy_of(int stream, const char* name) {
  return std::make_shared<OutputFile>(
      OutputFile{Descriptor(fcntl(stream, F_DUPFD_CLOEXEC, 3)), name});
}

}  // namespace

JobOutput::JobOutput(std::string log_folder, Where where) : log_folder_(std::move(log_folder)) {
  const auto add_writer = [&] {
    return writers_.emplace_back(std::make_shared<OutputWriter>(where));
  };
  out_ = {add_writer(), copy_of(STDOUT_FILENO, "stdout")};
  err_ = {are_same_file(STDOUT_FILENO, STDERR_FILENO) ? out_.writer : add_writer(),
          copy_of(STDERR_FILENO, "stderr")};
  if (log_folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(log_folder_, error);
  RINGRAD_CHECK(!error, Error, where, "launch: the folder of --log-dir must be there; got ",
                error.message(), " from ", log_folder_);
  log_writer_ = add_writer();
}

// They would be taken for files of this job. What cannot be removed stays.
void JobOutput::remove_logs_of_others(int num_ranks) const {
  static const std::regex log_file("rank_([0-9]{1,9})(\\.restart_[0-9]+)?\\.log");
  std::error_code error;
  std::vector<std::filesystem::path> others;
  for (const auto& entry : std::filesystem::directory_iterator(log_folder_, error)) {
    const std::string name = entry.path().filename();
    std::smatch found;
    if (std::regex_match(name, found, log_file) &&
        (found[2].matched || std::stoi(found[1]) >= num_ranks))
      others.push_back(entry.path());
  }
  for (const auto& path : others) std::filesystem::remove(path, error);
}

void JobOutput::begin_run(int attempt, int num_ranks, Where where) {
  logs_.clear();
  if (!log_writer_) return;
  if (attempt == 0) remove_logs_of_others(num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) {
    const std::string path =
        concat(log_folder_, "/rank_", rank,
               attempt > 0 ? concat(".restart_", attempt, ".log") : std::string(".log"));
    // A FIFO that nobody reads would make open() wait.
    Descriptor file(
        open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0666));
    RINGRAD_CHECK(file.is_open(), Error, where,
                  "launch: a file of --log-dir must be writable; got ", text_of_errno(errno),
                  " from ", path);
    logs_.push_back(std::make_shared<OutputFile>(OutputFile{std::move(file), path}));
  }
}

void JobOutput::write(int stream, std::string text) {
  const Console& console = stream == 1 ? out_ : err_;
  console.writer->put(console.file, std::move(text));
}

void JobOutput::log(int rank, std::string text) {
  if (!logs_.empty()) log_writer_->put(logs_[static_cast<std::size_t>(rank)], std::move(text));
}

std::size_t JobOutput::num_unwritten() const {
  std::size_t num = 0;
  for (const auto& writer : writers_) num += writer->num_unwritten();
  return num;
}

void JobOutput::report_errors() {
  for (const auto& writer : writers_)
    if (const auto error = writer->take_error()) {
      has_lost_some_ = true;
      write(2, concat("ringrun: output must be writable; got ", *error, '\n'));
    }
}

int JobOutput::write_the_rest(const SignalReader& signals, bool is_interrupted) {
  RunningTime idle(kListenTime);
  std::size_t before = 0;
  for (;;) {
    const std::size_t left = num_unwritten();
    report_errors();
    if (left == 0 && num_unwritten() == 0) return 0;
    if (left != std::exchange(before, left)) idle = RunningTime(kListenTime);
    if (is_interrupted && idle.advance() > kLastWrite) return 0;
    constexpr int kPause_ms = 10;
    pollfd waited{signals.number(), POLLIN, 0};
    if (poll(&waited, 1, kPause_ms) <= 0) continue;
    const int signal = signals.take();
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) return signal;
  }
}

std::vector<std::unique_lock<std::mutex>> JobOutput::lock() const {
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const auto& writer : writers_) locks.push_back(writer->lock());
  return locks;
}

}  // namespace ringrad
