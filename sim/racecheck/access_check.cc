#include "ringrad/sim/racecheck/access_check.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

extern "C" const char __executable_start;

namespace ringrad::sim {
namespace {

// --- Addresses -----------------------------------------------------------------------------------
//
//     0x1000'0000'0000   shared memory, 16 GiB; global memory, 496 GiB
//     0x1800'0000'0000   a byte per word: its live bytes (bits 0 to 3), written ones (bits 4 to 7)
//     0x2000'0000'0000   the accesses to each word
//     0x3000'0000'0000   the accesses to each byte, of words that are split
//
// Programs and the system's mappings lie below and above.

constexpr std::uintptr_t kBegin = 0x1000'0000'0000;
constexpr std::size_t kSharedBytes = std::size_t{1} << 34, kAllBytes = std::size_t{1} << 39;
constexpr std::size_t kWordBytes = 4;
constexpr unsigned kAllOfWord = 0xf;

struct Accesses {
  Access writes[2], reads[2];
};

auto* const states = reinterpret_cast<std::uint8_t*>(0x1800'0000'0000);
auto* const words = reinterpret_cast<Accesses*>(0x2000'0000'0000);
auto* const bytes_of_words = reinterpret_cast<Accesses*>(0x3000'0000'0000);

// Stands in place of the last write in a word whose bytes are tracked one by one.
constexpr Access kSplit{.block = 0, .segment = ~0u};

bool is_split(const Accesses& word) { return word.writes[0].segment == kSplit.segment; }

void map(void* p, std::size_t bytes, int protection) {
  void* mapped = mmap(p, bytes, protection,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped != p) throw std::bad_alloc();
}

void map_all() {
  static const bool mapped = [] {
    constexpr int kOpen = PROT_READ | PROT_WRITE;
    map(reinterpret_cast<void*>(kBegin), kAllBytes, PROT_NONE);
    map(states, kAllBytes / kWordBytes, kOpen);
    map(words, kAllBytes / kWordBytes * sizeof(Accesses), kOpen);
    map(bytes_of_words, kAllBytes * sizeof(Accesses), kOpen);
    return true;
  }();
  static_cast<void>(mapped);
}

// Gives each piece pages of its own among the states as well.
std::size_t round_up(std::size_t bytes) {
  constexpr std::size_t kUnit = kWordBytes * 4096;
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

std::size_t offset_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p) - kBegin; }

struct FreeAddresses {
  std::size_t next, end;
  std::vector<void*> given_back;
};

FreeAddresses& free_addresses(Space space) {
  static FreeAddresses shared{0, kSharedBytes, {}}, global{kSharedBytes, kAllBytes, {}};
  return space == Space::shared ? shared : global;
}

// --- Words ---------------------------------------------------------------------------------------

// Calls visit(word, mask) for each word of the range, with its bytes in the range.
template <class Visit>
void for_words(std::size_t offset, std::size_t bytes, Visit&& visit) {
  while (bytes > 0) {
    const std::size_t first = offset % kWordBytes;
    const std::size_t count = std::min(kWordBytes - first, bytes);
    visit(offset / kWordBytes, ((1u << count) - 1) << first);
    offset += count;
    bytes -= count;
  }
}

// state = update(state, mask) for each word of the range; does nothing for memory that is not
// checked.
template <class Update>
void update_states(const void* p, std::size_t bytes, Update update) {
  const std::size_t begin = offset_of(p), end = begin + bytes;
  if (begin >= kAllBytes) return;
  const auto apply = [&](std::size_t word, unsigned mask) {
    states[word] = static_cast<std::uint8_t>(update(states[word], mask));
  };
  const std::size_t first_whole = std::min(end, (begin + kWordBytes - 1) / kWordBytes * kWordBytes);
  for_words(begin, first_whole - begin, apply);
  const std::size_t end_whole = std::max(first_whole, end / kWordBytes * kWordBytes);
  for (std::size_t word = first_whole / kWordBytes; word < end_whole / kWordBytes; ++word)
    apply(word, kAllOfWord);  // vector code
  for_words(end_whole, end - end_whole, apply);
}

void split(Accesses& word, std::size_t number) {
  std::fill_n(&bytes_of_words[number * kWordBytes], kWordBytes, word);
  word = {};
  word.writes[0] = kSplit;
}

// --- Accesses to one word or byte ----------------------------------------------------------------

struct Check {
  AccessOrder& order;
  Access now;
  std::size_t bytes;
  bool reads, writes, is_shared;

