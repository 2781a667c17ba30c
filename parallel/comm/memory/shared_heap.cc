#include "ringrad/parallel/comm/memory/shared_heap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <locale>
#include <sstream>

#include "ringrad/parallel/comm/common/system_limits.h"
#include "ringrad/parallel/comm/store/store_address.h"

namespace ringrad {
namespace {

constexpr std::size_t kAlignment = 128;  // processors fetch cache lines in pairs

// The first page holds a word that only this heap has: a process number may be another's by the
// time a process looks.
constexpr std::size_t kHeaderBytes = 4096;

constexpr PoolKey kPool = {nullptr, nullptr, false};

// Past that limit the system would send a signal that ends the process.
void check_file_size(std::size_t bytes, Where where) {
  rlimit most{};
  if (getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur == RLIM_INFINITY) return;
  RINGRAD_CHECK(bytes <= most.rlim_cur, OutOfMemoryError, where,
                "shared heap: the limit on the size of files must be at least ", bytes,
                " bytes (set it by `ulimit -f unlimited`, or make "
                "ProcessGroupOptions::heap_bytes smaller); got RLIMIT_FSIZE of ",
                most.rlim_cur);
}

Descriptor make_file(std::size_t bytes, Where where) {
  check_file_size(bytes, where);
  Descriptor file(memfd_create("ringrad heap", MFD_CLOEXEC));
  RINGRAD_CHECK(file.is_open() && ftruncate(file.number(), static_cast<off_t>(bytes)) == 0,
                OutOfMemoryError, where, "shared heap: the system must give memory; got ",
                text_of_errno(errno));
  return file;
}

}  // namespace

SharedMapping::SharedMapping(int file, std::size_t bytes, Where where) : bytes_(bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  RINGRAD_CHECK(mapped != MAP_FAILED, OutOfMemoryError, where, "shared heap: ", bytes,
                " bytes of addresses must be free; got ", text_of_errno(errno));
  begin_ = static_cast<std::byte*>(mapped);
  madvise(mapped, bytes, MADV_DONTDUMP);  // a core file would fill the machine's memory with it
}

SharedMapping::~SharedMapping() { munmap(begin_, bytes_); }

SharedHeap::SharedHeap(std::size_t bytes, Where where)
    : file_(make_file(bytes, where)), memory_(file_.number(), bytes, where) {
  const std::string secret = make_token();
  std::memcpy(memory_.begin(), secret.c_str(), secret.size() + 1);
  Block all{
      .pool = kPool, .address = memory_.begin() + kHeaderBytes, .bytes = bytes - kHeaderBytes};
  blocks_.release(blocks_.add(all, all.bytes, kAlignment));
}

std::byte* SharedHeap::allocate(std::size_t bytes, Where where) {
  RINGRAD_CHECK(in_own_process_, CollectiveError, where,
                "shared heap: it serves the process that made it; got a call in a forked child");
  const std::size_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;
  const std::lock_guard lock(mutex_);
  const Block* block = rounded > bytes ? blocks_.take(kPool, rounded, kAlignment) : nullptr;
  RINGRAD_CHECK(block, OutOfMemoryError, where, "shared heap: ", bytes,
                " bytes must be free in one piece of its ", memory_.bytes(), "; got less");
  return block->address;
}

void SharedHeap::release(std::byte* address) {
  if (!in_own_process_) return;  // another thread may have held the mutex at the fork
  const std::lock_guard lock(mutex_);
  blocks_.release(blocks_.find(address));
}

std::string SharedHeap::name() const {
  return concat(getpid(), ' ', file_.number(), ' ', memory_.bytes(), ' ',
                reinterpret_cast<const char*>(memory_.begin()));
}

std::unique_ptr<SharedMapping> SharedHeap::open(const std::string& name, Where where) {
  std::istringstream words(name);
  words.imbue(std::locale::classic());
  long process = 0;
  int file_number = 0;
  std::size_t bytes = 0;
  std::string secret;
  RINGRAD_CHECK(words >> process >> file_number >> bytes >> secret, CollectiveError, where,
                "shared heap: its name must be what name() gave; got \"", name, '"');
  const std::string path = concat("/proc/", process, "/fd/", file_number);
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  RINGRAD_CHECK(file.is_open(), CollectiveError, where, "shared heap: process ", process,
                " must live on this machine and be of this user; got \"", text_of_errno(errno),
                "\" from ", path);
  std::unique_ptr<SharedMapping> opened;
  if (lseek(file.number(), 0, SEEK_END) == static_cast<off_t>(bytes)) {
    opened = std::make_unique<SharedMapping>(file.number(), bytes, where);
    if (std::memcmp(opened->begin(), secret.c_str(), std::min(secret.size() + 1, kHeaderBytes)) !=
        0)
      opened.reset();
  }
  RINGRAD_CHECK(opened, CollectiveError, where, "shared heap: process ", process,
                " must have the heap that was named; got another file");
  return opened;
}

}  // namespace ringrad
