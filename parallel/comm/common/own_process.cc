#include "ringrad/parallel/comm/common/own_process.h"

#include <pthread.h>

namespace ringrad {

int OwnProcess::num_forks = [] {
  pthread_atfork(nullptr, nullptr, [] { ++num_forks; });
  return 0;
}();

}  // namespace ringrad
