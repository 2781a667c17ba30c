#include "ringrad/kernels/copy/copy.h"

#include "ringrad/core/pinned_memory.h"
#include "ringrad/core/transfer.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy_cpu.h"
#include "ringrad/kernels/copy/copy_cuda.h"
#include "ringrad/kernels/overlap.h"

namespace ringrad::kernels {
namespace {

LoopNest<2> nest_of(const Tensor& dst, const Tensor& src) {
  return make_loop_nest<2>(dst.shape(), {&dst.strides(), &src.strides()});
}

// True if an axis other than the innermost takes the smallest steps through operand 1.
bool is_transposition(const LoopNest<2>& nest) {
  const std::int64_t inner = nest.row_strides()[1];
  for (int i = 0; i + 1 < nest.axes; ++i) {
    const std::int64_t step = nest.strides[static_cast<unsigned>(i)][1];
    if (step != 0 && step < inner) return true;
  }
  return false;
}

// True if the two are on different devices, at least one of them a GPU: bytes must be transferred.
bool travels(const Tensor& dst, const Tensor& src) {
  return dst.device() != src.device() && (dst.device().is_cuda() || src.device().is_cuda());
}

// Converts and reorders src, sends it as one block of bytes, and spreads it if dst is not dense.
void send(const Tensor& dst, const Tensor& src, Where where) {
  const bool dense = is_dense(dst.shape(), dst.strides());
  const Options there{.dtype = dst.dtype(), .device = dst.device()};
  const Tensor received = dense ? dst : empty(dst.shape(), there, where);
  Tensor sent = cast(src, dst.dtype(), where);
  if (!(sent.strides() == received.strides())) {
    const Options here{.dtype = dst.dtype(), .device = src.device()};
    const Tensor ordered = view::as_strided(empty({dst.numel()}, here, where), dst.shape(),
                                            received.strides(), 0, where);
    copy_(ordered, sent, where);
    sent = ordered;
  }
  if (dst.device().is_cuda() && is_pinned(sent.raw_data()))  // beside what the GPU computes
    return copy_(dst, to_device(sent, dst.device(), where), where);
  copy_bytes(received.raw_data(), dst.device(), sent.raw_data(), src.device(),
             static_cast<std::size_t>(dst.numel()) * size_bytes(dst.dtype()), where);
  if (!dense) copy_(dst, received, where);
}

// REQUIRES: dst and src have equal, non-empty shapes and do not overlap
void copy_elements(const Tensor& dst, const Tensor& src, const LoopNest<2>& nest, Where where) {
  if (dst.device().is_cuda())
    return cuda::copy(dst.device(), nest, dst.raw_data(), dst.dtype(), src.raw_data(), src.dtype(),
                      where);
  if (dst.dtype() == src.dtype() || !is_transposition(nest)) {
    cpu::copy(nest, dst.raw_data(), dst.dtype(), src.raw_data(), src.dtype());
    return;
  }
  // Transposing first and converting afterwards beats a conversion that strides through memory.
  const Tensor transposed = empty_like(dst, src.dtype(), where);
  cpu::copy(nest_of(transposed, src), transposed.raw_data(), src.dtype(), src.raw_data(),
            src.dtype());
  cpu::copy(nest_of(dst, transposed), dst.raw_data(), dst.dtype(), transposed.raw_data(),
            src.dtype());
}

// Fills `fresh`, whose memory nothing else shares, with x's elements.
Tensor filled_from(const Tensor& fresh, const Tensor& x, Where where) {
  if (x.numel() > 0) copy_elements(fresh, x, nest_of(fresh, x), where);
  return fresh;
}

}  // namespace

void copy_(const Tensor& dst, const Tensor& src, Where where) {
  RINGRAD_CHECK(broadcasts_to(src.shape(), dst.shape()), ShapeError, where,
                "copy_: the source must broadcast to the destination; got ", src.shape(), " and ",
                dst.shape());
  if (dst.numel() == 0) return;
  const Tensor source = src.shape() == dst.shape() ? src : view::expand(src, dst.shape(), where);
  const LoopNest<2> nest = nest_of(dst, source);
  dst.check_writable("copy_", where);
  if (same_elements(dst, source)) return;
  if (travels(dst, source)) {
    send(dst, source, where);
  } else if (memory_overlaps(dst, source)) {
    const Tensor safe = clone(source, where);
    copy_elements(dst, safe, nest_of(dst, safe), where);
  } else {
    copy_elements(dst, source, nest, where);
  }
  dst.mark_changed(where);
}

Tensor contiguous(const Tensor& x, Where where) { return to_layout(x, Layout::contiguous, where); }

Tensor to_layout(const Tensor& x, Layout layout, Where where) {
  RINGRAD_CHECK(layout == Layout::contiguous || x.dims(where) == 4, ShapeError, where,
                "to_layout: channels_last needs 4 axes (B, C, H, W); got ", x.shape());
  if (layout == Layout::contiguous ? x.is_contiguous(where) : x.is_channels_last()) return x;
  const Options options = {.dtype = x.dtype(), .device = x.device(), .layout = layout};
  return filled_from(empty(x.shape(), options, where), x, where);
}

Tensor cast(const Tensor& x, DType dtype, Where where) {
  if (x.dtype(where) == dtype) return x;
  return filled_from(empty_like(x, dtype, where), x, where);
}

Tensor clone(const Tensor& x, Where where) { return filled_from(empty_like(x, where), x, where); }

}  // namespace ringrad::kernels