  Finding complete(Finding finding) const;
  void look_at(std::size_t word, unsigned mask) const;
  void look_at(Accesses& accesses, std::size_t offset) const;
  void remember(Accesses& accesses) const;
  void remember_in(Access (&known)[2]) const;
};

FindingHandler handler = nullptr;

Finding Check::complete(Finding finding) const {
  finding.access = now;
  finding.bytes = bytes;
  finding.is_write = writes;
  return finding;
}

const std::byte* address_of(std::size_t offset) {
  return reinterpret_cast<const std::byte*>(kBegin + offset);
}

void Check::look_at(std::size_t word, unsigned mask) const {
  std::uint8_t& state = states[word];
  const auto missing = [&](unsigned bits) {
    const unsigned first = static_cast<unsigned>(__builtin_ctz(mask & ~bits));
    return address_of(word * kWordBytes + first);
  };
  if (mask & ~state) {
    check_unwritten(order);  // an unwritten index may be the cause
    handler(complete({.kind = Finding::Kind::out_of_bounds, .p = missing(state)}));
  }
  if (reads && (mask & ~(state >> 4)) && !order.unwritten)
    order.unwritten = complete({.kind = Finding::Kind::unwritten, .p = missing(state >> 4)});
  if (writes) state |= static_cast<std::uint8_t>(mask << 4);

  Accesses& whole = words[word];
  if (mask == kAllOfWord && !is_split(whole)) return look_at(whole, word * kWordBytes);
  if (!is_split(whole)) split(whole, word);
  for (std::size_t i = 0; i < kWordBytes; ++i) {
    const std::size_t offset = word * kWordBytes + i;
    if (mask >> i & 1) look_at(bytes_of_words[offset], offset);
  }
  // All of the word's bytes have the same state again.
  if (mask == kAllOfWord && writes && !now.atomic) whole = bytes_of_words[word * kWordBytes];
}

void Check::look_at(Accesses& accesses, std::size_t offset) const {
  const auto find_race = [&](const Access(&known)[2], bool is_write) {
    for (const Access& other : known)
      if (!order.is_before(other, is_shared) && !(other.atomic && now.atomic))
        handler(complete({.kind = Finding::Kind::race,
                          .p = address_of(offset),
                          .other = other,
                          .other_is_write = is_write}));
  };
  find_race(accesses.writes, true);
  if (writes) find_race(accesses.reads, false);
  remember(accesses);
}

void Check::remember(Accesses& accesses) const {
  if (writes && !now.atomic) {  // orders all earlier ones before any later access
    accesses = {};
    accesses.writes[0] = now;
  } else {
    remember_in(writes ? accesses.writes : accesses.reads);
  }
}

// An access replaces one that is ordered before it; but an atomic access does not replace a plain
// one, which may still be in a race. Of unordered accesses two are enough if they are as far apart
// as possible: an access ordered after those of two blocks comes after the launch, one ordered
// after those of two warps comes after a barrier.
void Check::remember_in(Access (&known)[2]) const {
  const auto may_go = [&](const Access& a) {
    return order.is_before(a, is_shared) &&
           (a.atomic || !now.atomic || !order.is_open(a, is_shared));
  };
  if (may_go(known[0])) {
    known[0] = now;
    if (may_go(known[1])) known[1] = {};
  } else if (may_go(known[1]) ||
             AccessOrder::distance(known[0], known[1]) <= AccessOrder::distance(known[0], now)) {
    known[1] = now;
  }
}

}  // namespace

const bool kChecksAccesses = true;

void handle_findings(FindingHandler h) { handler = h; }

void check_unwritten(const AccessOrder& order) {
  if (order.unwritten) handler(*order.unwritten);
}

void* take_addresses(Space space, std::size_t bytes) {
  map_all();
  FreeAddresses& free = free_addresses(space);
  if (!free.given_back.empty()) {
    void* p = free.given_back.back();
    free.given_back.pop_back();
    return p;
  }
  bytes = round_up(bytes);
  if (bytes > free.end - free.next) return nullptr;
  return reinterpret_cast<void*>(kBegin + std::exchange(free.next, free.next + bytes));
}

void give_back_addresses(Space space, void* p, std::size_t bytes) {
  bytes = round_up(bytes);
  mmap(p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  const std::size_t offset = offset_of(p);
  madvise(&states[offset / kWordBytes], bytes / kWordBytes, MADV_DONTNEED);
  madvise(&words[offset / kWordBytes], bytes / kWordBytes * sizeof(Accesses), MADV_DONTNEED);
  madvise(&bytes_of_words[offset], bytes * sizeof(Accesses), MADV_DONTNEED);
  free_addresses(space).given_back.push_back(p);
}

void note_live(const void* p, std::size_t bytes) {
  update_states(p, bytes,
                [](unsigned state, unsigned mask) { return (state | mask) & ~(mask << 4); });
}

void note_dead(const void* p, std::size_t bytes) {
  update_states(p, bytes,
                [](unsigned state, unsigned mask) { return state & ~(mask | mask << 4); });
}

void note_written(const void* p, std::size_t bytes) {
  update_states(p, bytes, [](unsigned state, unsigned mask) { return state | mask << 4; });
}

void note_copied(const void* to, const void* from, std::size_t bytes) {
  note_written(to, bytes);
  const std::size_t to_offset = offset_of(to), from_offset = offset_of(from);
  if (to_offset >= kAllBytes || from_offset >= kAllBytes) return;
  const auto written = [](std::size_t offset) { return 0x10u << offset % kWordBytes; };
  for (std::size_t i = 0; i < bytes; ++i)
    if (!(states[(from_offset + i) / kWordBytes] & written(from_offset + i)))
      states[(to_offset + i) / kWordBytes] &= static_cast<std::uint8_t>(~written(to_offset + i));
}

void check_access(const void* p, std::size_t bytes, AccessKind kind, const void* code) {
  const std::size_t offset = offset_of(p);
  if (offset >= kAllBytes) return;
  AccessOrder* order = AccessOrder::current();
  if (!order) return;
  const bool is_update = kind == AccessKind::update;
  const bool is_atomic =
      is_update || kind == AccessKind::atomic_read || kind == AccessKind::atomic_write;
  const Check check{
      .order = *order,
      .now = order->access(
          static_cast<std::uint32_t>(static_cast<const char*>(code) - &__executable_start),
          is_atomic),
      .bytes = bytes,
      .reads = is_update || kind == AccessKind::read || kind == AccessKind::atomic_read,
      .writes = is_update || kind == AccessKind::write || kind == AccessKind::atomic_write,
      .is_shared = offset < kSharedBytes};
  for_words(offset, bytes, [&](std::size_t word, unsigned mask) { check.look_at(word, mask); });
}

}  // namespace ringrad::sim
