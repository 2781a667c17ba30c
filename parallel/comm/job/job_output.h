// JobOutput: where the launcher writes: its stdout and stderr, and a file per rank.
//
//     [2] loss 0.31            stdout and stderr, of all ranks: each line behind the rank's number
//     DIR/rank_2.log           what rank 2 wrote to stdout and stderr, line by line, as it came
//
// Nothing here waits for a reader (output_writer.h). stdout and stderr are written in order if they
// are the same file; otherwise neither waits for the other.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/job/output_writer.h"

namespace ringrad {

class SignalReader;

class JobOutput {
 public:
  /// With an empty `log_folder`, ranks get no files; a folder that does not exist is created.
  ///
  /// Throws: Error if the folder cannot be made, or threads cannot be started
  explicit JobOutput(std::string log_folder, Where where = Where::current());

  /// Makes the ranks' files for a run of the job: rank_<r>.log, rank_<r>.restart_<attempt>.log. A
  /// file of that name is replaced. The first run also removes what an earlier job has left: files
  /// of higher ranks and of restarts.
  ///
  /// Throws: Error if one cannot be made
  void begin_run(int attempt, int num_ranks, Where where);

  /// Writes to stdout (1) or stderr (2).
  void write(int stream, std::string text);
  /// Writes to the rank's file, if it has one.
  void log(int rank, std::string text);

  /// Bytes that are not written yet.
  std::size_t num_unwritten() const;
  /// Reports on stderr, once each, that stdout cannot be written, and the first of the ranks' files
  /// that cannot.
  void report_errors();
  /// True once report_errors() has found that some output could not be written, for another reason
  /// than a reader or a terminal that has gone.
  bool has_lost_some() const { return has_lost_some_; }

  /// Waits until all output is written. After a signal has ended the job, gives up soon if a reader
  /// takes nothing. A further signal ends the wait at once, and is returned; otherwise returns 0.
  int write_the_rest(const SignalReader& signals, bool is_interrupted);

  /// While the locks are held, no writer's thread allocates or frees memory.
  std::vector<std::unique_lock<std::mutex>> lock() const;

 private:
  struct Console {
    std::shared_ptr<OutputWriter> writer;
    std::shared_ptr<const OutputFile> file;
  };

  void remove_logs_of_others(int num_ranks) const;

  const std::string log_folder_;
  Console out_, err_;
  std::shared_ptr<OutputWriter> log_writer_;             // null without a folder
  std::vector<std::shared_ptr<OutputWriter>> writers_;   // each once
  std::vector<std::shared_ptr<const OutputFile>> logs_;  // (world_size), or empty
  bool has_lost_some_ = false;
};

}  // namespace ringrad
