// OutputWriter: writes to files that may take nothing for a long time, without making its caller
// wait.
//
//     caller --put()--> queue --thread--> write()
//
// A terminal whose output is stopped, a pager that shows its first page and a full pipe block the
// thread only. The caller decides what to do when the queue grows (num_unwritten).

#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/descriptor.h"

namespace ringrad {

/// A file to write to. It is closed when it is neither used nor written to any more.
struct OutputFile {
  Descriptor descriptor;
  std::string name;  ///< for messages
};

class OutputWriter {
 public:
  /// Throws: Error if its thread cannot be started
  explicit OutputWriter(Where where = Where::current());
  /// Does not wait: what is still unwritten is dropped.
  ~OutputWriter();
  OutputWriter(const OutputWriter&) = delete;
  OutputWriter& operator=(const OutputWriter&) = delete;

  /// Writes `text` after all that was put before. A file that has failed once gets nothing more.
  void put(std::shared_ptr<const OutputFile> file, std::string text);

  /// Bytes that were put and are not written yet.
  std::size_t num_unwritten() const;

  /// The first file that failed, and why: "NAME: No space left on device". Says it once, and does
  /// not say that a reader or a terminal has gone.
  std::optional<std::string> take_error();

  /// While the lock is held, the thread allocates and frees no memory, so this process can be
  /// forked.
  std::unique_lock<std::mutex> lock() const;

 private:
  struct State;

  const std::shared_ptr<State> state_;
};

}  // namespace ringrad
