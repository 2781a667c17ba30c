// CheckpointIndex: which file of a checkpoint holds which part of which tensor.
//
// It is stored as text, in a file beside the ranks' files (checkpoint_folder.h).
//
// A tensor is treated as a grid of rows x columns, whatever its shape. A piece of it is a range of
// columns in all rows:
//
//     whole                        1 row            columns [0, numel)
//     rows 2, 3 of (4, 6)          1 row  of 24     columns [12, 24)
//     columns 3, 4, 5 of (4, 6)    4 rows of 6      columns [3, 6)
//     elements 5 to 9 of a (4, 6)  1 row  of 24     columns [5, 10)     a rank's part of an arena
//
// Three numbers therefore describe every split along an axis and every cut of flat memory, and one
// function copies from any of them to any other. The pieces of a tensor cover it exactly once.
//
// Everything here is a pure function of its arguments.

#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// Columns [begin, end) of a tensor seen as (rows, numel / rows).
struct TensorSlice {
  std::int64_t rows = 1;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t numel() const { return rows * (end - begin); }
  auto operator<=>(const TensorSlice&) const = default;
};

/// The slice of extents [begin, end) along one axis. REQUIRES: axis is one of shape's
TensorSlice slice_along(const Shape& shape, int axis, std::int64_t begin, std::int64_t end);
/// The slice that is the whole tensor.
TensorSlice whole_slice(const Shape& shape);

/// Copies the elements that two slices of a tensor of `numel` elements have in common. Each slice
/// lies in its memory row by row.
void copy_common(std::span<std::byte> to, const TensorSlice& to_slice,
                 std::span<const std::byte> from, const TensorSlice& from_slice, std::int64_t numel,
                 std::size_t element_bytes);

/// How ranks share a tensor.
enum class Spread {
  replicated,  ///< all ranks have it whole
  sharded,  ///< each rank has a piece, and together they cover it once; copies of a piece are equal
  owned,    ///< some ranks have it whole, such as those of a stage; copies are equal
  per_rank  ///< each rank has its own: row r of the tensor is rank r's
};

/// What a rank reports about a tensor, or about its piece of one.
struct PieceFacts {
  std::string name;
  DType dtype = DType::float32;
  Shape shape;  ///< of the whole tensor
  TensorSlice slice;
  Spread spread = Spread::replicated;
  /// Checksum of the bytes. Copies whose checksums differ are refused. 0 if the lowest rank's copy
  /// counts and no comparison is made.
  std::uint32_t crc = 0;
};

struct CheckpointIndex {
  struct Piece {
    int file = 0;
    std::int64_t begin = 0, end = 0;  // columns
  };
  struct Entry {
    DType dtype = DType::float32;
    Shape shape;
    Spread spread = Spread::replicated;
    std::int64_t rows = 1;
    std::vector<Piece> pieces;  // ordered
  };
  struct File {
    std::string name;
    std::uint64_t num_bytes = 0;
    std::string crc32;  // eight hexadecimal digits
  };

  std::int64_t generation = 0;
  std::string save;  // identifies this save; no two saves share it
  std::vector<File> files;
  std::map<std::string, Entry> tensors;

  /// The index as text. REQUIRES: names are UTF-8
  std::string text() const;
};

/// The name of a piece in its file: "weight", or "weight@12" if it begins at column 12.
std::string name_in_file(const std::string& tensor, const TensorSlice& slice, const Shape& shape);

/// Each tensor's pieces; `file` is the lowest rank that has the piece. `by_rank` holds each rank's
/// report.
///
/// Throws: ValueError that names tensor and ranks, unless copies are equal, pieces cover their
///         tensor once, replicated tensors are on all ranks, and all ranks agree on dtype, shape
///         and spread
std::map<std::string, CheckpointIndex::Entry> merge_pieces(
    const std::vector<std::vector<PieceFacts>>& by_rank, Where where);

constexpr std::size_t kMostIndexBytes = std::size_t{16} << 20;

/// Reads text(). Takes memory in proportion to the text, which may have at most 16 MiB.
///
/// Throws: DataError that says what is wrong, unless text() can produce this text
CheckpointIndex parse_checkpoint_index(std::string_view text, Where where = Where::current());

/// One rank's report as text for the other ranks, and its inverse.
std::string text_of(const std::vector<PieceFacts>& pieces);
std::vector<PieceFacts> parse_pieces(std::string_view text);

}  // namespace ringrad
