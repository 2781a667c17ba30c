// Sequential: modules applied one after the other.
//
//     nn::Sequential net(nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10));
//
// Children are named by position, or by the name that append() is given. A ReLU is folded into the
// preceding module if that module can do both in one pass (Module::forward_relu): the same numbers
// with less memory traffic.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

class Sequential : public Module {
 public:
  template <std::derived_from<Module>... Modules>
  explicit Sequential(Modules... modules) {
    (append(std::move(modules)), ...);
  }

  /// Adds a module at the end.
  template <std::derived_from<Module> M>
  void append(M module) {
    append(std::to_string(num_children()), std::move(module));
  }
  /// The same under a name or path, such as "layer1.0".
  template <std::derived_from<Module> M>
  void append(const std::string& name, M module, Where where = Where::current()) {
    append(name, made_shared(std::move(module)), where);
  }
  /// The same for a module that the caller may keep.
  void append(const std::string& name, std::shared_ptr<Module> module,
              Where where = Where::current());

  /// An error that a layer throws names the layer. Throws ValueError if this object was moved from.
  Tensor forward(const Tensor& x, Where at = Where::current()) override;

  std::size_t num_layers() const { return num_children(); }
  /// Layer i, and its name, which may be a path such as "layer1.0".
  /// REQUIRES: i < num_layers()
  Module& layer(std::size_t i) { return child_at(i); }
  const std::string& layer_name(std::size_t i) const { return child_name(i); }

  /// The stages of a pipeline: stage s has the layers [starts[s], starts[s + 1]); the last stage
  /// extends to the end. Layers keep their names, so the stages' state_dict()s together equal that
  /// of the whole.
  ///
  /// Throws:  ValueError unless starts[0] is 0, starts increase, and each is the index of a layer
  static std::vector<Sequential> split(Sequential net, const std::vector<std::size_t>& starts,
                                       Where where = Where::current());

 private:
  std::vector<bool> is_relu_;
};

}  // namespace ringrad::nn
