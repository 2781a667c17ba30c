#include "ringrad/kernels/convolution/winograd.h"

#include <algorithm>
#include <vector>

#include "ringrad/core/simd.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/convolution/winograd_transforms.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::winograd {
namespace {

using Vec = Vector<float>;
constexpr int kLanes = Vec::kLanes;
constexpr int kOutputs = 4, kTaps = 3, kInputs = kOutputs + kTaps - 1;
constexpr int kPlaces = kInputs * kInputs;
constexpr std::int64_t kBlock = 32;  // tiles multiplied together

/// An image (B, rows, columns, channels) and its window for each tile: the windows start 4 pixels
/// apart, the first at (-offset_h, -offset_w).
struct Image {
  std::int64_t B, rows, columns, channels;
  std::int64_t offset_h = 0, offset_w = 0;
};

/// The tiles of an output image, numbered row by row.
struct Tiles {
  explicit Tiles(const Image& y)
      : rows((y.rows + kOutputs - 1) / kOutputs),
        columns((y.columns + kOutputs - 1) / kOutputs),
        count(y.B * rows * columns),
        blocks((count + kBlock - 1) / kBlock) {}

  struct Position {
    std::int64_t b, h, w;
  };
  Position position(std::int64_t tile) const {
    return {tile / (rows * columns), tile / columns % rows * kOutputs, tile % columns * kOutputs};
  }

  std::int64_t rows, columns, count, blocks;
};

/// 36 matrices (rows, columns). A gap of 16 numbers between them keeps their lines out of one cache
/// set.
struct Planes {
  Planes(std::int64_t rows, std::int64_t columns, Where where)
      : columns(columns),
        step(rows * columns + kLanes),
        memory(empty({kPlaces * step}, {}, where)),
        data(memory.data<float>()) {}

  float* at(int place, std::int64_t row = 0) const { return data + place * step + row * columns; }

