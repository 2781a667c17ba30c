#include "ringrad/parallel/comm/memory/program_words.h"

#include <cstddef>
#include <type_traits>

namespace ringrad {
namespace {

// Both go through the same fields in the same order.
struct Writer {
  std::vector<std::uint32_t> words;

  template <class T>
  void operator()(T& value) {
    words.push_back(static_cast<std::uint32_t>(value));
    if constexpr (sizeof(T) == 8)
      words.push_back(static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32));
  }
};

struct Reader {
  const std::uint32_t* next;

  template <class T>
  void operator()(T& value) {
    std::uint64_t number = *next++;
    if constexpr (sizeof(T) == 8) number |= static_cast<std::uint64_t>(*next++) << 32;
    value = static_cast<T>(number);
  }
};

template <class Archive, class... Values>
void all(Archive& archive, Values&... values) {
  (fields(archive, values), ...);
}

template <class Archive, class T>
requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void fields(Archive& archive, T& value) {
  archive(value);
}

// Strings and vectors.
template <class Archive, class List>
requires requires(List& values) { values.resize(1); }
void fields(Archive& archive, List& values) {
  std::size_t size = values.size();
  archive(size);
  values.resize(size);
  for (auto& value : values) fields(archive, value);
}

template <class Archive>
void fields(Archive& archive, ChunkPlace& place) {
  all(archive, place.area, place.part);
}

template <class Archive>
void fields(Archive& archive, Milestone& milestone) {
  all(archive, milestone.rank, milestone.progress);
}

template <class Archive>
void fields(Archive& archive, Term& term) {
  all(archive, term.ready, term.place);
}

template <class Archive>
void fields(Archive& archive, Delivery& delivery) {
  all(archive, delivery.rank, delivery.place);
}

template <class Archive>
void fields(Archive& archive, Instruction& instruction) {
  all(archive, instruction.op, instruction.step, instruction.chunk, instruction.place,
      instruction.copy, instruction.completes, instruction.delivered, instruction.terms,
      instruction.deliver_to);
}

template <class Archive>
void shared_fields(Archive& archive, PlanPrograms& programs) {
  all(archive, programs.algorithm, programs.num_parts, programs.has_shares, programs.max_length,
      programs.fingerprint, programs.has_partial_sums);
  std::size_t num_ranks = programs.ranks.size();
  archive(num_ranks);
  programs.ranks.resize(num_ranks);
  for (PlanProgram& program : programs.ranks) fields(archive, program.publications);
}

template <class Archive>
void own_fields(Archive& archive, PlanProgram& program) {
  all(archive, program.instructions, program.num_leading, program.num_staged,
      program.writes_staging, program.last_reads);
}

}  // namespace

// First what all ranks need; then where each rank's part begins; then the parts.
std::vector<std::uint32_t> to_words(const PlanPrograms& programs) {
  PlanPrograms copy = programs;
  Writer writer;
  shared_fields(writer, copy);
  const std::size_t table = writer.words.size();
  writer.words.resize(table + copy.ranks.size());
  for (std::size_t r = 0; r < copy.ranks.size(); ++r) {
    writer.words[table + r] = static_cast<std::uint32_t>(writer.words.size());
    own_fields(writer, copy.ranks[r]);
  }
  return std::move(writer.words);
}

PlanPrograms from_words(const std::uint32_t* words, int rank) {
  PlanPrograms programs;
  Reader reader{words};
  shared_fields(reader, programs);
  Reader own{words + reader.next[rank]};
  own_fields(own, programs.ranks[static_cast<std::size_t>(rank)]);
  return programs;
}

}  // namespace ringrad
