// TextDataset: windows of a long row of tokens, for models that predict the next token.
//
//     tokens    5 1 4 1 5 9 2 6 5        window 4, stride 3
//     sample 0  5 1 4 1                  target  1 4 1 5
//     sample 1        1 5 9 2            target  5 9 2 6

#pragma once

#include <cstdint>
#include <span>

#include "ringrad/core/tensor.h"
#include "ringrad/data/dataset.h"

namespace ringrad {

class TextDataset final : public Dataset {
 public:
  /// Samples begin `stride` tokens apart; 0 means `window` tokens. Tokens at the end that fill no
  /// window are left out. Copies share the tokens, which must not change while they are read.
  ///
  /// Shapes:  tokens (N) of int64, on a CPU
  /// Throws:  ShapeError unless N > window; ValueError unless window > 0 and stride >= 0;
  ///          DTypeError, DeviceError
  TextDataset(Tensor tokens, std::int64_t window, std::int64_t stride = 0,
              Where where = Where::current());

  std::int64_t size() const override { return size_; }

  /// Inputs and targets, (B, window) of int64.
  Batch fetch(std::span<const std::int64_t> indices, Where where = Where::current()) const override;

 private:
  Tensor tokens_;
  std::int64_t window_, stride_, size_;
};

}  // namespace ringrad
