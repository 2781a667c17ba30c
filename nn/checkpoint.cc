#include "nn/checkpoint.h"

#include <algorithm>
#include <utility>

#include "core/view.h"
#include "kernels/copy.h"
#include "nn/tensor_file.h"

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

}  // namespace

void Checkpoint::add_item(Item item, Where where) {
  const bool is_new = std::none_of(items_.begin(), items_.end(),
                                   [&](const Item& other) { return other.name == item.name; });
  RINGRAD_CHECK(is_new && !item.name.empty() && item.name.find('.') == std::string::npos,
                ValueError, where, "checkpoint: a name must be new and without dots; got \"",
                item.name, '"');
  items_.push_back(std::move(item));
}

void Checkpoint::add(const std::string& name, Module& module, Where where) {
  add_item({name, [&module] { return module.state_dict(); },
            [&module](const StateDict& state, Where at) { module.load_state_dict(state, at); }},
           where);
}

void Checkpoint::add(const std::string& name, Optimizer& optimizer, Where where) {
  add_item(
      {name, [&optimizer] { return optimizer.state_dict(); },
       [&optimizer](const StateDict& state, Where at) { optimizer.load_state_dict(state, at); },
       [&optimizer](const StateDict& state, Where at) { optimizer.check_state_dict(state, at); }},
      where);
}

void Checkpoint::add(const std::string& name, GradScaler& scaler, Where where) {
  add_item({name, [&scaler] { return scaler.state_dict(); },
            [&scaler](const StateDict& state, Where at) { scaler.load_state_dict(state, at); },
            [&scaler](const StateDict& state, Where at) { scaler.check_state_dict(state, at); }},
           where);
}

void Checkpoint::add(const std::string& name, Tensor& tensor, Where where) {
  add_item(
      {name,
       [&tensor] {
         return StateDict{{"", tensor}};
       },
       [&tensor](const StateDict& state, Where at) { kernels::copy_(tensor, state.at(""), at); }},
      where);
}

void Checkpoint::add(const std::string& name, std::int64_t& number, Where where) {
  add_item({name,
            [&number] {
              const Options options{.dtype = DType::int64, .device = Device()};
              return StateDict{{"", scalar_tensor(number, options)}};
            },
            [&number](const StateDict& state, Where at) {
              number = state.at("").item<std::int64_t>(at);
            }},
           where);
}

void Checkpoint::add(const std::string& name, double& number, Where where) {
  add_item(
      {name,
       [&number] {
         const Options options{.dtype = DType::float64, .device = Device()};
         return StateDict{{"", scalar_tensor(number, options)}};
       },
       [&number](const StateDict& state, Where at) { number = state.at("").item<double>(at); }},
      where);
}

void Checkpoint::add(const std::string& name, Generator& generator, Where where) {
  add_item(
      {name,
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
    for (const auto& [below, tensor] : item.get())
      state.emplace(full_name(item.name, below), tensor);
  return state;
}

void Checkpoint::load_state(const StateDict& state, int rank, Where where) {
  const StateDict own = this->state();
  StateDict given = state;
  for (const std::string& name : names_per_rank_)
    if (const auto found = given.find(name); found != given.end() && has_rows(found->second))
      found->second = rank < found->second.shape()[0]
                          ? view::slice(found->second, 0, rank, rank + 1)
                          : own.at(name);
  check_same_layout("load_checkpoint", own, given, where);
  const auto part_of = [&](const Item& item) {
    StateDict part;
    for (const auto& [below, tensor] : item.get())
      part.emplace(below, given.at(full_name(item.name, below)));
    return part;
  };
  for (const Item& item : items_) item.check(part_of(item), where);
  for (const Item& item : items_) item.set(part_of(item), where);
}

void Checkpoint::save(const std::filesystem::path& path, Where where) const {
  write_tensors(path, state(), where);
}

bool Checkpoint::load(const std::filesystem::path& path, Where where) {
  if (!may_be_file(path)) return false;
  load_state(read_tensors(path, where), 0, where);
  return true;
}

}  // namespace ringrad::nn
