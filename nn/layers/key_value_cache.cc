#include "ringrad/nn/layers/key_value_cache.h"

#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"

namespace ringrad::nn {
namespace {

Tensor room_for(const Tensor& x, std::int64_t capacity, Where where) {
  return empty({x.size(0), x.size(1), capacity, x.size(3)},
               {.dtype = x.dtype(), .device = x.device()}, where);
}

// Throws unless x fits into `room` but for the number of tokens: copy_ would broadcast or convert.
void check_fits(const Tensor& room, const Tensor& x, Where where) {
  Shape expected = room.shape();
  expected[2] = x.size(2);
  RINGRAD_CHECK(x.shape() == expected, ShapeError, where, "KeyValueCache: must get ", expected,
                ", as in earlier calls; got ", x.shape());
  RINGRAD_CHECK(x.dtype() == room.dtype(), DTypeError, where, "KeyValueCache: must get ",
                room.dtype(), ", as in earlier calls; got ", x.dtype());
  RINGRAD_CHECK(x.device() == room.device(), DeviceError, where,
                "KeyValueCache: must get tensors on ", room.device(),
                ", as in earlier calls; got one on ", x.device());
}

}  // namespace

KeyValueCache::KeyValueCache(std::int64_t capacity, Where where) : capacity_(capacity) {
  RINGRAD_CHECK(capacity > 0, ValueError, where,
                "KeyValueCache: the capacity must be positive; got ", capacity);
}

KeyValueCache::KeysAndValues KeyValueCache::append(const Tensor& k, const Tensor& v, Where where) {
  const NoGradGuard guard;
  RINGRAD_CHECK(k.dims() == 4 && v.dims() == 4 && k.size(0) == v.size(0) &&
                    k.size(1) == v.size(1) && k.size(2) == v.size(2),
                ShapeError, where,
                "KeyValueCache: k and v must be (B, H, T, D) of equal B, H and T; got ", k.shape(),
                " and ", v.shape());
  check_same_dtype("KeyValueCache", k, v, where);
  check_same_device("KeyValueCache", k, v, where);
  const std::int64_t end = length_ + k.size(2);
  RINGRAD_CHECK(end <= capacity_, ShapeError, where, "KeyValueCache: at most ", capacity_,
                " tokens fit; got ", end);
  if (!keys_.defined()) {
    const Tensor keys = room_for(k, capacity_, where);
    values_ = room_for(v, capacity_, where);
    keys_ = keys;
  }
  check_fits(keys_, k, where);
  check_fits(values_, v, where);
  copy_(slice(keys_, 2, length_, end, 1, where), k, where);
  copy_(slice(values_, 2, length_, end, 1, where), v, where);
  length_ = end;
  return {slice(keys_, 2, 0, end, 1, where), slice(values_, 2, 0, end, 1, where)};
}

void KeyValueCache::truncate(std::int64_t length, Where where) {
  RINGRAD_CHECK(length >= 0 && length <= length_, ValueError, where,
                "KeyValueCache: between 0 and ", length_, " tokens can stay; got ", length);
  length_ = length;
}

}  // namespace ringrad::nn
