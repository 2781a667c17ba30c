#include "ringrad/kernels/elementwise/map_cpu.h"

#include <algorithm>
#include <array>

#include "ringrad/core/dispatch_size.h"
#include "ringrad/kernels/copy/copy_cpu.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

// Elements per block: four buffers of doubles take 16 KiB, a third of the first-level cache of
// today's CPUs.
constexpr std::int64_t kBlock = 512;

// Minimum number of blocks per thread: about ten microseconds of exp.
constexpr std::int64_t kGrainBlocks = 64;

// The strides of one tensor along the elements of the output, outermost axis first. Evenly spaced
// neighbouring axes are merged, so a tensor with the output's layout has one axis, of stride 1.
struct Walk {
  int dims = 0;
  std::array<std::int64_t, kMaxDims> extents;
  std::array<std::int64_t, kMaxDims> strides;

  void add(std::int64_t extent, std::int64_t stride) {
    if (dims > 0 && back(strides) == stride * extent) {
      back(extents) *= extent;
      back(strides) = stride;
      return;
    }
    extents[static_cast<unsigned>(dims)] = extent;
    strides[static_cast<unsigned>(dims)] = stride;
    ++dims;
  }
  std::int64_t& back(std::array<std::int64_t, kMaxDims>& values) {
    return values[static_cast<unsigned>(dims - 1)];
  }
  bool is_linear() const { return dims == 1 && strides[0] == 1; }
  bool is_constant() const { return dims == 1 && strides[0] == 0; }
};

// The axes of `out` with the largest stride first: the order of elements in memory.
Shape memory_order(const Tensor& out) {
  Shape order;
  for (int axis = 0; axis < out.dims(); ++axis) {
    int at = order.size();
    order.push_back(axis);
    for (; at > 0 && out.strides()[static_cast<int>(order[at - 1])] < out.strides()[axis]; --at)
      order[at] = order[at - 1];
    order[at] = axis;
  }
  return order;
}

Walk make_walk(const Tensor& x, const Shape& shape, const Shape& order) {
  Walk walk;
  const int missing = shape.size() - x.dims();
  for (const std::int64_t axis : order) {
    const int out_axis = static_cast<int>(axis);
    const int x_axis = out_axis - missing;
    if (shape[out_axis] == 1) continue;
    const bool repeats = x_axis < 0 || x.shape()[x_axis] == 1;
    walk.add(shape[out_axis], repeats ? 0 : x.strides()[x_axis]);
  }
  if (walk.dims == 0) walk.add(1, 1);
  return walk;
}

// Calls visit(memory offset, stride, count) for runs that together are the elements [begin, begin +
// n) of the walk.
template <class Visit>
void for_each_run(const Walk& walk, std::int64_t begin, std::int64_t n, Visit visit) {
  std::array<std::int64_t, kMaxDims> index;
  const unsigned inner = static_cast<unsigned>(walk.dims - 1);
  std::int64_t offset = 0;
  for (unsigned axis = inner + 1; axis-- > 0;) {
    index[axis] = begin % walk.extents[axis];
    begin /= walk.extents[axis];
    offset += index[axis] * walk.strides[axis];
  }
  while (true) {
    const std::int64_t count = std::min(n, walk.extents[inner] - index[inner]);
    visit(offset, walk.strides[inner], count);
    n -= count;
    if (n == 0) return;
    offset -= index[inner] * walk.strides[inner];
    index[inner] = 0;
    for (unsigned axis = inner; axis-- > 0;) {
      offset += walk.strides[axis];
      if (++index[axis] < walk.extents[axis]) break;
      offset -= walk.strides[axis] * walk.extents[axis];
      index[axis] = 0;
    }
  }
}

// Reads elements of the walk into consecutive places. It only copies bits, so one type per element
// size is enough.
template <class T>
void gather(const Walk& walk, const std::byte* from, std::int64_t begin, std::int64_t n,
            std::byte* buffer) {
  T* to = reinterpret_cast<T*>(buffer);
  for_each_run(walk, begin, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t count) {
    const T* run = reinterpret_cast<const T*>(from) + offset;
    if (stride == 1)
      std::copy_n(run, count, to);
    else if (stride == 0)
      std::fill_n(to, count, *run);
    else
      for (std::int64_t i = 0; i < count; ++i) to[i] = run[i * stride];
    to += count;
  });
}

template <class T>
void scatter(const Walk& walk, std::byte* to, std::int64_t begin, std::int64_t n,
             const std::byte* buffer) {
  const T* from = reinterpret_cast<const T*>(buffer);
  for_each_run(walk, begin, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t count) {
    T* run = reinterpret_cast<T*>(to) + offset;
    for (std::int64_t i = 0; i < count; ++i) run[i * stride] = from[i];
    from += count;
  });
}

struct alignas(64) Buffer {
  std::byte bytes[kBlock * sizeof(double)];
};

// A tensor in the form that a loop needs: consecutive elements of type `math`, in the output's
// order.
class Operand {
 public:
  Operand(const Tensor& tensor, DType math, const Shape& shape, const Shape& order)
      : data_(tensor.raw_data()),
        dtype_(tensor.dtype()),
        math_(math),
        walk_(make_walk(tensor, shape, order)) {}

