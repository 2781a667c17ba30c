// The check of every access that a kernel makes to simulated memory, in builds with
// --config=racecheck.
//
// Kernels are then compiled with GCC's -fsanitize=thread, which calls __tsan_read4(p),
// __tsan_write8(p), ... before each access. The library behind these calls is ours
// (access_hooks.cc). For each word of four bytes it remembers
//
//     live, written    a bit per byte: it belongs to an allocation, it has been written
//     two writes       the last one; with an atomic one, another that is not ordered before it
//     two reads        since the last write that are not ordered, as far apart as possible: of two
//                      blocks, of two warps
//
// Once an access concerns only a part of a word, the accesses to that word are remembered for each
// byte. A finding is
//
//     out of bounds    an access to a byte that is not live
//     unwritten        a read of a byte that was never written: not by a kernel, a copy or a fill
//     race             two accesses, one of them a write and not both atomic, which nothing orders
//                      (access_order.h)
//
// Other builds link no_access_check.cc, which checks nothing.
//
// README.md says more: "What is checked".

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ringrad/sim/racecheck/access_order.h"

namespace ringrad::sim {

/// True with --config=racecheck.
extern const bool kChecksAccesses;

// --- For memory to check -------------------------------------------------------------------------

enum class Space { shared, global };

/// Reserves addresses for a piece of memory; nothing is mapped there. Null if none are left, or if
/// this build checks nothing. All pieces of a space have the same size.
void* take_addresses(Space space, std::size_t bytes);
/// Forgets the piece, whose addresses may be taken again.
void give_back_addresses(Space space, void* p, std::size_t bytes);

/// Notes that the memory belongs to an allocation and is unwritten.
void note_live(const void* p, std::size_t bytes);
void note_dead(const void* p, std::size_t bytes);
void note_written(const void* p, std::size_t bytes);
/// Notes a copy: bytes that are unwritten in its source become unwritten in its destination.
void note_copied(const void* to, const void* from, std::size_t bytes);

// --- For accesses --------------------------------------------------------------------------------

enum class AccessKind {
  read,
  write,
  atomic_read,
  atomic_write,
  update
};  // update: an atomic read and write

/// Checks an access that the running thread of a block is about to make; `code` is the address in
/// the kernel's code to which the hook returns.
void check_access(const void* p, std::size_t bytes, AccessKind kind, const void* code);

/// Sets the function that receives findings; it must not return.
using FindingHandler = void (*)(const Finding&);
void handle_findings(FindingHandler handler);

/// Called once all threads of the block have met or returned: a read of a value that was still
/// unwritten is now a finding. Until then, a write that races with the read may still come, and
/// that race makes the better report.
void check_unwritten(const AccessOrder& order);

/// "softmax_cuda.cu:41", with the callers that it is inlined into: "reduce.cuh:30, inlined into
/// softmax_cuda.cu:41".
std::string source_line(std::uint32_t code);

}  // namespace ringrad::sim
