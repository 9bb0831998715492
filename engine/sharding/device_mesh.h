// The ranks of a set of stages, arranged on named, ordered axes.
//
// An axis is an atom: tp, dp, ep or cp may be names of ordered lists of atoms (tp = tp0 tp1, ep =
// dp1 tp0), so hybrid sharding, folded experts and two tensor axes need nothing of their own.
//
// Pipeline ranks may have unlike numbers of replicas: one axis then has a size for each of them,
// and the mesh is one box per pipeline rank, one behind the other.
#pragma once

#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/indexed.h"

namespace trainyard {

inline constexpr int kMostAxes = 16;
inline constexpr std::int64_t kMostMeshRanks = 1 << 24;

using AxisId = std::int8_t;  // index into DeviceMesh::axes
inline constexpr AxisId kNoAxis = -1;
using AxisSet = std::uint16_t;  // bit i: axis i
using Axes =
    boost::container::static_vector<AxisId, kMostAxes>;  // ordered, the first cuts coarsest
using Coordinate = boost::container::static_vector<std::int32_t, kMostAxes>;  // one per axis

constexpr AxisSet bit(AxisId axis) { return static_cast<AxisSet>(1U << axis); }
constexpr bool has(AxisSet set, AxisId axis) { return (set & bit(axis)) != 0; }
AxisSet set_of(const Axes& axes);
Axes axes_of(AxisSet set);  // ascending

struct MeshAxis {
  std::string name;
  std::int32_t size = 1;                 // the largest
  bool stages = false;                   // tells pipeline stages apart: no spec names it
  std::vector<std::int32_t> sizes = {};  // at each pipeline rank; empty: the same at all
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

struct DeviceMesh {
  std::string name;
  Numbered<MeshAxis> axes;                          // the last one's ranks lie closest
  std::vector<std::pair<std::string, Axes>> names;  // "tp" -> tp0 tp1

  AxisId num_axes() const { return static_cast<AxisId>(axes.size()); }
  Keys<AxisId> axis_ids() const { return {AxisId{0}, static_cast<AxisId>(axes.size())}; }
  std::int32_t size(AxisId axis) const { return axes[axis].size; }
  std::int32_t size(AxisId axis, std::int32_t pipeline_rank) const {
    const MeshAxis& of = axes[axis];
    return of.sizes.empty() ? of.size : of.sizes[pipeline_rank];
  }
  const std::string& axis_name(AxisId axis) const { return axes[axis].name; }
  std::int64_t num_ranks() const;
  friend bool operator==(const DeviceMesh&, const DeviceMesh&) = default;
};

/// What is wrong with a mesh: a name twice or misspelt, a size below 1, too many ranks, two axes
/// that tell stages apart; with unlike sizes, more than one axis that has them, or a stage axis
/// that is not the first.
std::optional<std::string> mesh_problem(const DeviceMesh& mesh);

/// The axes that a name of the mesh stands for: an axis, or a list of them; nullopt: none.
std::optional<Axes> find_axes(const DeviceMesh& mesh, std::string_view name);

/// The axis that tells pipeline stages apart; kNoAxis: all ranks have the same stages.
AxisId stage_axis(const DeviceMesh& mesh);
std::int32_t num_pipeline_ranks(const DeviceMesh& mesh);  // along it; 1 without one

/// The axis that has a size for each pipeline rank; kNoAxis: none does.
AxisId unlike_axis(const DeviceMesh& mesh);

/// Ranks of a group over these axes: the product of their (largest) sizes.
std::int64_t group_size(const DeviceMesh& mesh, const Axes& axes);
/// The same where members are at this pipeline rank. With the stage axis among the axes, the ranks
/// at all of them; it and an unlike axis stand in one group together, the stage axis first.
std::int64_t group_size(const DeviceMesh& mesh, const Axes& axes, std::int32_t pipeline_rank);
/// Where the rank at `at` stands in its group over these axes, the first axis the slowest.
std::int64_t place_in_group(const DeviceMesh& mesh, const Axes& axes, const Coordinate& at);

/// The same number along every axis.
Coordinate uniform_coordinate(const DeviceMesh& mesh, std::int32_t number);

/// Where the mesh's rank `rank` (0 to num_ranks() - 1) lies; the last axis is the fastest.
Coordinate coordinate_of(const DeviceMesh& mesh, std::int64_t rank);
std::int64_t rank_at(const DeviceMesh& mesh, const Coordinate& coordinate);

/// The ranks that differ from `rank` along `axes` alone, itself among them, in the order of the
/// axis list: the first axis is the slowest. Every backend orders a group's members so.
std::vector<std::int64_t> group_of(const DeviceMesh& mesh, const Axes& axes, std::int64_t rank);
/// The same by where they lie.
std::vector<Coordinate> group_at(const DeviceMesh& mesh, const Axes& axes, const Coordinate& at);

}  // namespace trainyard
