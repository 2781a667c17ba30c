// The generation of a run: a number that grows with every start, and that checkpoints carry (checkpoint.h).
//
// A process begins with the microseconds since 1970 at which it first asks, or with one more than the generation that it
// loads, whichever is larger. Ranks of a group agree on the largest of theirs whenever they save or load. So a job that
// goes on without some of its ranks may still replace what they have saved. If a group breaks during a save, the ranks
// that are left take the next generation: rank 0 may only be stopped, and must not replace anything when it goes on.

#pragma once

#include <cstdint>
#include <string>

namespace ringrad::nn {

/// This process's generation. Thread-safe, as the next one.
std::int64_t run_generation();

/// Makes this process's generation at least `least`.
void raise_generation(std::int64_t least);

/// After a checkpoint of generation `loaded` has been loaded. What this process has saved itself raises nothing.
void continue_from_generation(std::int64_t loaded);

/// The largest number that counts as a generation. The next one is a number as well.
constexpr std::int64_t kLastGeneration = std::int64_t{1} << 62;

/// Digits in names and headers, where texts of one length sort as their numbers.
constexpr std::size_t kGenerationDigits = 20;
std::string generation_digits(std::int64_t generation);

}  // namespace ringrad::nn
