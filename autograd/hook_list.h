// HookList: user functions that an object calls, in the order in which they were added.
//
// A hook may change the list that it is called from: it may add hooks, remove any hook, itself
// included, and start another call. A call runs the hooks that were in the list when it began,
// except those that have been removed since. It keeps these alive until it returns, even if the
// list ends first.

#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace ringrad {

template <class Hook>
class HookList {
 public:
  /// Returns a number that identifies the hook for remove().
  int add(Hook hook) {
    entries_.push_back(std::make_shared<Entry>(Entry{next_id_, std::move(hook)}));
    return next_id_++;
  }

  /// A removed hook is not called again. Removing one twice does nothing.
  void remove(int id) {
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [id](const auto& entry) { return entry->id == id; });
    if (found == entries_.end()) return;
    (*found)->removed = true;
    entries_.erase(found);
  }

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }

  /// Calls run(hook) for each hook.
  template <class Run>
  void for_each(Run&& run) const {
    const auto entries = entries_;
    for (const auto& entry : entries)
      if (!entry->removed) run(entry->hook);
  }

 private:
  struct Entry {
    int id;
    Hook hook;
    bool removed = false;
  };

  std::vector<std::shared_ptr<Entry>> entries_;
  int next_id_ = 0;
};

}  // namespace ringrad
