#include "ringrad/parallel/comm/mesh.h"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <set>
#include <utility>

#include "ringrad/parallel/comm/same_text.h"

namespace ringrad {
namespace {

template <class Items, class Print>
std::string join(const Items& items, const char* between, Print print) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : between) + print(item);
  return text;
}

std::string describe(const std::vector<MeshAxis>& axes, const char* between) {
  return join(axes, between,
              [](const MeshAxis& axis) { return concat(axis.name, ' ', axis.size); });
}

// All ranks have given the same axes, so all throw or none.
void check_axes(const std::vector<MeshAxis>& axes, int world_size, Where where) {
  RINGRAD_CHECK(!axes.empty(), ValueError, where, "mesh: there must be an axis; got none");
  std::set<std::string> names;
  for (const MeshAxis& axis : axes) {
    RINGRAD_CHECK(!axis.name.empty() && names.insert(axis.name).second, ValueError, where,
                  "mesh: each axis must have a name of its own; got \"", axis.name, "\" in ",
                  describe(axes, " x "));
    RINGRAD_CHECK(axis.size >= 1, ValueError, where,
                  "mesh: an axis must have at least one rank; got ", describe(axes, " x "));
  }
  std::int64_t product = 1;
  for (const MeshAxis& axis : axes)
    if (product <= world_size) product *= axis.size;  // beyond it, it cannot come back
  RINGRAD_CHECK(product == world_size, ValueError, where,
                "mesh: the axes' sizes must multiply to the world size; got ",
                join(axes, " x ", [](const MeshAxis& axis) { return std::to_string(axis.size); }),
                " for ", world_size, " ranks");
}

}  // namespace

Mesh::Mesh(Communicator& world, std::vector<MeshAxis> axes, Where where)
    : world_(world), axes_(std::move(axes)) {
  check_same_text("mesh: all ranks must give the axes of rank 0", describe(axes_, "\n"), world_,
                  where);
  check_axes(axes_, world_.world_size(), where);
  coordinates_ = coordinates_of(world_.rank(), where);
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    std::vector<int> first = coordinates_;  // a line is named by its first rank
    first[i] = 0;
    groups_.push_back(world_.split(rank_of(first), 0, where));
  }
}

Mesh::~Mesh() {
  if (unwinding_) abort(kEndedByException);
}

void Mesh::abort(const std::string& reason) noexcept {
  world_.abort(reason);
  for (const auto& group : groups_) group->abort(reason);
}

std::size_t Mesh::index_of(const std::string& name, Where where) const {
  const auto found = std::find_if(axes_.begin(), axes_.end(),
                                  [&](const MeshAxis& axis) { return axis.name == name; });
  RINGRAD_CHECK(found != axes_.end(), ValueError, where, "mesh: the axis must be one of ",
                join(axes_, ", ", [](const MeshAxis& axis) { return axis.name; }), "; got \"", name,
                '"');
  return static_cast<std::size_t>(found - axes_.begin());
}

Communicator& Mesh::axis(const std::string& name, Where where) const {
  return *groups_[index_of(name, where)];
}

int Mesh::size(const std::string& name, Where where) const {
  return axes_[index_of(name, where)].size;
}

int Mesh::coordinate(const std::string& name, Where where) const {
  return coordinates_[index_of(name, where)];
}

std::vector<int> Mesh::coordinates_of(int rank, Where where) const {
  RINGRAD_CHECK(rank >= 0 && rank < world_.world_size(), IndexError, where,
                "mesh: the rank must be in [0, ", world_.world_size(), "); got ", rank);
  std::vector<int> coordinates(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0; rank /= axes_[i].size)
    coordinates[i] = rank % axes_[i].size;
  return coordinates;
}

int Mesh::rank_of(const std::vector<int>& coordinates, Where where) const {
  bool is_inside = coordinates.size() == axes_.size();
  int rank = 0;
  for (std::size_t i = 0; i < axes_.size() && is_inside; ++i) {
    is_inside = coordinates[i] >= 0 && coordinates[i] < axes_[i].size;
    rank = rank * axes_[i].size + coordinates[i];
  }
  RINGRAD_CHECK(is_inside, IndexError, where, "mesh: coordinates must lie in ",
                describe(axes_, " x "), "; got ",
                join(coordinates, ", ", [](int c) { return std::to_string(c); }));
  return rank;
}

std::unique_ptr<Communicator> Mesh::plane(const std::vector<std::string>& names,
                                          Where where) const {
  const std::string text = join(names, ", ", [](const std::string& name) { return name; });
  check_same_text("mesh: all ranks must ask for the plane of rank 0", text, world_, where);
  std::vector<int> first = coordinates_;
  std::set<std::size_t> inside;
  for (const std::string& name : names) {
    const std::size_t i = index_of(name, where);
    RINGRAD_CHECK(inside.insert(i).second, ValueError, where,
                  "mesh: a plane must have each axis once; got ", text);
    first[i] = 0;
  }
  return world_.split(rank_of(first), 0, where);
}

std::ostream& operator<<(std::ostream& out, const Mesh& mesh) {
  out << "mesh of " << describe(mesh.axes(), " x ");
  const int row = mesh.axes().back().size, world_size = mesh.world().world_size();
  for (int rank = 0; rank < world_size; ++rank) {
    if (rank % row == 0) {
      const std::vector<int> coordinates = mesh.coordinates_of(rank);
      out << "\n ";
      for (std::size_t i = 0; i + 1 < coordinates.size(); ++i)
        out << ' ' << mesh.axes()[i].name << ' ' << coordinates[i];
      if (coordinates.size() > 1) out << ':';
    }
    const bool is_own = rank == mesh.world().rank();
    out << std::setw(5) << (is_own ? concat('[', rank, ']') : concat(rank, ' '));
  }
  return out;
}

}  // namespace ringrad
