// TensorImpl: what a Tensor (tensor.h) points to.

#pragma once

#include <cstdint>
#include <string>

#include "ringrad/core/base/error.h"
#include "ringrad/core/base/shape.h"
#include "ringrad/core/dtype.h"
#include "ringrad/core/ref.h"
#include "ringrad/core/storage.h"

namespace ringrad {

/// The tape's record of a tensor: the operation that made it, or the leaf that collects its
/// gradient. Core keeps it alive without looking inside.
class History : public RefCounted {
 public:
  virtual ~History() = default;
  /// For messages: "the result of mul at model.cc:12".
  virtual std::string description() const = 0;
};

struct TensorImpl : RefCounted, Pooled {
  TensorImpl(Ref<Storage> storage, std::int64_t offset, const Shape& shape, const Strides& strides,
             DType dtype, Where where);

  // In this order the fields fill three cache lines without a gap. For tiny tensors, this
  // bookkeeping is most of the cost.
  DType dtype;
  bool contiguous : 1;
  /// True for a leaf that wants a gradient and for the result of a recorded operation.
  bool requires_grad : 1 = false;
  std::uint16_t output = 0;  ///< this tensor's index among the results of `history`
  Ref<Storage> storage;
  std::int64_t offset;  ///< of the first element, in elements
  std::int64_t numel;
  Ref<History> history;
  Where made_at;
  Shape shape;
  Strides strides;
};
static_assert(sizeof(TensorImpl) == 192);

}  // namespace ringrad
