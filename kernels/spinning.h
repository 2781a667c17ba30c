// How threads of a team wait for each other on a machine that other programs use as well.
//
// An operator's work is split over an OpenMP team, and threads that are done wait for the others.
// libgomp lets them spin for about 10 ms before they sleep. On a quiet machine this saves the
// microseconds of waking a thread up. On a busy one it is ruinous: the spinning thread occupies the
// processor that the awaited thread needs, in every operator again.
//
//     2 processors, 3 programs     thread 0   work ......... spins ......... | work
//                                  thread 1   waits for a processor ....work |
//
// libgomp reads its settings only once, when it is loaded. But it spins 100 rounds, a few
// microseconds, while the process has more OpenMP threads than there are processors. So while the
// machine is busy, a keeper thread holds an idle team that is larger than the number of processors.
// Teams that compute keep their size, so that results keep their bits (docs/reproducibility.md).
//
// OMP_WAIT_POLICY and GOMP_SPINCOUNT, if set, decide instead.

#pragma once

namespace ringrad {

/// Takes note of how long the calling thread had to wait for a processor lately, at most every
/// 50 ms, and starts the keeper if that was more than a tenth of the time. Every thread of a team
/// calls it, since any of them may be the one that the others wait for. Not in kernels, because
/// libraries that link to libringrad.so call it, and that exports no names of kernels.
void watch_for_load() noexcept;

namespace kernels {

/// True while waiting threads spin only briefly, because the machine is busy.
bool spins_briefly() noexcept;

}  // namespace kernels
}  // namespace ringrad
