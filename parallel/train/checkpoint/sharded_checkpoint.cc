// The list of a checkpoint's items, and the pieces of tensors that they consist of. Writing:
// sharded_checkpoint_save.cc; reading: sharded_checkpoint_load.cc.

#include "ringrad/parallel/train/checkpoint/sharded_checkpoint.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "ringrad/core/view.h"
#include "ringrad/parallel/train/checkpoint/checkpoint_agreement.h"

namespace ringrad {
namespace {

// The tensors of an item by their names below it. An item that is one tensor has the name "".
nn::StateDict below(const nn::StateDict& local, const std::string& item) {
  nn::StateDict found;
  if (const auto itself = local.find(item); itself != local.end())
    found.emplace("", itself->second);
  const std::string prefix = item + '.';
  for (auto next = local.lower_bound(prefix);
       next != local.end() && next->first.starts_with(prefix); ++next)
    found.emplace(next->first.substr(prefix.size()), next->second);
  return found;
}

std::string joined(const std::string& item, const std::string& name) {
  return name.empty() ? item : item + '.' + name;
}

PieceFacts whole_facts(const std::string& name, const Tensor& tensor, Spread spread) {
  return {name, tensor.dtype(), tensor.shape(), whole_slice(tensor.shape()), spread};
}

// Row `rank` of a tensor that has one row per rank.
PieceFacts row_facts(const std::string& name, const Tensor& tensor, const Communicator& comm) {
  std::vector<std::int64_t> extents{comm.world_size()};
  extents.insert(extents.end(), tensor.shape().begin(), tensor.shape().end());
  const std::int64_t count = tensor.numel();
  return {name,
          tensor.dtype(),
          Shape(extents),
          {1, comm.rank() * count, (comm.rank() + 1) * count},
          Spread::per_rank};
}

// "12.momentum" is parameter 12's momentum, which is split as the parameter is; "12.steps" is one
// number. "step" belongs to no parameter: its number is -1.
struct StateName {
  explicit StateName(const std::string& name) : what(name) {
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && *end == '.')
      what = std::string(end + 1);
    else
      number = -1;
  }
  std::int64_t number = -1;
  std::string what;
};

// Of an object that can also check a state dict.
template <class Stateful>
nn::Checkpoint::Access access_of(Stateful& item) {
  return {[&item] { return item.state_dict(); },
          [&item](const nn::StateDict& state, Where at) { item.load_state_dict(state, at); },
          [&item](const nn::StateDict& state, Where at) { item.check_state_dict(state, at); }};
}

}  // namespace

void ShardedCheckpoint::add_module(const std::string& name, const std::string& local,
                                   nn::Module& module, Spread spread, Where where) {
  local_.add(local, module, where);
  const std::map<std::string, ParameterLayout> layouts = layouts_of(name, module, spread);
  for (const auto& [path, parameter] : module.named_parameters())
    parameters_.emplace(parameter.impl(), layouts.at(path));
  std::set<std::string> buffers;
  for (const auto& [path, buffer] : module.named_buffers()) buffers.insert(path);
  items_.push_back([=](const nn::StateDict& state, std::vector<Piece>& pieces, Where) {
    for (const auto& [path, tensor] : below(state, local)) {
      const ParameterLayout& layout = layouts.at(path);
      pieces.push_back({{layout.name, tensor.dtype(), layout.shape, layout.slice, layout.spread},
                        tensor,
                        buffers.contains(path)});
    }
  });
}

void ShardedCheckpoint::add(const std::string& name, nn::Module& module, Where where) {
  add_module(name, name, module, Spread::replicated, where);
}

void ShardedCheckpoint::add_owned(const std::string& name, nn::Module& module, Where where) {
  add_module(name, name, module, Spread::owned, where);
}

void ShardedCheckpoint::add_stages(const std::string& name, std::vector<nn::Sequential>& stages,
                                   const Communicator& pipeline, Where where) {
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (static_cast<int>(s) % pipeline.world_size() == pipeline.rank())
      add_module(name, concat(name, '#', s), stages[s], Spread::owned, where);
}

const ParameterLayout& ShardedCheckpoint::layout_of(const Tensor& parameter,
                                                    const std::string& item, Where where) const {
  const auto found = parameters_.find(parameter.impl());
  RINGRAD_CHECK(
      found != parameters_.end(), ValueError, where,
      "checkpoint: the module of each parameter must be added before the optimizer; got \"", item,
      "\" with a parameter ", parameter.shape(), " of none");
  return found->second;
}

