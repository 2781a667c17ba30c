#include "ringrad/sim/shared_event.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace ringrad::sim {
namespace {

constexpr std::uint64_t kMagic =
    0x72696e67726164'65;  // "ringrade", this page's and no other file's

}  // namespace

// A fresh file holds zeros, which is the content of a fresh page except for the magic.
std::shared_ptr<SharedEvent> SharedEvent::map(int file, int device) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  struct stat status {};
  const bool has_size = file >= 0 && fstat(file, &status) == 0 && status.st_size == sizeof(Page);
  void* page = has_size ? mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                        : MAP_FAILED;
  if (page == MAP_FAILED) {
    if (file >= 0) close(file);
    return nullptr;
  }
  return std::shared_ptr<SharedEvent>(new SharedEvent(file, device, static_cast<Page*>(page)));
}

std::shared_ptr<SharedEvent> SharedEvent::make(int device) {
  const int file = memfd_create("ringrad event", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, sizeof(Page)) != 0) {
    close(file);
    return nullptr;
  }
  auto made = map(file, device);
  if (made) made->page_->magic = kMagic;
  return made;
}

std::shared_ptr<SharedEvent> SharedEvent::open(const Export& exported) {
  const std::string path =
      "/proc/" + std::to_string(exported.process) + "/fd/" + std::to_string(exported.file);
  auto opened = map(::open(path.c_str(), O_RDWR | O_CLOEXEC), exported.device);
  return opened && opened->page_->magic == kMagic ? opened : nullptr;
}

SharedEvent::~SharedEvent() {
  munmap(page_, sizeof(Page));
  close(file_);
}

SharedEvent::Export SharedEvent::exported() const { return {getpid(), file_, device_}; }

void SharedEvent::finish(std::uint64_t number) {
  std::uint64_t before = done(number).load();
  while (before < number && !done(number).compare_exchange_weak(before, number)) {
  }
}

}  // namespace ringrad::sim
