// Groups positions by their index on a GPU, and sums the elements of each group. Private to
// kernels/*_cuda.cu.
//
//     indices   2 0 2 7 0         i = 0 ... 4; 7 is not below size = 3
//     order     1 4 | 0 2 | 3     positions: of index 0, of 1 (none), of 2, and those out of range,
//     keys      0 0 | 2 2 | 3     each group in growing order
//     starts    0 2 2 4           group j is order[starts[j]] ... order[starts[j + 1] - 1]
//
// So the order of a sum over a group is fixed, whatever the number of blocks and their timing.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels::cuda {

struct IndexGroups {
  Tensor order, keys;  ///< int32 (I)
  Tensor starts;       ///< int32 (size + 1)
};

/// True if this many indices below `size` can be grouped: both numbers must fit into 32 bits.
bool can_group(std::int64_t num_indices, std::int64_t size);

/// Indices outside [0, size) are in no group.
/// REQUIRES: can_group; indices is contiguous and not empty
IndexGroups group_indices(const Tensor& indices, std::int64_t size, Where where);

/// As group_indices. `keys` holds int32 indices, with `size` for positions to leave out; it is
/// overwritten.
IndexGroups group_keys(const Tensor& keys, std::int64_t size, Where where);

/// y[o, j, :] = sum of x[o, i, :] over group j; 0 for j = `excluded`. With `onto` the sum is added
/// to y instead.
///
///     x (outer, I, inner)  ->  y (outer, size, inner), both contiguous
///
/// REQUIRES: y has x's dtype, or the dtype in which x is summed
void sum_groups(const IndexGroups& groups, const Tensor& x, std::int64_t outer, std::int64_t inner,
                std::int64_t excluded, bool onto, const Tensor& y, Where where);

}  // namespace ringrad::kernels::cuda