// All ranks that have a part of a parameter agree on how often it was changed, and all ranks agree
// on what belongs to no parameter. `add_rest` adds the pieces of the other tensors.
template <class AddRest>
void ShardedCheckpoint::add_optimizer_state(const std::string& name,
                                            const std::vector<Tensor>& parameters, AddRest add_rest,
                                            Where where) {
  std::vector<std::string> names;
  for (const Tensor& parameter : parameters)
    names.push_back(layout_of(parameter, name, where).name);
  items_.push_back([=](const nn::StateDict& state, std::vector<Piece>& pieces, Where at) {
    for (const auto& [path, tensor] : below(state, name)) {
      const StateName parsed(path);
      const auto number = static_cast<std::size_t>(parsed.number);
      if (parsed.number < 0)
        pieces.push_back({whole_facts(joined(name, path), tensor, Spread::owned), tensor});
      else if (parsed.what == "steps")
        pieces.push_back(
            {whole_facts(concat(name, '.', names.at(number), ".steps"), tensor, Spread::owned),
             tensor});
      else
        add_rest(number, parsed.what, tensor, pieces, at);
    }
  });
}

// A parameter's state is split like the parameter; a pipeline's ranks may have no optimizer at all.
void ShardedCheckpoint::add(const std::string& name, nn::Optimizer& optimizer, Where where) {
  std::vector<ParameterLayout> layouts;
  for (const Tensor& parameter : optimizer.parameters())
    layouts.push_back(layout_of(parameter, name, where));
  local_.add(name, optimizer, where);
  const auto add_rest = [=](std::size_t number, const std::string& what, const Tensor& tensor,
                            std::vector<Piece>& pieces, Where at) {
    const ParameterLayout& layout = layouts.at(number);
    RINGRAD_CHECK(tensor.numel() == layout.slice.numel(), ValueError, at, "checkpoint: ", name,
                  "'s ", what, " of ", layout.name,
                  " must have an element for each of the parameter's; got ", tensor.numel(),
                  " for ", layout.slice.numel());
    pieces.push_back({{concat(name, '.', layout.name, '.', what), tensor.dtype(), layout.shape,
                       layout.slice, layout.spread},
                      tensor});
  };
  add_optimizer_state(name, optimizer.parameters(), add_rest, where);
}

// Cuts a part of an arena where parameters begin and end.
void ShardedCheckpoint::add_flat_pieces(const std::string& item, const Tensor& flat,
                                        const std::string& what, const ShardedOptimizer::Part& part,
                                        const nn::ParameterArena& arena,
                                        const std::vector<ParameterLayout>& layouts,
                                        std::vector<Piece>& pieces) {
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const auto [offset, count] = arena.slices()[i];
    const std::int64_t begin = std::max(part.begin, offset),
                       end = std::min(part.begin + part.count, offset + count);
    if (begin >= end) continue;
    const ParameterLayout& layout = layouts[i];
    const std::int64_t first = layout.slice.begin - offset;
    pieces.push_back({{concat(item, '.', layout.name, '.', what),
                       flat.dtype(),
                       layout.shape,
                       {1, first + begin, first + end},
                       Spread::sharded},
                      view::slice(flat, 0, begin - part.begin, end - part.begin)});
  }
}

void ShardedCheckpoint::add(const std::string& name, ShardedOptimizer& optimizer, Where where) {
  std::vector<std::vector<ParameterLayout>> layouts;  // by arena and parameter
  for (const nn::ParameterArena& arena : optimizer.arenas()) {
    layouts.emplace_back();
    for (const Tensor& parameter : arena.parameters()) {
      const ParameterLayout& layout = layout_of(parameter, name, where);
      RINGRAD_CHECK(layout.slice.rows == 1 && parameter.is_contiguous(), ValueError, where,
                    "checkpoint: a parameter whose optimizer state is sharded must lie in memory "
                    "as it does on one rank; got ",
                    layout.name, ", split along a later axis or permuted");
      layouts.back().push_back(layout);
    }
  }
  local_.add(name, access_of(optimizer), where);
  const auto add_rest = [name, layouts, &optimizer](std::size_t number, const std::string& what,
                                                    const Tensor& tensor,
                                                    std::vector<Piece>& pieces, Where at) {
    const ShardedOptimizer::Part part = optimizer.parts().at(number);
    RINGRAD_CHECK(tensor.numel() == part.count, ValueError, at, "checkpoint: ", name, "'s ", what,
                  " must have an element for each of the arena's; got ", tensor.numel(), " for ",
                  part.count);
    add_flat_pieces(name, tensor, what, part, optimizer.arenas()[part.arena], layouts[part.arena],
                    pieces);
  };
  add_optimizer_state(name, optimizer.parameters(), add_rest, where);
}

