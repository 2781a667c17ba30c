#include "ringrad/sim/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <iterator>
#include <new>
#include <utility>

#include "ringrad/sim/racecheck/access_check.h"
#include "ringrad/sim/sanitizers.h"
#include "ringrad/sim/unwritten.h"

namespace ringrad::sim {
namespace {

constexpr std::size_t kAlignment = 256;  // as cudaMalloc gives it
constexpr unsigned char kCanary = 0xfb;
// Above this number, allocations are closed after a kernel, so that the next check has few
// canaries.
constexpr std::size_t kMostOpen = 256;
// Address space, not memory: a tebibyte, or as much as ThreadSanitizer or access_check.h can
// follow. On 64-bit Arm a process may have half a tebibyte in all.
#ifdef __aarch64__
constexpr int kAddressBits = 35;
#else
constexpr int kAddressBits = 40;
#endif
std::size_t addresses_per_device() {
  return std::size_t{1} << (kTsan || kChecksAccesses ? 34 : kAddressBits);
}

// 4 KiB on x86; 4, 16 or 64 KiB on Arm.
std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::byte* page_of(const void* p) {
  auto* byte = const_cast<std::byte*>(static_cast<const std::byte*>(p));
  return byte - reinterpret_cast<std::uintptr_t>(p) % page_bytes();
}

// The pages that hold an allocation.
struct Pages {
  std::byte* begin;
  std::size_t bytes;
};

Pages pages_of(const Memory::Allocation& a) {
  std::byte* begin = page_of(a.begin);
  return {begin, round_up(static_cast<std::size_t>(a.begin - begin) + a.bytes, page_bytes())};
}

struct Canaries {
  const std::byte* begin;
  std::size_t count;
};

Canaries canaries_before(const Memory::Allocation& a) {
  return {page_of(a.begin), static_cast<std::size_t>(a.begin - page_of(a.begin))};
}

Canaries canaries_after(const Memory::Allocation& a) {
  const Pages pages = pages_of(a);
  const std::byte* end = a.begin + a.bytes;
  return {end, static_cast<std::size_t>(pages.begin + pages.bytes - end)};
}

std::optional<std::size_t> first_damaged(Canaries canaries) {
  for (std::size_t i = 0; i < canaries.count; ++i)
    if (canaries.begin[i] != std::byte{kCanary}) return i;
  return {};
}

std::string hex(const void* p) {
  char text[24];
  std::snprintf(text, sizeof text, "%p", p);
  return text;
}

}  // namespace

Memory::Memory(int num_devices, std::size_t bytes_per_device)
    : bytes_per_device_(bytes_per_device), regions_(static_cast<std::size_t>(num_devices)) {
  for (Region& region : regions_) {
    region.file = memfd_create("ringrad simulated device", MFD_CLOEXEC);
    if (region.file < 0 || ftruncate(region.file, addresses_per_device()) != 0)
      throw std::bad_alloc();
    void* const at = take_addresses(Space::global, addresses_per_device());
    if (kChecksAccesses && !at) throw std::bad_alloc();
    void* begin = mmap(at, addresses_per_device(), PROT_NONE,
                       MAP_SHARED | MAP_NORESERVE | (at ? MAP_FIXED : 0), region.file, 0);
    if (begin == MAP_FAILED) throw std::bad_alloc();
    region.begin = static_cast<std::byte*>(begin);
    region.next = region.begin + page_bytes();
  }
}

Memory::~Memory() {
  for (Region& region : regions_) {
    unpoison(region.begin, static_cast<std::size_t>(region.next - region.begin));
    munmap(region.begin, addresses_per_device());
    give_back_addresses(Space::global, region.begin, addresses_per_device());
    ::close(region.file);
  }
}

void* Memory::allocate(int device, std::size_t bytes, bool pooled) {
  const QuietLock lock(mutex_);
  Region& region = regions_[static_cast<std::size_t>(device)];
  const std::size_t pages = round_up(bytes, page_bytes());
  if (pages < bytes || pages > bytes_per_device_ - region.in_use) return nullptr;
  std::byte* first = find_addresses(region, pages);
  if (!first) return nullptr;

  const Allocation a{.begin = first + pages - round_up(bytes, kAlignment),
                     .bytes = bytes,
                     .device = device,
                     .pooled = pooled};
  unpoison(first, pages);
  if (!protect(a, PROT_READ | PROT_WRITE)) return nullptr;
  fill_unseen(first, kCanary << 8 | kCanary, pages);
  fill_unwritten(a.begin, bytes);
  poison(first, pages + page_bytes());
  unpoison(a.begin, bytes);
  note_live(a.begin, bytes);
  protect(a, PROT_NONE);
  region.in_use += pages;
  region.allocations.emplace(page_of(a.begin), a);
  return a.begin;
}

// Returns unused pages with a guard page after them. Once there are none, it takes pages of freed
// allocations and forgets their records. Null if there are none either.
std::byte* Memory::find_addresses(Region& region, std::size_t bytes) const {
  const std::size_t needed = bytes + page_bytes();
  const std::byte* end = region.begin + addresses_per_device();
  if (static_cast<std::size_t>(end - region.next) >= needed)
    return std::exchange(region.next, region.next + needed);
  std::erase_if(region.allocations, [](const auto& entry) { return !entry.second.live; });
  std::byte* gap = region.begin + page_bytes();
  for (const auto& [page, a] : region.allocations) {
    if (static_cast<std::size_t>(page - gap) >= needed) break;
    gap = pages_of(a).begin + pages_of(a).bytes + page_bytes();
  }
  return static_cast<std::size_t>(end - gap) >= needed ? gap : nullptr;
}

bool Memory::mark_freeing(void* p, bool freeing) {
  const QuietLock lock(mutex_);
  for (Region& region : regions_) {
    const auto found = region.allocations.find(page_of(p));
    if (found == region.allocations.end()) continue;
    Allocation& a = found->second;
    if (!a.live || a.imported || a.begin != p) return false;
    return std::exchange(a.freeing, freeing) != freeing;
  }
  return false;
}

bool Memory::release(void* p) {
  const QuietLock lock(mutex_);
  for (Region& region : regions_) {
    const auto found = region.allocations.find(page_of(p));
    if (found == region.allocations.end()) continue;
    Allocation& a = found->second;
    if (!a.live || a.begin != p) return false;
    a.live = false;
    protect(a, PROT_NONE);
    open_.erase(a.begin);
    poison(a.begin, a.bytes);
    note_dead(a.begin, a.bytes);
    const Pages pages = pages_of(a);
    if (a.imported) {
      mmap(pages.begin, pages.bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, region.file,
           pages.begin - region.begin);
    } else {
      fallocate(region.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, pages.begin - region.begin,
                static_cast<off_t>(pages.bytes));
      region.in_use -= pages.bytes;
    }
    return true;
  }
  return false;
}

// --- Other processes -----------------------------------------------------------------------------

std::optional<Memory::Export> Memory::export_allocation(const void* p) const {
  const std::optional<Allocation> found = find(p);
  if (!found || !found->live || found->imported) return {};
  const Region& region = regions_[static_cast<std::size_t>(found->device)];
  const Pages pages = pages_of(*found);
  note_written(found->begin, found->bytes);  // by a process whose writes cannot be seen
  return Export{.process = getpid(),
                .file = region.file,
                .device = found->device,
                .file_offset = static_cast<std::uint64_t>(pages.begin - region.begin),
                .begin_offset = static_cast<std::uint64_t>(found->begin - pages.begin),
                .bytes = found->bytes};
}

void* Memory::import_allocation(const Export& exported) {
  if (exported.device < 0 || exported.device >= std::ssize(regions_)) return nullptr;
  const std::string path =
      "/proc/" + std::to_string(exported.process) + "/fd/" + std::to_string(exported.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  const QuietLock lock(mutex_);
  Region& region = regions_[static_cast<std::size_t>(exported.device)];
  const std::size_t bytes = round_up(exported.begin_offset + exported.bytes, page_bytes());
  std::byte* first = find_addresses(region, bytes);
  void* mapped = MAP_FAILED;
  if (first)
    mapped = mmap(first, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                  static_cast<off_t>(exported.file_offset));
  ::close(file);
  if (mapped == MAP_FAILED) return nullptr;
  const Allocation a{.begin = first + exported.begin_offset,
                     .bytes = exported.bytes,
                     .device = exported.device,
                     .imported = true};
  poison(first, bytes + page_bytes());
  unpoison(a.begin, a.bytes);
  note_live(a.begin, a.bytes);
  note_written(a.begin, a.bytes);
  protect(a, PROT_NONE);
  region.allocations.emplace(page_of(a.begin), a);
  return a.begin;
}

// --- Questions -----------------------------------------------------------------------------------

std::optional<int> Memory::device_of(const void* p) const {
  for (std::size_t device = 0; device < regions_.size(); ++device) {
    const std::byte* begin = regions_[device].begin;
    if (p >= begin && p < begin + addresses_per_device()) return static_cast<int>(device);
  }
  return {};
}

const Memory::Allocation* Memory::find_at_or_before(const void* p) const {
  const std::optional<int> device = device_of(p);
  if (!device) return nullptr;
  const auto& allocations = regions_[static_cast<std::size_t>(*device)].allocations;
  const auto after = allocations.upper_bound(static_cast<const std::byte*>(p));
  return after == allocations.begin() ? nullptr : &std::prev(after)->second;
}

std::optional<Memory::Allocation> Memory::find(const void* p) const {
  const QuietLock lock(mutex_);
  const Allocation* a = find_at_or_before(p);
  if (!a || !a->contains(p)) return {};
  return *a;
}

std::string Memory::complaint(const void* p, std::size_t bytes) const {
  const QuietLock lock(mutex_);
  const Allocation* a = find_at_or_before(p);
  const auto* first = static_cast<const std::byte*>(p);
  if (a && a->live && a->contains(first) && bytes <= a->bytes - (first - a->begin)) return {};
  return describe_locked(p, bytes);
}

std::string Memory::describe(const void* p, std::size_t bytes) const {
  const QuietLock lock(mutex_);
  return describe_locked(p, bytes);
}

std::string Memory::describe_locked(const void* p, std::size_t bytes) const {
  const std::string address = hex(p);
  const Allocation* a = find_at_or_before(p);
  if (!a) return address + ", in no allocation";
  const std::string what = std::string(a->live ? "an" : "a freed") + " allocation of " +
                           std::to_string(a->bytes) + " bytes on device " +
                           std::to_string(a->device);
  const auto* byte = static_cast<const std::byte*>(p);
  if (byte < a->begin)
    return address + ", " + std::to_string(a->begin - byte) + " bytes before " + what;
  const auto offset = static_cast<std::size_t>(byte - a->begin);
  if (offset >= a->bytes)
    return address + ", " + std::to_string(offset - a->bytes) + " bytes after the end of " + what;
  if (offset + bytes > a->bytes)
    return address + ", " + std::to_string(bytes) + " bytes of which " +
           std::to_string(offset + bytes - a->bytes) + " are after the end of " + what;
  return address + ", in " + what;
}

std::size_t Memory::bytes_in_use(int device) const {
  const QuietLock lock(mutex_);
  return regions_[static_cast<std::size_t>(device)].in_use;
}

std::vector<Memory::Allocation> Memory::live_allocations() const {
  const QuietLock lock(mutex_);
  std::vector<Allocation> live;
  for (const Region& region : regions_)
    for (const auto& [begin, a] : region.allocations)
      if (a.live) live.push_back(a);
  return live;
}

// --- Access --------------------------------------------------------------------------------------

// ThreadSanitizer cannot follow a fault handler that resumes a simulated thread, so all memory is
// open under it.
bool Memory::protect(const Allocation& a, int protection) const {
  if (kTsan && protection == PROT_NONE && a.live) return true;
  const Pages pages = pages_of(a);
  return mprotect(pages.begin, pages.bytes, protection) == 0;
}

void Memory::permit(std::uint64_t reach) {
  if (reach == permitted_) return;
  const QuietLock lock(mutex_);
  permitted_ = reach;
  std::erase_if(open_, [&](const std::byte* begin) {
    const Allocation& a = *find_at_or_before(begin);
    return !a.is_within(reach) && protect(a, PROT_NONE);
  });
}

bool Memory::open(const void* p) {
  const QuietLock lock(mutex_);
  const Allocation* a = find_at_or_before(p);
  if (!a || !a->live || !a->is_within(permitted_)) return false;
  const Pages pages = pages_of(*a);
  if (p >= pages.begin + pages.bytes || open_.contains(a->begin)) return false;
  if (!protect(*a, PROT_READ | PROT_WRITE)) {
    // The process has no mapping left: close all other allocations. They open again when touched.
    if (damage_.empty()) damage_ = find_damage();
    std::erase_if(open_, [&](const std::byte* begin) {
      return protect(*find_at_or_before(begin), PROT_NONE);
    });
    if (!protect(*a, PROT_READ | PROT_WRITE)) return false;
  }
  open_.insert(a->begin);
  return true;
}

std::string Memory::check_canaries() {
  const QuietLock lock(mutex_);
  std::string damage = damage_.empty() ? find_damage() : std::exchange(damage_, {});
  if (open_.size() > kMostOpen)
    std::erase_if(open_, [&](const std::byte* begin) {
      return protect(*find_at_or_before(begin), PROT_NONE);
    });
  return damage;
}

// The first damage to the canaries around the open allocations. REQUIRES: mutex_ is held
std::string Memory::find_damage() const {
  if (kAsan) return {};  // they are poisoned
  for (const std::byte* begin : open_) {
    const Allocation& a = *find_at_or_before(begin);
    if (a.imported) continue;
    const std::string what = " an allocation of " + std::to_string(a.bytes) + " bytes on device " +
                             std::to_string(a.device);
    if (const auto i = first_damaged(canaries_after(a)))
      return "byte " + std::to_string(*i) + " after the end of" + what;
    if (const auto i = first_damaged(canaries_before(a)))
      return "byte " + std::to_string(canaries_before(a).count - *i) + " before" + what;
  }
  return {};
}

}  // namespace ringrad::sim
