// OpenMPI's shared-memory files.
//
//     /dev/shm/vader_segment.<host>.<user>.<job, in hex>.<rank on the host>       4 MiB each
//     /dev/shm/sm_segment. ...                                                    in OpenMPI 5
//
// OpenMPI maps one per rank and removes it at MPI_Finalize, or has mpirun remove it. If mpirun
// itself is killed or crashes, the files stay until the machine is restarted. A file needs its name
// only until all ranks of the host have mapped it, which is so when MPI_Init returns: from then on
// this library removes the name, so no file can be left behind.

#pragma once

#include <string>

namespace ringrad {

/// This process's file, whose name the constructor removes.
///
/// REQUIRES: MPI_Init has returned
class NamelessSegment {
 public:
  NamelessSegment();

  /// Gives the name to an empty file, just before MPI_Finalize, which complains if there is no file
  /// to remove.
  void restore_name() const;

 private:
  const std::string path_;  // empty for none
};

/// Removes the files of all ranks of this job on this host. REQUIRES: the job ends
void remove_job_segments();

}  // namespace ringrad
