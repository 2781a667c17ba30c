// Positions grouped by their index, on a GPU, and the sums of what lies there. Private to
// kernels/*_cuda.cu.
//
//     indices   2 0 2 7 0         i = 0 ... 4; 7 is not below size = 3
//     order     1 4 | 0 2 | 3     positions: those of index 0, of 1 (none), of 2, and what is out of range,
//     keys      0 0 | 2 2 | 3     each group in growing order
//     starts    0 2 2 4           group j is order[starts[j]] ... order[starts[j + 1] - 1]
//
// So a sum over a group can be taken in one order, whatever the number of blocks and their timing.

#pragma once

#include "core/tensor.h"

namespace ringrad::kernels::cuda {

struct IndexGroups {
  Tensor order, keys;  ///< int32 (I)
  Tensor starts;       ///< int32 (size + 1)
};

/// True if so many indices below `size` can be grouped: both must be counted in 32 bits.
bool can_group(std::int64_t num_indices, std::int64_t size);

/// Indices outside of [0, size) are in no group.
/// REQUIRES: can_group; indices is contiguous and not empty
IndexGroups group_indices(const Tensor& indices, std::int64_t size, Where where);

/// The same; `keys` holds indices as int32 already, `size` for those to leave out, and is used up.
IndexGroups group_keys(const Tensor& keys, std::int64_t size, Where where);

/// y[o, j, :] = sum of x[o, i, :] over group j; 0 for j = `excluded`. With `onto` it is added to y
/// instead.
///
///     x (outer, I, inner)  ->  y (outer, size, inner), both contiguous
///
/// REQUIRES: y has x's dtype, or the one x is added up in
void sum_groups(const IndexGroups& groups, const Tensor& x, std::int64_t outer, std::int64_t inner,
                std::int64_t excluded, bool onto, const Tensor& y, Where where);

}  // namespace ringrad::kernels::cuda
