#include "ringrad/autograd/activation_checkpoint.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/split_backward.h"
#include "ringrad/core/base/scoped_value.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/random/random.h"
#include "ringrad/core/view.h"

namespace ringrad {
namespace {

// The inputs without history; those whose originals require a gradient require one here.
std::vector<Tensor> as_leaves(const std::vector<SavedTensor>& saved,
                              const std::vector<bool>& needs) {
  std::vector<Tensor> leaves;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    leaves.push_back(saved[i].get().detach());
    if (needs[i]) leaves.back().set_requires_grad();
  }
  return leaves;
}

// The first half of a split pass, for a segment that was run again: the segment's leaves wait for
// the second half.
void backward_first_half(BackwardContext& context, const Tensor& y,
                         const std::vector<Tensor>& leaves) {
  std::vector<Tensor> inputs;
  for (const Tensor& x : leaves)
    if (x.requires_grad()) inputs.push_back(x);
  auto [grads, weights] =
      backward_inputs({&y, 1}, {&context.grad_output(), 1}, inputs, context.where());
  for (std::size_t i = 0, next = 0; i < leaves.size(); ++i)
    if (leaves[i].requires_grad()) context.set(static_cast<int>(i), grads[next++]);
  leave_to_second_half([rest = std::make_shared<WeightGradients>(std::move(weights)),
                        where = context.where()] { rest->accumulate(where); });
}

// The numbers that generators of the function's own have drawn: their seeds and first counters. The
// default generator is not among them, as backward resets it.
struct Draw {
  const Generator* generator;  // only compared: it may be gone
  std::uint64_t seed, num_words, first;
};

// While it exists, sees the draws of this thread, and of those that do a part of its work
// (parallel/train/common/caller_state.h). Watches may nest: an inner one asks the outer.
class ScopedDrawWatch : public detail::DrawWatch {
 protected:
  std::uint64_t draw(Generator& generator, std::uint64_t num_words) {
    DrawWatch* const outer = scope_.before();
    return outer ? outer->reserve(generator, num_words) : generator.advance(num_words);
  }

 private:
  const ScopedValue<DrawWatch*> scope_{detail::draw_watch, this};
};

class RecordedDraws final : public ScopedDrawWatch {
 public:
  std::uint64_t reserve(Generator& generator, std::uint64_t num_words) override {
    const std::uint64_t first = draw(generator, num_words);
    if (&generator == &default_generator()) return first;
    const std::lock_guard lock(mutex_);
    draws_.push_back({&generator, generator.seed(), num_words, first});
    return first;
  }
  /// REQUIRES: no thread draws
  const std::vector<Draw>& draws() const { return draws_; }

 private:
  std::mutex mutex_;
  std::vector<Draw> draws_;
};

// Gives the numbers again, to each generator in the order of its own draws: threads may draw in
// another order than before. The generators stay as they are, as if they had not been asked.
class RepeatedDraws final : public ScopedDrawWatch {
 public:
  RepeatedDraws(const std::vector<Draw>& draws, Where where)
      : draws_(draws), where_(where), is_used_(draws.size()) {}

  std::uint64_t reserve(Generator& generator, std::uint64_t num_words) override {
    if (&generator == &default_generator()) return draw(generator, num_words);
    const std::lock_guard lock(mutex_);
    const std::size_t i = next_of(generator);
    const bool is_same = i < draws_.size() && draws_[i].num_words == num_words;
    RINGRAD_CHECK(is_same, AutogradError, where_,
                  "backward of activation_checkpoint: the function must draw the same random "
                  "numbers again; got draw ",
                  num_used_ + 1, " of ", draws_.size(), " with seed ", generator.seed());
    is_used_[i] = true;
    ++num_used_;
    return draws_[i].first;
  }

 private:
  // The first draw left of this generator, or of one with its seed, if it is made anew in each run.
  std::size_t next_of(const Generator& generator) const {
    std::size_t of_seed = draws_.size();
    for (std::size_t i = 0; i < draws_.size(); ++i) {
      if (is_used_[i] || draws_[i].seed != generator.seed()) continue;
      if (draws_[i].generator == &generator) return i;
      of_seed = std::min(of_seed, i);
    }
    return of_seed;
  }

  const std::vector<Draw>& draws_;
  Where where_;
  std::mutex mutex_;
  std::vector<bool> is_used_;
  std::size_t num_used_ = 0;
};

// Refuses what was changed in place since a number of changes, until the end of the scope.
class ScopedQuietTime {
 public:
  ScopedQuietTime(std::uint64_t after, Where where)
      : time_{after, Storage::num_changes(), "activation_checkpoint", where} {}

 private:
  const detail::QuietTime time_;
  const ScopedValue<const detail::QuietTime*> scope_{detail::quiet_time, &time_};
};

}  // namespace

Tensor activation_checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                             const std::vector<Tensor>& inputs, Where where) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    RINGRAD_CHECK(inputs[i].defined(), ValueError, where,
                  "activation_checkpoint: inputs must be defined; got an undefined input ", i);
  if (!grad_enabled()) return f(inputs);
  // Random numbers differ at each replay and cannot be drawn again.
  refuse_while_capturing("activation_checkpoint()", where);
  const Generator before = default_generator();
  const std::function<Tensor(const std::vector<Tensor>&)> copy = f;  // f may change itself
  std::vector<Draw> draws;
  Tensor y;
  {
    const NoGradGuard guard;
    const RecordedDraws recorded;
    y = f(inputs);
    draws = recorded.draws();
  }
  if (!is_floating(y.dtype(where))) return y;
  const std::uint64_t num_changes = Storage::num_changes();
  // f may return a tensor that other code holds as well; the recorded result must be a separate
  // object.
  y = view::alias(y, where);

  std::vector<SavedTensor> saved;
  std::vector<bool> needs;
  for (const Tensor& x : inputs) {
    saved.push_back(save(x));
    needs.push_back(x.requires_grad());
  }
  record("activation_checkpoint", where, {&y, 1}, inputs,
         [f = copy, saved, needs, before, draws, num_changes,
          mixed = autocast_dtype()](BackwardContext& context) {
           RINGRAD_CHECK(!grad_enabled(), AutogradError, context.where(),
                         "backward of activation_checkpoint: create_graph must be off; got on");
           const std::vector<Tensor> leaves = as_leaves(saved, needs);
           RINGRAD_CHECK(!computing_grad(), AutogradError, context.where(),
                         "backward of activation_checkpoint: it must run for backward(), since it "
                         "adds to the leaves that the segment uses; got grad()");
           Tensor again;
           {
             const ScopedValue rewound(default_generator(), before);
             const RepeatedDraws repeated(draws, context.where());
             const ScopedQuietTime quiet(num_changes, context.where());
             const EnableGradGuard guard;
             const Autocast as_then(mixed);
             again = f(leaves);
           }
           if (!again.requires_grad()) return;
           if (in_first_half()) return backward_first_half(context, again, leaves);
           again.backward(context.grad_output(), {}, context.where());
           for (std::size_t i = 0; i < leaves.size(); ++i)
             if (needs[i]) context.set(static_cast<int>(i), leaves[i].grad());
         });
  return y;
}

}  // namespace ringrad
