#include "sim/shared_event.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace ringrad::sim {

std::shared_ptr<SharedEvent> SharedEvent::map(int file, int device) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  void* page = file < 0
                   ? MAP_FAILED
                   : mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) {
    if (file >= 0) close(file);
    return nullptr;
  }
  // A fresh file holds zeros, which is what fresh counters are; an opened one holds the counters.
  return std::shared_ptr<SharedEvent>(new SharedEvent(file, device, static_cast<Counters*>(page)));
}

std::shared_ptr<SharedEvent> SharedEvent::make(int device) {
  const int file = memfd_create("ringrad event", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, sizeof(Counters)) != 0) {
    close(file);
    return nullptr;
  }
  return map(file, device);
}

std::shared_ptr<SharedEvent> SharedEvent::open(const Export& exported) {
  const std::string path =
      "/proc/" + std::to_string(exported.process) + "/fd/" + std::to_string(exported.file);
  return map(::open(path.c_str(), O_RDWR | O_CLOEXEC), exported.device);
}

SharedEvent::~SharedEvent() {
  munmap(counters_, sizeof(Counters));
  close(file_);
}

SharedEvent::Export SharedEvent::exported() const { return {getpid(), file_, device_}; }

void SharedEvent::finish(std::uint64_t number) {
  std::uint64_t done = counters_->done.load();
  while (done < number && !counters_->done.compare_exchange_weak(done, number)) {
  }
}

}  // namespace ringrad::sim
