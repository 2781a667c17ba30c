#include "ringrad/kernels/convolution/winograd.h"

#include <algorithm>
#include <vector>

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/convolution/winograd_tiles.h"
#include "ringrad/kernels/convolution/winograd_transforms.h"
#include "ringrad/kernels/convolution/winograd_uneven.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::winograd {
namespace {

constexpr int kPlaces = kInputs * kInputs;

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

// Transforms a block's windows by Rule into rows of `planes`; those of uneven tiles are zeros.
template <class Rule>
RINGRAD_AVX512_CLONES void windows_to_planes(const Windows<Rule::kFrom>& windows,
                                             const UnevenTiles& uneven, std::int64_t first,
                                             const float* zeros, const Planes& planes) {
  for (std::int64_t t = 0; t < kBlock; ++t) {
    const auto& window = windows.at[t];
    const bool is_even = !uneven[first + t];
    float* out = planes.at(0, t);
    for (std::int64_t c = 0; c < windows.channels; c += kLanes)
      transform_tile<Rule>(
          [&](int i, int j, Channels& value) {
            value = Vec::at((is_even ? window[i][j] : zeros) + c);
          },
          [&](int i, const Channels* row) {
            for (int j = 0; j < kInputs; ++j)
              Vec::at(out + (i * kInputs + j) * planes.step + c) = row[j];
          });
  }
}

// Transforms the block's rows of `planes` (tiles, K) into pixels of y, but not those of uneven
// tiles.
RINGRAD_AVX512_CLONES void planes_to_image(const Planes& planes, const Tiles& tiles,
                                           const UnevenTiles& uneven, std::int64_t first,
                                           const float* bias, const Image& y, float* pixels) {
  const std::int64_t count = std::min(kBlock, tiles.count - first);
  for (std::int64_t t = 0; t < count; ++t) {
    if (uneven[first + t]) continue;
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

// Writes the planes (from, to) of the transformed filter.
RINGRAD_AVX512_CLONES void filter_to_planes(const FilterView& view, const float* weight,
                                            const Planes& planes, std::int64_t begin,
                                            std::int64_t end) {
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
RINGRAD_AVX512_CLONES void planes_to_filter(const Planes& planes, std::int64_t C,
                                            std::int64_t begin, std::int64_t end, float* weight) {
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
RINGRAD_AVX512_CLONES void multiply(std::int64_t M, std::int64_t N, std::int64_t depth,
                                    Operand<float> a, const float* b, float* c) {
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

Planes transformed_filter(const FilterView& view, const float* weight, Where where) {
  const Planes planes(view.from, view.to, where);
  parallel_for(view.from, 32, [&](std::int64_t begin, std::int64_t end) {
    filter_to_planes(view, weight, planes, begin, end);
  });
  return planes;
}

// y = x convolved with a filter. Also computes the gradient with respect to x.
void convolve(const Image& x, const float* x_pixels, const FilterView& view, const float* weight,
              const float* bias, const Image& y, float* y_pixels, Where where) {
  const Planes filter = transformed_filter(view, weight, where);
  const Tiles tiles(y);
  UnevenTiles uneven(tiles, !is_usual_filter(weight, kTaps * kTaps * view.from * view.to));
  parallel_for(tiles.blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    const Planes inputs(kBlock, x.channels, where), outputs(kBlock, y.channels, where);
    const Tensor zero_pixel = zeros({x.channels}, {}, where);
    const float* zero = zero_pixel.data<float>();
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t first = block * kBlock;
      const Windows<kInputs> windows(x, x_pixels, tiles, block, zero);
      uneven.mark_outputs(block, windows, x, x_pixels, y);
      windows_to_planes<InputRule>(windows, uneven, first, zero, inputs);
      for (int place = 0; place < kPlaces; ++place)
        multiply<false>(kBlock, y.channels, x.channels, {inputs.at(place), x.channels, 1},
                        filter.at(place), outputs.at(place));
      planes_to_image(outputs, tiles, uneven, first, bias, y, y_pixels);
    }
  });
  convolve_directly(uneven.list(), tiles, x, x_pixels, view, weight, bias, y, y_pixels, where);
}

// The transformed gradient of a filter, summed over some of the tiles. A few blocks at a time are
// summed and then added to the total, since one long chain of additions would lose more digits.
class FilterGradient {
 public:
  FilterGradient(const Image& x, const Image& y, const Tiles& tiles, UnevenTiles& uneven,
                 Where where)
      : x_(x),
        y_(y),
        tiles_(tiles),
        uneven_(uneven),
        inputs_(kBlock, x.channels, where),
        gradients_(kBlock, y.channels, where),
        zero_pixel_(zeros({std::max(x.channels, y.channels)}, {}, where)),
        few_(x.channels, y.channels, where),
        total_(x.channels, y.channels, where) {
    for (const Planes* planes : {&few_, &total_})  // the gaps between matrices are summed as well
      std::fill_n(planes->data, kPlaces * planes->step, 0.f);
  }

  /// Adds blocks [begin, end).
  void add_blocks(std::int64_t begin, std::int64_t end, const float* x, const float* grad_y) {
    constexpr std::int64_t kFew = 8;
    for (std::int64_t first = begin; first < end; first += kFew) {
      for (std::int64_t block = first; block < std::min(first + kFew, end); ++block)
        add_block(block, block == first, x, grad_y);
      add_to(total_.data, few_.data, kPlaces * total_.step);
    }
  }
  void add(const FilterGradient& other, std::int64_t begin, std::int64_t end) {
    add_to(total_.data + begin, other.total_.data + begin, end - begin);
  }

  const Planes& total() const { return total_; }

 private:
  void add_block(std::int64_t block, bool is_first, const float* x, const float* grad_y) {
    const std::int64_t first = block * kBlock;
    const float* zero = zero_pixel_.data<float>();
    const Windows<kInputs> windows(x_, x, tiles_, block, zero);
    const Windows<kOutputs> windows_of_y(y_, grad_y, tiles_, block, zero);
    uneven_.mark_products(block, windows, x_, x, windows_of_y, y_, grad_y);
    windows_to_planes<InputRule>(windows, uneven_, first, zero, inputs_);
    windows_to_planes<FilterRule<kOutputs>>(windows_of_y, uneven_, first, zero, gradients_);
    const auto accumulate = is_first ? multiply<false> : multiply<true>;
    for (int place = 0; place < kPlaces; ++place)
      accumulate(x_.channels, y_.channels, kBlock, {inputs_.at(place), 1, x_.channels},
                 gradients_.at(place), few_.at(place));
  }

  RINGRAD_AVX512_CLONES static void add_to(float* sum, const float* values, std::int64_t size) {
    for (std::int64_t i = 0; i < size; ++i) sum[i] += values[i];
  }

  Image x_, y_;
  const Tiles& tiles_;
  UnevenTiles& uneven_;
  Planes inputs_, gradients_;
  Tensor zero_pixel_;
  Planes few_, total_;
};

}  // namespace

bool supports(const Problem& p) {
  return p.C % kLanes == 0 && p.K % kLanes == 0 && p.padding_h <= 2 && p.padding_w <= 2;
}

bool is_fast(const Problem& p) {
#if defined(__x86_64__) && !defined(__clang__)
  static const bool has_avx512 = __builtin_cpu_supports("x86-64-v4");
#elif defined(__AVX512F__)
  constexpr bool has_avx512 = true;
#else
  constexpr bool has_avx512 = false;
#endif
  constexpr std::int64_t kCache = 1 << 20;  // half of a second-level cache
  return has_avx512 && kPlaces * p.C * p.K * static_cast<std::int64_t>(sizeof(float)) <= kCache;
}

void forward(const Problem& p, const float* x, const float* weight, const float* bias, float* y,
             Where where) {
  constexpr int kSize = kTaps * kTaps;
  convolve({p.B, p.H, p.W, p.C, p.padding_h, p.padding_w}, x, {p.C, p.K, kSize, p.C * kSize, false},
           weight, bias, {p.B, p.P, p.Q, p.K}, y, where);
}

void backward_input(const Problem& p, const float* grad_y, const float* weight, float* grad_x,
                    Where where) {
  constexpr int kSize = kTaps * kTaps;
  // The window of grad_y for a pixel of grad_x begins 2 - padding pixels before that pixel.
  convolve({p.B, p.P, p.Q, p.K, 2 - p.padding_h, 2 - p.padding_w}, grad_y,
           {p.K, p.C, p.C * kSize, kSize, true}, weight, nullptr, {p.B, p.H, p.W, p.C}, grad_x,
           where);
}

void backward_weight(const Problem& p, const float* x, const float* grad_y, float* grad_weight,
                     Where where) {
  const Image image{p.B, p.H, p.W, p.C, p.padding_h, p.padding_w}, y{p.B, p.P, p.Q, p.K};
  const Tiles tiles(y);
  UnevenTiles uneven(tiles);
  const std::int64_t pieces = num_pieces(tiles.blocks, 1);
  std::vector<FilterGradient> partial;
  for (std::int64_t i = 0; i < pieces; ++i) partial.emplace_back(image, y, tiles, uneven, where);
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
  add_products_directly(uneven.list(), tiles, image, x, y, grad_y, grad_weight);
}

}  // namespace ringrad::kernels::winograd
