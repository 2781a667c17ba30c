// JobFile: how the ranks of one host get the address and the token of their store from rank 0. It
// is for launchers that pass on no secret: torchrun, srun, mpirun, or a shell.
//
//     <temporary folder>/ringrad-<user>/        0700: for this user alone
//         <process namespace>-<launcher's process>-<its start>-<hash of the job's variables>
//                                               0600: "PORT TOKEN\n"
//
// The name is the job's identity: the launcher is the nearest ancestor process that is not itself
// told a rank, so scripts in between do not matter; its start tells it from an earlier process of
// the same number; the variables tell jobs of one launcher apart. Two jobs never have the same name
// at one time.
//
// Rank 0 removes the file when its process ends normally, and the files of launchers that are gone.

#pragma once

#include <optional>
#include <string>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/store/rank_environment.h"
#include "ringrad/parallel/comm/store/store_address.h"

namespace ringrad {

class JobFile {
 public:
  /// Throws: CollectiveError unless the folder is there, or can be made, and is this user's alone
  explicit JobFile(const RankEnvironment& job, Where where = Where::current());
  JobFile(const JobFile&) = delete;
  JobFile& operator=(const JobFile&) = delete;
  /// Removes what this process has written.
  ~JobFile();

  std::string path() const { return folder_path_ + '/' + name_; }

  /// The store on this host, if rank 0 has written the file. A file that is not this user's alone
  /// does not count.
  std::optional<StoreAddress> read() const;

  /// Replaces the file in one step. Throws: CollectiveError if it cannot
  void write(const StoreAddress& address, Where where = Where::current());

 private:
  void remove_those_of_the_past() const;

  const std::string folder_path_, name_;
  const Descriptor folder_;
  std::string written_by_token_;
  int writer_ = 0;  // process
};

}  // namespace ringrad