void ShardedCheckpoint::add_whole(const std::string& name) {
  items_.push_back([name](const nn::StateDict& state, std::vector<Piece>& pieces, Where) {
    for (const auto& [path, tensor] : below(state, name))
      pieces.push_back({whole_facts(joined(name, path), tensor, Spread::replicated), tensor});
  });
}

void ShardedCheckpoint::add_rows(const std::string& name, OtherRanks other_ranks) {
  items_.push_back([this, name, other_ranks](const nn::StateDict& state, std::vector<Piece>& pieces,
                                             Where) {
    for (const auto& [path, tensor] : below(state, name))
      pieces.push_back({row_facts(joined(name, path), tensor, comm_), tensor, false, other_ranks});
  });
}

void ShardedCheckpoint::add(const std::string& name, Generator& generator, Where where) {
  local_.add(name, generator, where);
  add_rows(name, OtherRanks::keep);
}

void ShardedCheckpoint::add_per_rank(const std::string& name, nn::Checkpoint::Access access,
                                     OtherRanks other_ranks, Where where) {
  local_.add(name, std::move(access), where);
  add_rows(name, other_ranks);
}

void ShardedCheckpoint::add(const std::string& name, LocalSGD& average, Where where) {
  local_.add(name, access_of(average), where);
  add_whole(name);
}

void ShardedCheckpoint::add(const std::string& name, const CommunicationHook& hook, Where where) {
  const std::shared_ptr<HookState> state = state_of(hook);
  // The list refuses names that are taken.
  local_.add(
      name,
      nn::Checkpoint::Access{[] { return nn::StateDict(); }, [](const nn::StateDict&, Where) {}},
      where);
  if (!state) return;
  hooks_.emplace(name, state);
  items_.push_back([this, name](const nn::StateDict& local, std::vector<Piece>& pieces, Where) {
    for (const auto& [path, tensor] : below(local, name))
      if (path.starts_with("left"))
        pieces.push_back(
            {row_facts(joined(name, path), tensor, comm_), tensor, false, OtherRanks::mean});
      else
        pieces.push_back({whole_facts(joined(name, path), tensor, Spread::replicated), tensor});
  });
}

// --- This rank's state ---

nn::StateDict ShardedCheckpoint::local_state() const {
  nn::StateDict state = local_.state();
  for (const auto& [name, hook] : hooks_)
    for (const auto& [path, tensor] : hook->state()) state.emplace(joined(name, path), tensor);
  return state;
}

// CPU memory for the values to be loaded, filled with this rank's. Hooks' tensors are those that
// the index has.
nn::StateDict ShardedCheckpoint::staged_for(const CheckpointIndex& index, Where where) const {
  nn::StateDict staged = local_.state();
  for (auto& [name, tensor] : staged) tensor = host_copy(tensor, where);
  for (const auto& [hook, state] : hooks_)
    for (const auto& [name, entry] : index.tensors) {
      if (!name.starts_with(hook + '.')) continue;
      Shape shape = entry.shape;
      if (entry.spread == Spread::per_rank && !shape.empty()) shape.erase(0);
      staged.emplace(name, zeros(shape, {.dtype = entry.dtype, .device = Device()}, where));
    }
  return staged;
}

// Each rank checks its part before any rank changes anything.
void ShardedCheckpoint::set_state(nn::StateDict staged, Where where) {
  std::map<std::string, nn::StateDict> of_hooks;
  for (const auto& [name, hook] : hooks_) of_hooks[name] = below(staged, name);
  for (const auto& [name, state] : of_hooks)
    for (const auto& [path, tensor] : state) staged.erase(joined(name, path));
  on_all_ranks(comm_, where, [&] {
    local_.check_state(staged, 0, where);
    for (const auto& [name, hook] : hooks_) hook->check(of_hooks.at(name), where);
  });
  on_all_ranks(comm_, where, [&] {
    local_.load_state(staged, 0, where);
    for (const auto& [name, hook] : hooks_) hook->load(of_hooks.at(name), where);
  });
}

std::vector<ShardedCheckpoint::Piece> ShardedCheckpoint::pieces_of(const nn::StateDict& local,
                                                                   Where where) const {
  std::vector<Piece> pieces;
  for (const AddPieces& add_pieces : items_) add_pieces(local, pieces, where);
  return pieces;
}

}  // namespace ringrad
