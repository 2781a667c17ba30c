#include "ringrad/nn/optimizer/partial_gradients.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace ringrad::nn {
namespace {

struct Mark {
  const PartialGradients* owner;
  PartOf part;
  std::string text;
};

// Ranks may be threads, each with parameters of its own.
struct Marks {
  std::mutex mutex;
  std::unordered_multimap<const TensorImpl*, Mark> of;
};
Marks& marks() {
  static Marks* const all = new Marks;  // models may outlive other statics
  return *all;
}

const char* text_of(PartOf part) {
  switch (part) {
    case PartOf::slice:
      return ", of which each rank has a slice";
    case PartOf::stage:
      return ", one stage's of a model that several ranks have";
    case PartOf::summand:
      return ", which is averaged over the ranks in step()";
  }
  return "";
}

}  // namespace

PartialGradients::PartialGradients(PartOf part, std::string scheme,
                                   std::vector<NamedTensor> parameters)
    : parameters_(std::move(parameters)), scheme_(std::move(scheme)) {
  const std::lock_guard lock(marks().mutex);
  for (const auto& [name, parameter] : parameters_)
    marks().of.emplace(parameter.impl(),
                       Mark{this, part, concat(name, " of ", scheme_, text_of(part))});
}

PartialGradients::~PartialGradients() {
  const std::lock_guard lock(marks().mutex);
  for (const auto& [name, parameter] : parameters_) {
    const auto [begin, end] = marks().of.equal_range(parameter.impl());
    const auto own =
        std::find_if(begin, end, [&](const auto& it) { return it.second.owner == this; });
    if (own != end) marks().of.erase(own);
  }
}

void check_not_partial(const char* rule, const std::vector<Tensor>& parameters,
                       const std::vector<PartOf>& allowed, Where where) {
  const std::lock_guard lock(marks().mutex);
  if (marks().of.empty()) return;
  for (const Tensor& parameter : parameters) {
    const auto [begin, end] = marks().of.equal_range(parameter.impl());
    for (auto mark = begin; mark != end; ++mark)
      RINGRAD_CHECK(std::ranges::find(allowed, mark->second.part) != allowed.end(), ValueError,
                    where, rule, "; got ", mark->second.text, "; see ModelGradients");
  }
}

}  // namespace ringrad::nn
