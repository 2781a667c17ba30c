// The generation of a run: a number that grows with every start and that checkpoints carry
// (checkpoint.h).
//
// A process's generation is the larger of two numbers: the time in microseconds since 1970 when the
// process first asks for it, and one more than the generation that it loads. The ranks of a group
// agree on their largest generation whenever they save or load. So a job that continues without
// some of its ranks may still replace what they saved. If a group breaks during a save, the
// remaining ranks take the next generation: rank 0 may only be suspended, and must not replace
// anything when it resumes.

#pragma once

#include <cstdint>
#include <string>

namespace ringrad::nn {

/// This process's generation. All functions here are thread-safe.
std::int64_t run_generation();

/// Makes this process's generation at least `least`, or kLastGeneration if that is smaller.
void raise_generation(std::int64_t least);

/// To be called after a checkpoint of generation `loaded` has been loaded. A checkpoint that this
/// process saved itself raises nothing.
void continue_from_generation(std::int64_t loaded);

/// The largest valid generation. One more still fits into an int64. No clock reaches it. All runs
/// that continue from a checkpoint of this generation have the same generation, and may replace
/// each other's checkpoints.
constexpr std::int64_t kLastGeneration = std::int64_t{1} << 62;

/// Number of digits in names and headers: texts of equal length sort in the order of their numbers.
constexpr std::size_t kGenerationDigits = 20;
std::string generation_digits(std::int64_t generation);

}  // namespace ringrad::nn
