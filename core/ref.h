// Ref<T>: an intrusive, thread-safe reference count, and Pooled: objects whose memory comes from
// the small-block free lists of core/base/allocator.h.
//
// A tensor is one pointer, and its count lies inside the object it points to. So making and
// dropping one costs a free-list pop and push; std::shared_ptr would double both the pointers and
// the allocations.

#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "ringrad/core/base/allocator.h"

namespace ringrad {

class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void retain() const { count_.fetch_add(1, std::memory_order_relaxed); }

  /// True if this was the last reference. The acquire makes all other owners' writes visible to the
  /// deleting thread.
  bool release() const {
    if (count_.load(std::memory_order_acquire) == 1) return true;  // no other thread can copy it
    return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  bool unique() const { return num_references() == 1; }
  std::int32_t num_references() const { return count_.load(std::memory_order_acquire); }

 private:
  mutable std::atomic<std::int32_t> count_{1};
};

template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  Ref(const Ref& other) : pointer_(other.pointer_) {
    if (pointer_) pointer_->retain();
  }
  Ref(Ref&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  template <std::derived_from<T> Derived>
  Ref(Ref<Derived> other) : pointer_(other.leak()) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~Ref() {
    if (pointer_ && pointer_->release()) delete pointer_;
  }

  /// Takes over the reference that a new object starts with.
  static Ref adopt(T* fresh) {
    Ref ref;
    ref.pointer_ = fresh;
    return ref;
  }
  static Ref share(T* object) {
    if (object) object->retain();
    return adopt(object);
  }
  /// Gives the reference away without releasing it.
  T* leak() { return std::exchange(pointer_, nullptr); }

  T* get() const { return pointer_; }
  T* operator->() const { return pointer_; }
  T& operator*() const { return *pointer_; }
  explicit operator bool() const { return pointer_ != nullptr; }
  bool operator==(const Ref&) const = default;

 private:
  T* pointer_ = nullptr;
};

template <class T, class... Arguments>
Ref<T> make_ref(Arguments&&... arguments) {
  return Ref<T>::adopt(new T(std::forward<Arguments>(arguments)...));
}

/// Inherit from it to make new and delete use the small-block free lists.
struct Pooled {
  static void* operator new(std::size_t bytes) { return pool_allocate(bytes); }
  static void operator delete(void* block, std::size_t bytes) noexcept {
    pool_deallocate(block, bytes);
  }
};

}  // namespace ringrad