  bool is_direct() const { return dtype_ == math_ && walk_.is_linear(); }
  bool is_constant() const { return walk_.is_constant(); }
  std::byte* at(std::int64_t begin) const {
    return data_ + begin * static_cast<std::int64_t>(size_bytes(dtype_));
  }

  void read(std::int64_t begin, std::int64_t n, Buffer& buffer) const {
    Buffer raw;
    const std::byte* from = at(begin);
    if (!walk_.is_linear()) {
      std::byte* to = dtype_ == math_ ? buffer.bytes : raw.bytes;
      dispatch_size(size_bytes(dtype_), [&]<class T>() { gather<T>(walk_, data_, begin, n, to); });
      from = to;
    }
    if (dtype_ != math_) convert_row(math_, dtype_)(buffer.bytes, from, n);
  }
  void write(std::int64_t begin, std::int64_t n, const Buffer& buffer) const {
    Buffer raw;
    const std::byte* from = buffer.bytes;
    if (dtype_ != math_) {
      std::byte* to = walk_.is_linear() ? at(begin) : raw.bytes;
      convert_row(dtype_, math_)(to, from, n);
      from = to;
    }
    if (!walk_.is_linear())
      dispatch_size(size_bytes(dtype_),
                    [&]<class T>() { scatter<T>(walk_, data_, begin, n, from); });
  }

 private:
  std::byte* data_;
  DType dtype_, math_;
  Walk walk_;
};

void map_blocks(const Function& function, const Operand& out,
                std::initializer_list<Operand> operands, std::int64_t begin, std::int64_t end) {
  Buffer buffers[kMaxOperands], out_buffer;
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t n = std::min(kBlock, end - at);
    const void* in[kMaxOperands] = {};
    int k = 0;
    for (const Operand& operand : operands) {
      // A constant operand fills its buffer once, for all blocks.
      const bool kept = operand.is_constant() && at > begin;
      if (!operand.is_direct() && !kept) operand.read(at, n, buffers[k]);
      in[k] = operand.is_direct() ? operand.at(at) : buffers[k].bytes;
      ++k;
    }
    function.loop(function.op, out.is_direct() ? out.at(at) : out_buffer.bytes, in, n);
    if (!out.is_direct()) out.write(at, n, out_buffer);
  }
}

// Calls body(begin, end) on the threads of the team. Pieces begin at multiples of the block. So the
// number of threads does not affect which elements end up in the scalar rest of a vector loop, nor
// the last bit of their exp.
template <class Body>
void parallel_blocks(std::int64_t n, Body&& body) {
  parallel_for((n + kBlock - 1) / kBlock, kGrainBlocks, [&](std::int64_t begin, std::int64_t end) {
    body(begin * kBlock, std::min(end * kBlock, n));
  });
}

// True if element i of x in memory corresponds to element i of out in memory, and the loop may read
// x in place.
bool lies_like(const Tensor& x, DType math, const Tensor& out, bool out_is_dense) {
  if (x.dtype() != math || !(x.shape() == out.shape())) return false;
  return (x.is_contiguous() && out.is_contiguous()) ||
         (out_is_dense && x.strides() == out.strides());
}

// REQUIRES: lies_like() for all operands
void map_linear(const Function& function, const Tensor& out,
                std::initializer_list<const Tensor*> operands) {
  const auto at = [](const Tensor& x, std::int64_t begin) {
    return x.raw_data() + begin * static_cast<std::int64_t>(size_bytes(x.dtype()));
  };
  parallel_blocks(out.numel(), [&](std::int64_t begin, std::int64_t end) {
    const void* in[kMaxOperands] = {};
    int i = 0;
    for (const Tensor* x : operands) in[i++] = at(*x, begin);
    function.loop(function.op, at(out, begin), in, end - begin);
  });
}

}  // namespace

void map(const Function& function, const Tensor& out,
         std::initializer_list<const Tensor*> tensors) {
  if (out.numel() == 0) return;
  const bool dense = out.is_contiguous() || is_dense(out.shape(), out.strides());
  bool linear = dense && out.dtype() == function.out;
  int k = 0;
  for (const Tensor* x : tensors) linear = linear && lies_like(*x, function.in[k++], out, dense);
  if (linear) return map_linear(function, out, tensors);

  const Shape order = memory_order(out);
  const Operand target(out, function.out, out.shape(), order);
  const auto operand = [&](int i) {
    return Operand(*tensors.begin()[i], function.in[i], out.shape(), order);
  };
  const auto run = [&](std::initializer_list<Operand> operands) {
    parallel_blocks(out.numel(), [&](std::int64_t begin, std::int64_t end) {
      map_blocks(function, target, operands, begin, end);
    });
  };
  if (tensors.size() == 1) return run({operand(0)});
  if (tensors.size() == 2) return run({operand(0), operand(1)});
  run({operand(0), operand(1), operand(2)});
}

}  // namespace ringrad::kernels::cpu
