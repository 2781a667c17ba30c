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

/// Measures, at most every 50 ms, how long the calling thread has waited for a processor since the
/// last measurement. Starts the keeper if the thread waited for a tenth of that time or more. Every
/// thread of a team calls this function, since any of them may be the one that the others wait for.
/// It is not in namespace kernels: libraries that link to libringrad.so call it, and libringrad.so
/// does not export the names of that namespace.
void watch_for_load() noexcept;

namespace kernels {

/// True while waiting threads spin only briefly, because the machine is busy.
bool spins_briefly() noexcept;

}  // namespace kernels
}  // namespace ringrad
