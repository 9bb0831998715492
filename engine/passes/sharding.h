// How a graph is split over the axes of a mesh, as a value: which strategy each op has, and the
// spec with which each tensor is stored. A planner makes it, apply_sharding() carries it out.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/graph.h"
#include "engine/sharding/spec_table.h"
#include "engine/sharding/strategy.h"

namespace trainyard {

/// Ranks that an axis is taken to have whose size is bound late (data parallelism): shardings do
/// not depend on it, beyond "is it 1".
inline constexpr std::int32_t kLateRanks = 2;

/// What a strategy makes of one op.
struct SplitOp {
  Strategy strategy;
  std::vector<SpecId> operands;  // as they are wanted
  std::vector<SpecId> results;   // as they are made
  std::int32_t heads = 0;        // of one rank, where the op has heads
  std::int32_t kv_heads = 0;
};

using SplitId = Index<SplitOp>;

struct Sharding {
  DeviceMesh mesh;
  AxisSet late = 0;     // axes of kLateRanks, which split nothing but rows of the batch
  AxisSet zig_zag = 0;  // axes that cut dims from both ends (zig_zag_split)
  bool uneven = false;  // ranks may have pieces of unlike size (sharding/uneven_pieces.h)
  SpecTable specs;      // in normal form
  Indexed<SplitId, SplitOp> splits;  // layers repeat
  Indexed<OpId, SplitId> ops;
  Indexed<TensorId, SpecId> stored;  // kNoIndex: no op touches it
};

/// A graph and how it is split.
struct PlannedGraph {
  Graph graph;  // that of one device, but for ops that are expanded to be split (cross entropy)
  Sharding sharding;
};

/// A dim of `extent` elements whose ranks have a piece of the first half, and the one as far from
/// the other end: of n ranks the c-th has the pieces c and 2n - 1 - c of 2n. Under a causal mask
/// all have as much to do then (Megatron-LM's and torchtitan's context parallelism).
DimSplit zig_zag_split(const Axes& axes, std::int64_t extent);

/// strategy_reading() where axes cut from both ends.
std::optional<Strategy> strategy_reading(const IndexSpace& space, int operand,
                                         const TensorSpec& spec, const Sharding& sharding);

/// What keeps an op from a strategy that cuts an index in pieces of unlike size: heads, and groups
/// of channels, of which all ranks have one number; nullopt: nothing.
std::optional<std::string> uneven_problem(const Op& op, const IndexSpace& space,
                                          const Strategy& strategy, const Sharding& sharding);

/// The strategy carried out on specs. Operands and results of which no gradient flows are never
/// entered: replicated. Infeasible as apply(), and as uneven_problem().
std::variant<SplitOp, Infeasible> split_op(const Graph& graph, const Op& op,
                                           const IndexSpace& space, const Strategy& strategy,
                                           Sharding& sharding);

/// Extents of what all ranks hold; `shape` is that of one late rank, as graphs have it.
Extents global_extents(const Shape& shape, const TensorSpec& spec, const Sharding& sharding);

/// What a rank holds, of late axes all ranks' in a graph; of uneven pieces the largest. Infeasible
/// where ranks would hold unlike numbers of elements of `name` and the sharding is to be even, or
/// some would hold none.
std::variant<Shape, Infeasible> local_shape(const std::string& name, const Shape& shape,
                                            const TensorSpec& spec, const Sharding& sharding);

}  // namespace trainyard