  std::int64_t columns, step;
  Tensor memory;
  float* data;
};

// Transforms the windows of `image` for the block's tiles by Rule into rows of `planes`. Pixels
// outside the image, and tiles after the last one, are zeros.
template <class Rule>
RINGRAD_CLONES void image_to_planes(const Image& image, const float* pixels, const Tiles& tiles,
                                    std::int64_t first, const float* zeros, const Planes& planes) {
  constexpr int kWindow = Rule::kFrom;
  for (std::int64_t t = 0; t < kBlock; ++t) {
    const float* window[kWindow][kWindow];
    const auto [b, h0, w0] = tiles.position(first + t);
    for (int i = 0; i < kWindow; ++i)
      for (int j = 0; j < kWindow; ++j) {
        const std::int64_t h = h0 - image.offset_h + i, w = w0 - image.offset_w + j;
        const bool inside =
            first + t < tiles.count && h >= 0 && h < image.rows && w >= 0 && w < image.columns;
        window[i][j] =
            inside ? pixels + ((b * image.rows + h) * image.columns + w) * image.channels : zeros;
      }
    float* out = planes.at(0, t);
    for (std::int64_t c = 0; c < image.channels; c += kLanes)
      transform_tile<Rule>(
          [&](int i, int j, Channels& value) { value = Vec::at(window[i][j] + c); },
          [&](int i, const Channels* row) {
            for (int j = 0; j < kInputs; ++j)
              Vec::at(out + (i * kInputs + j) * planes.step + c) = row[j];
          });
  }
}

// Transforms the block's rows of `planes` (tiles, K) into pixels of y.
RINGRAD_CLONES void planes_to_image(const Planes& planes, const Tiles& tiles, std::int64_t first,
                                    const float* bias, const Image& y, float* pixels) {
  const std::int64_t count = std::min(kBlock, tiles.count - first);
  for (std::int64_t t = 0; t < count; ++t) {
    const auto [b, h, w] = tiles.position(first + t);
    const std::int64_t height = std::min<std::int64_t>(kOutputs, y.rows - h);
    const std::int64_t width = std::min<std::int64_t>(kOutputs, y.columns - w);
    float* corner = pixels + ((b * y.rows + h) * y.columns + w) * y.channels;
    const float* in = planes.at(0, t);
    for (std::int64_t k = 0; k < y.channels; k += kLanes) {
      const Channels offset = bias ? Vec::at(bias + k) : Channels{};
      transform_tile<OutputRule<kOutputs>>(
          [&](int i, int j, Channels& value) {
            value = Vec::at(in + (i * kInputs + j) * planes.step + k);
          },
          [&](int i, const Channels* row) {
            if (i >= height) return;
            float* to = corner + i * y.columns * y.channels + k;
            for (int j = 0; j < width; ++j) Vec::at(to + j * y.channels) = row[j] + offset;
          });
    }
  }
}

/// Describes how to read a filter (K, C, 3, 3) as (from, to, 3, 3): strides, and whether taps run
/// backwards.
struct FilterView {
  std::int64_t from, to;  // channels
  std::int64_t from_stride, to_stride;
  bool turned;
};

// Writes the planes (from, to) of the transformed filter.
RINGRAD_CLONES void filter_to_planes(const FilterView& view, const float* weight,
                                     const Planes& planes, std::int64_t begin, std::int64_t end) {
  constexpr int kSize = kTaps * kTaps;
  for (std::int64_t c = begin; c < end; ++c)
    for (std::int64_t k = 0; k < view.to; k += kLanes) {
      float taps[kSize][kLanes];
      for (int lane = 0; lane < kLanes; ++lane) {
        const float* filter = weight + c * view.from_stride + (k + lane) * view.to_stride;
        for (int e = 0; e < kSize; ++e) taps[view.turned ? kSize - 1 - e : e][lane] = filter[e];
      }
      float* out = planes.at(0, c) + k;
      transform_tile<FilterRule<kTaps>>(
          [&](int i, int j, Channels& value) { value = Vec::at(taps[i * kTaps + j]); },
          [&](int i, const Channels* row) {
            for (int j = 0; j < kInputs; ++j)
              Vec::at(out + (i * kInputs + j) * planes.step) = row[j];
          });
    }
}

// Writes weight (K, C, 3, 3) for input channels [begin, end) from planes (C, K).
RINGRAD_CLONES void planes_to_filter(const Planes& planes, std::int64_t C, std::int64_t begin,
                                     std::int64_t end, float* weight) {
  constexpr int kSize = kTaps * kTaps;
  for (std::int64_t c = begin; c < end; ++c)
    for (std::int64_t k = 0; k < planes.columns; k += kLanes) {
      const float* in = planes.at(0, c) + k;
      float taps[kSize][kLanes];
      transform_tile<OutputRule<kTaps>>(
          [&](int i, int j, Channels& value) {
            value = Vec::at(in + (i * kInputs + j) * planes.step);
          },
          [&](int i, const Channels* row) {
            for (int j = 0; j < kTaps; ++j) Vec::at(taps[i * kTaps + j]) = row[j];
          });
      for (int lane = 0; lane < kLanes; ++lane)
        for (int e = 0; e < kSize; ++e) weight[((k + lane) * C + c) * kSize + e] = taps[e][lane];
    }
}

// c (M, N) = [c +] a (M, depth) * b (depth, N); M and N are multiples of 16.
template <bool kAccumulate>
RINGRAD_CLONES void multiply(std::int64_t M, std::int64_t N, std::int64_t depth, Operand<float> a,
                             const float* b, float* c) {
  std::int64_t j = 0;
  for (; j + 2 * kLanes <= N; j += 2 * kLanes)
    for (std::int64_t i = 0; i < M; i += 8)
      multiply_tile<float, 8, 2, kAccumulate>(depth, {a.data + i * a.row, a.row, a.step}, b + j, N,
                                              c + i * N + j, N);
  for (; j < N; j += kLanes)
    for (std::int64_t i = 0; i < M; i += 16)
      multiply_tile<float, 16, 1, kAccumulate>(depth, {a.data + i * a.row, a.row, a.step}, b + j, N,
                                               c + i * N + j, N);
}

// y = x convolved with the transformed filter. Also computes the gradient with respect to x.
void convolve(const Image& x, const float* x_pixels, const Planes& filter, const float* bias,
              const Image& y, float* y_pixels, Where where) {
  const Tiles tiles(y);
  parallel_for(tiles.blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    const Planes inputs(kBlock, x.channels, where), outputs(kBlock, y.channels, where);
    const Tensor zero_pixel = zeros({x.channels}, {}, where);
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t first = block * kBlock;
      image_to_planes<InputRule>(x, x_pixels, tiles, first, zero_pixel.data<float>(), inputs);
      for (int place = 0; place < kPlaces; ++place)
        multiply<false>(kBlock, y.channels, x.channels, {inputs.at(place), x.channels, 1},
                        filter.at(place), outputs.at(place));
      planes_to_image(outputs, tiles, first, bias, y, y_pixels);
    }
  });
}

Planes transformed_filter(const FilterView& view, const float* weight, Where where) {
  const Planes planes(view.from, view.to, where);
  parallel_for(view.from, 32, [&](std::int64_t begin, std::int64_t end) {
    filter_to_planes(view, weight, planes, begin, end);
  });
  return planes;
}

// The transformed gradient of a filter, summed over some of the tiles. A few blocks at a time are
// summed and then added to the total, since one long chain of additions would lose more digits.
class FilterGradient {
 public:
  FilterGradient(const Problem& p, const Tiles& tiles, Where where)
      : x_{p.B, p.H, p.W, p.C, p.padding_h, p.padding_w},
        y_{p.B, p.P, p.Q, p.K},
        tiles_(tiles),
        inputs_(kBlock, p.C, where),
        gradients_(kBlock, p.K, where),
        zero_pixel_(zeros({std::max(p.C, p.K)}, {}, where)),
        bias_(zeros({p.K}, {}, where)),
        few_(p.C, p.K, where),
        total_(p.C, p.K, where) {
    for (const Planes* planes : {&few_, &total_})  // the gaps between matrices are summed as well
      std::fill_n(planes->data, kPlaces * planes->step, 0.f);
  }

