// ModuleList and ModuleDict: modules in a row, or by name, whose parent decides how to call them.
//
//     struct Net : nn::Module {
//       nn::ModuleList<Block>& blocks = child("blocks", nn::ModuleList<Block>());
//       Net() { for (int i = 0; i < 12; ++i) blocks.append(Block(256)); }
//       Tensor forward(const Tensor& x, Where) override {
//         Tensor y = x;
//         for (Block& block : blocks) y = block(y);
//         return y;
//       }
//     };
//
// Parameters are called "blocks.0.weight", or "heads.depth.weight" in a dict. Sequential
// (nn/layers/sequential.h) calls its modules itself.

#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/nn/module.h"

namespace ringrad::nn {

namespace detail {

/// Children of one type, as a range.
template <std::derived_from<Module> M>
class ModuleContainer : public Module {
 public:
  std::size_t size() const { return modules_.size(); }
  bool empty() const { return modules_.empty(); }

  class Iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = M;
    explicit Iterator(M* const* place = nullptr) : place_(place) {}
    M& operator*() const { return **place_; }
    Iterator& operator++() { return ++place_, *this; }
    Iterator operator++(int) { return Iterator(place_++); }
    bool operator==(const Iterator&) const = default;

   private:
    M* const* place_;
  };
  Iterator begin() const { return Iterator(modules_.data()); }
  Iterator end() const { return Iterator(modules_.data() + modules_.size()); }

 protected:
  M& add(const std::string& name, std::shared_ptr<Module> module, Where where) {
    modules_.push_back(static_cast<M*>(&add_child(name, std::move(module), where)));
    return *modules_.back();
  }
  M& at(std::size_t i) const { return *modules_[i]; }

 private:
  std::vector<M*> modules_;  // as owned by Module
};

}  // namespace detail

/// Modules of type M, called "0", "1" and so on.
template <std::derived_from<Module> M = Module>
class ModuleList : public detail::ModuleContainer<M> {
 public:
  /// Adds a module at the end, and returns it.
  template <std::derived_from<M> Added>
  Added& append(Added module, Where where = Where::current()) {
    return static_cast<Added&>(
        this->add(std::to_string(this->size()), Module::made_shared(std::move(module)), where));
  }
  /// The same for a module that the caller may keep.
  M& append(std::shared_ptr<M> module, Where where = Where::current()) {
    return this->add(std::to_string(this->size()), std::move(module), where);
  }

  /// Throws IndexError unless i < size().
  M& operator[](std::size_t i) const { return get(i); }
  M& get(std::size_t i, Where where = Where::current()) const {
    RINGRAD_CHECK(i < this->size(), IndexError, where, "ModuleList: an index must be below ",
                  this->size(), "; got ", i);
    return this->at(i);
  }
};

/// Modules of type M by name; iteration is in the order of insertion.
template <std::derived_from<Module> M = Module>
class ModuleDict : public detail::ModuleContainer<M> {
 public:
  /// Adds a module, and returns it. Throws ValueError as Module::child.
  template <std::derived_from<M> Added>
  Added& insert(const std::string& name, Added module, Where where = Where::current()) {
    auto& added =
        static_cast<Added&>(this->add(name, Module::made_shared(std::move(module)), where));
    names_.push_back(name);
    return added;
  }
  /// The same for a module that the caller may keep.
  M& insert(const std::string& name, std::shared_ptr<M> module, Where where = Where::current()) {
    M& added = this->add(name, std::move(module), where);
    names_.push_back(name);
    return added;
  }

  /// True if there is a module of this name.
  bool contains(const std::string& name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }
  const std::vector<std::string>& names() const { return names_; }

  /// Throws ValueError for a name that is not there.
  M& get(const std::string& name, Where where = Where::current()) const {
    const auto found = std::find(names_.begin(), names_.end(), name);
    RINGRAD_CHECK(found != names_.end(), ValueError, where,
                  "ModuleDict: there must be a module of that name; got \"", name, '"');
    return this->at(static_cast<std::size_t>(found - names_.begin()));
  }

 private:
  std::vector<std::string> names_;
};

}  // namespace ringrad::nn
