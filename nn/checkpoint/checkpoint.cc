#include "ringrad/nn/checkpoint/checkpoint.h"

#include <algorithm>
#include <utility>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/nn/checkpoint/generation.h"
#include "ringrad/nn/checkpoint/tensor_file.h"
#include "ringrad/nn/optimizer/step_counts.h"

namespace ringrad::nn {
namespace {

constexpr std::int64_t kGeneratorNumbers = 2;  // seed and offset

std::string full_name(const std::string& item, const std::string& below) {
  return below.empty() ? item : item + '.' + below;
}

Tensor row_of(const Generator& generator) {
  const Tensor row = empty({1, kGeneratorNumbers}, {.dtype = DType::int64, .device = Device()});
  row.data<std::int64_t>()[0] = static_cast<std::int64_t>(generator.seed());
  row.data<std::int64_t>()[1] = static_cast<std::int64_t>(generator.offset());
  return row;
}

Generator generator_of(const Tensor& row) {
  const auto numbers = row.to_vector<std::int64_t>();
  Generator generator(static_cast<std::uint64_t>(numbers[0]));
  generator.set_offset(static_cast<std::uint64_t>(numbers[1]));
  return generator;
}

bool has_rows(const Tensor& x) {
  return x.dtype() == DType::int64 && x.dims() == 2 && x.shape()[1] == kGeneratorNumbers;
}

// Of an object with a state dict that it can also check.
template <class Stateful>
Checkpoint::Access access_of(Stateful& item) {
  return {[&item] { return item.state_dict(); },
          [&item](const StateDict& state, Where at) { item.load_state_dict(state, at); },
          [&item](const StateDict& state, Where at) { item.check_state_dict(state, at); }};
}

template <class Number>
Checkpoint::Access access_to(Number& number) {
  return {[&number] {
            return StateDict{{"", state_number(number)}};
          },
          [&number](const StateDict& state, Where at) { number = state.at("").item<Number>(at); }};
}

}  // namespace

void Checkpoint::add(const std::string& name, Access access, Where where) {
  const bool is_new = std::none_of(items_.begin(), items_.end(),
                                   [&](const Item& other) { return other.name == name; });
  RINGRAD_CHECK(is_new && !name.empty() && name.find('.') == std::string::npos, ValueError, where,
                "checkpoint: a name must be new and without dots; got \"", name, '"');
  items_.push_back({name, std::move(access)});
}

void Checkpoint::add(const std::string& name, Module& module, Where where) {
  add(name,
      Access{[&module] { return module.state_dict(); },
             [&module](const StateDict& state, Where at) { module.load_state_dict(state, at); }},
      where);
  for (const auto& [below, buffer] : module.named_buffers())
    names_of_buffers_.push_back(full_name(name, below));
}

void Checkpoint::add(const std::string& name, Optimizer& optimizer, Where where) {
  add(name, access_of(optimizer), where);
  items_.back().is_optimizer = true;
}

void Checkpoint::add(const std::string& name, GradScaler& scaler, Where where) {
  add(name, access_of(scaler), where);
}

void Checkpoint::add(const std::string& name, ExponentialMovingAverage& average, Where where) {
  add(name, access_of(average), where);
}

void Checkpoint::add(const std::string& name, Plateau& plateau, Where where) {
  add(name, access_of(plateau), where);
}

void Checkpoint::add(const std::string& name, Tensor& tensor, Where where) {
  add(name,
      Access{[&tensor] {
               return StateDict{{"", tensor}};
             },
             [&tensor](const StateDict& state, Where at) {
               kernels::copy_(tensor.detach(), state.at(""), at);
             }},
      where);
}

void Checkpoint::add(const std::string& name, std::int64_t& number, Where where) {
  add(name, access_to(number), where);
}

void Checkpoint::add(const std::string& name, double& number, Where where) {
  add(name, access_to(number), where);
}

void Checkpoint::add(const std::string& name, Generator& generator, Where where) {
  add(name,
      Access{
          [&generator] {
            return StateDict{{"", row_of(generator)}};
          },
          [&generator](const StateDict& state, Where) { generator = generator_of(state.at("")); }},
      where);
  names_per_rank_.push_back(name);
}

StateDict Checkpoint::state() const {
  StateDict state;
  for (const Item& item : items_)
    for (const auto& [below, tensor] : item.access.get())
      state.emplace(full_name(item.name, below), tensor);
  return state;
}

StateDict Checkpoint::completed(StateDict given) const {
  StateDict of_optimizers;
  for (const Item& item : items_)
    if (item.is_optimizer)
      for (const auto& [below, tensor] : item.access.get())
        of_optimizers.emplace(full_name(item.name, below), tensor);
  return with_step_counts(std::move(given), of_optimizers);
}

// The given state with this rank's own generators; a rank without an entry keeps its generators.
StateDict Checkpoint::state_for(int rank, const StateDict& given) const {
  const StateDict own = this->state();
  StateDict state = completed(given);
  for (const std::string& name : names_per_rank_)
    if (const auto found = state.find(name); found != state.end() && has_rows(found->second))
      found->second = rank < found->second.shape()[0]
                          ? view::slice(found->second, 0, rank, rank + 1)
                          : own.at(name);
  return state;
}

StateDict Checkpoint::part_of(const Item& item, const StateDict& state) {
  StateDict part;
  for (const auto& [below, tensor] : item.access.get())
    part.emplace(below, state.at(full_name(item.name, below)));
  return part;
}

void Checkpoint::check_state(const StateDict& state, int rank, Where where) const {
  const StateDict given = state_for(rank, state);
  check_same_layout("load_checkpoint", this->state(), given, where);
  for (const Item& item : items_) item.access.check(part_of(item, given), where);
}

void Checkpoint::load_state(const StateDict& state, int rank, Where where) {
  check_state(state, rank, where);
  const StateDict given = state_for(rank, state);
  for (const Item& item : items_) item.access.set(part_of(item, given), where);
}

void Checkpoint::save(const std::filesystem::path& path, Where where) const {
  write_tensors(path, state(), run_generation(), where);
}

bool Checkpoint::load(const std::filesystem::path& path, Where where) {
  if (!may_be_file(path)) return false;
  std::int64_t generation = 0;
  load_state(read_tensors(path, generation, where), 0, where);
  continue_from_generation(generation);
  return true;
}

}  // namespace ringrad::nn