  /// Adds blocks [begin, end).
  void add_blocks(std::int64_t begin, std::int64_t end, const float* x, const float* grad_y) {
    constexpr std::int64_t kFew = 8;
    for (std::int64_t first = begin; first < end; first += kFew) {
      for (std::int64_t block = first; block < std::min(first + kFew, end); ++block)
        add_block(block, block == first, x, grad_y);
      add_to(total_.data, few_.data, 1, kPlaces * total_.step);
    }
  }
  void add(const FilterGradient& other, std::int64_t begin, std::int64_t end) {
    add_to(total_.data + begin, other.total_.data + begin, 1, end - begin);
  }
  void add_bias_to(float* bias) const { add_to(bias, bias_.data<float>(), 1, y_.channels); }

  const Planes& total() const { return total_; }

 private:
  void add_block(std::int64_t block, bool is_first, const float* x, const float* grad_y) {
    const std::int64_t first = block * kBlock;
    const float* zero = zero_pixel_.data<float>();
    image_to_planes<InputRule>(x_, x, tiles_, first, zero, inputs_);
    image_to_planes<FilterRule<kOutputs>>(y_, grad_y, tiles_, first, zero, gradients_);
    const auto accumulate = is_first ? multiply<false> : multiply<true>;
    for (int place = 0; place < kPlaces; ++place)
      accumulate(x_.channels, y_.channels, kBlock, {inputs_.at(place), 1, x_.channels},
                 gradients_.at(place), few_.at(place));
    // The place of point 1 in both directions holds the plain sum of a tile, times (-1/6)^2.
    for (std::int64_t t = 0; t < kBlock; ++t)
      add_to(bias_.data<float>(), gradients_.at(kInputs + 1, t), 36, y_.channels);
  }

  RINGRAD_CLONES static void add_to(float* sum, const float* values, float factor,
                                    std::int64_t size) {
    for (std::int64_t i = 0; i < size; ++i) sum[i] += factor * values[i];
  }

  Image x_, y_;
  const Tiles& tiles_;
  Planes inputs_, gradients_;
  Tensor zero_pixel_, bias_;
  Planes few_, total_;
};

}  // namespace

bool supports(const Problem& p) {
  return p.C % kLanes == 0 && p.K % kLanes == 0 && p.padding_h <= 2 && p.padding_w <= 2;
}

bool is_fast(const Problem& p) {
  static const bool has_avx512 = __builtin_cpu_supports("x86-64-v4");
  constexpr std::int64_t kCache = 1 << 20;  // half of a second-level cache
  return has_avx512 && kPlaces * p.C * p.K * static_cast<std::int64_t>(sizeof(float)) <= kCache;
}

void forward(const Problem& p, const float* x, const float* weight, const float* bias, float* y,
             Where where) {
  constexpr int kSize = kTaps * kTaps;
  const Planes filter = transformed_filter({p.C, p.K, kSize, p.C * kSize, false}, weight, where);
  convolve({p.B, p.H, p.W, p.C, p.padding_h, p.padding_w}, x, filter, bias, {p.B, p.P, p.Q, p.K}, y,
           where);
}

void backward_input(const Problem& p, const float* grad_y, const float* weight, float* grad_x,
                    Where where) {
  constexpr int kSize = kTaps * kTaps;
  const Planes filter = transformed_filter({p.K, p.C, p.C * kSize, kSize, true}, weight, where);
  // The window of grad_y for a pixel of grad_x begins 2 - padding pixels before that pixel.
  convolve({p.B, p.P, p.Q, p.K, 2 - p.padding_h, 2 - p.padding_w}, grad_y, filter, nullptr,
           {p.B, p.H, p.W, p.C}, grad_x, where);
}

void backward_weight(const Problem& p, const float* x, const float* grad_y, float* grad_weight,
                     float* grad_bias, Where where) {
  const Tiles tiles({p.B, p.P, p.Q, p.K});
  const std::int64_t pieces = num_pieces(tiles.blocks, 1);
  std::vector<FilterGradient> partial;
  for (std::int64_t i = 0; i < pieces; ++i) partial.emplace_back(p, tiles, where);
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      partial[static_cast<std::size_t>(i)].add_blocks(tiles.blocks * i / pieces,
                                                      tiles.blocks * (i + 1) / pieces, x, grad_y);
  });
  FilterGradient& whole = partial.front();
  parallel_for(kPlaces * whole.total().step, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t i = 1; i < partial.size(); ++i) whole.add(partial[i], begin, end);
  });
  parallel_for(p.C, 32, [&](std::int64_t begin, std::int64_t end) {
    planes_to_filter(whole.total(), p.C, begin, end, grad_weight);
  });
  if (!grad_bias) return;
  std::fill_n(grad_bias, p.K, 0.f);
  for (const FilterGradient& part : partial) part.add_bias_to(grad_bias);
}

}  // namespace ringrad::kernels::winograd
