// Team: the size of this thread's OpenMP team, for the lifetime of an object. Kernels are tested
// with one thread and with two, whatever the machine has.

#pragma once

#include <omp.h>

namespace ringrad::testing {

class Team {
 public:
  explicit Team(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~Team() { omp_set_num_threads(before_); }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

 private:
  int before_;
};

}  // namespace ringrad::testing
