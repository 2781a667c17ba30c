// Mesh: ranks as a grid with named axes, one communicator per axis. It composes schemes of parallel
// training: each works along its own axis and need not know the others.
//
//     Mesh mesh(comm, {{"data", 2}, {"tensor", 3}});
//
//                  tensor 0   1   2     row major, the last axis varies fastest:
//         data 0          0   1   2     rank = data * 3 + tensor
//         data 1          3   4   5     on rank 4, axis("data") joins ranks 1 4,
//                                       axis("tensor") ranks 3 4 5
//
//     DistributedDataParallel replica(net, mesh.axis("data"));
//
// axis(name) joins the ranks that differ in that coordinate only, in the order of that coordinate,
// so a rank's number in the group is its coordinate. An axis of size 1 is a group of one.
// Neighbours on the last axis have neighbouring ranks, usually on the same machine, so the scheme
// that communicates most should use the last axis.
//
// Failure: a rank that ends by an exception breaks the world group first, so that the cause is
// recorded there, and then its groups on all axes. The ranks that wait for it get CollectiveError.
// When they end in turn, the failure spreads to the ranks that wait for them, and so to every rank,
// since axes connect all ranks. A rank that continues after such an error, or gives up without an
// exception, must call abort(). No call ever waits longer than the group's deadline.
//
// Each communicator serves one thread at a time; different ones may be used concurrently.

#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "ringrad/parallel/comm/common/unwinding.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

struct MeshAxis {
  std::string name;
  int size;

  bool operator==(const MeshAxis&) const = default;
};

class Mesh {
 public:
  /// All ranks of `world` must construct it together. `world` is unchanged and must outlive it.
  ///
  /// Throws: on all ranks, CollectiveError naming the ranks whose axes differ from rank 0's;
  ///         ValueError unless there is an axis, names are distinct and not empty, and sizes are
  ///         positive and multiply to the world size
  Mesh(Communicator& world, std::vector<MeshAxis> axes, Where where = Where::current());
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  const std::vector<MeshAxis>& axes() const { return axes_; }
  Communicator& world() const { return world_; }

  /// The group of ranks that differ from this one only in their coordinate on axis `name`. Throws
  /// ValueError unless there is such an axis, as do size() and coordinate().
  Communicator& axis(const std::string& name, Where where = Where::current()) const;
  int size(const std::string& name, Where where = Where::current()) const;
  /// This rank's place on the axis, in [0, size).
  int coordinate(const std::string& name, Where where = Where::current()) const;

  /// The coordinates of a rank, one per axis, and the rank at given coordinates.
  ///
  ///   rank = (c[0] * size[1] + c[1]) * size[2] + c[2] ...
  ///
  /// Throws: IndexError unless they are in the mesh
  std::vector<int> coordinates_of(int rank, Where where = Where::current()) const;
  int rank_of(const std::vector<int>& coordinates, Where where = Where::current()) const;

  /// A new group of the ranks that differ from this one in these coordinates only, in rank order.
  /// All ranks of the mesh must call it. The caller owns the group, and abort() does not reach it.
  ///
  /// Throws: ValueError unless the names are axes, each at most once; CollectiveError unless all
  ///         ranks ask for the same axes
  std::unique_ptr<Communicator> plane(const std::vector<std::string>& names,
                                      Where where = Where::current()) const;

  /// Breaks the world group and this rank's groups on all axes (Communicator::abort).
  void abort(const std::string& reason) noexcept;

 private:
  std::size_t index_of(const std::string& name, Where where) const;

  Communicator& world_;
  const std::vector<MeshAxis> axes_;
  std::vector<int> coordinates_;  // of this rank
  std::vector<std::unique_ptr<Communicator>> groups_;
  const Unwinding unwinding_;
};

/// The grid, a line per row, with this rank in brackets:
///
///     mesh of data 2 x tensor 3
///       data 0:   0    1    2
///       data 1:   3   [4]   5
std::ostream& operator<<(std::ostream& out, const Mesh& mesh);

}  // namespace ringrad
