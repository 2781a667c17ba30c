#include "ringrad/parallel/comm/memory/program_words.h"

#include <cstddef>
#include <string>
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

template <class Archive, class T>
requires(std::is_arithmetic_v<T>) void fields(Archive& archive, T& value) { archive(value); }

template <class Archive>
void fields(Archive& archive, ChunkPlace& place) {
  archive(place.area);
  archive(place.part);
}

template <class Archive>
void fields(Archive& archive, Milestone& milestone) {
  archive(milestone.rank);
  archive(milestone.progress);
}

template <class Archive>
void fields(Archive& archive, Term& term) {
  fields(archive, term.ready);
  fields(archive, term.place);
}

template <class Archive>
void fields(Archive& archive, Delivery& delivery) {
  archive(delivery.rank);
  fields(archive, delivery.place);
}

template <class Archive, class List>
void list(Archive& archive, List& values) {
  std::size_t size = values.size();
  archive(size);
  values.resize(size);
  for (auto& value : values) fields(archive, value);
}

template <class Archive>
void fields(Archive& archive, Instruction& instruction) {
  archive(instruction.op);
  archive(instruction.step);
  archive(instruction.chunk);
  fields(archive, instruction.place);
  fields(archive, instruction.copy);
  archive(instruction.completes);
  archive(instruction.delivered);
  list(archive, instruction.terms);
  list(archive, instruction.deliver_to);
}

template <class Archive>
void shared_fields(Archive& archive, PlanPrograms& programs) {
  list(archive, programs.algorithm);
  archive(programs.num_parts);
  archive(programs.has_shares);
  archive(programs.max_length);
  archive(programs.fingerprint);
  archive(programs.has_partial_sums);
  std::size_t num_ranks = programs.ranks.size();
  archive(num_ranks);
  programs.ranks.resize(num_ranks);
  for (PlanProgram& program : programs.ranks) list(archive, program.publications);
}

template <class Archive>
void own_fields(Archive& archive, PlanProgram& program) {
  list(archive, program.instructions);
  archive(program.num_leading);
  archive(program.num_staged);
  archive(program.writes_staging);
  list(archive, program.last_reads);
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
