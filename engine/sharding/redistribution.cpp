#include "engine/sharding/redistribution.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include "engine/sharding/normal_form.h"
#include "engine/sharding/search_edges.h"

namespace trainyard {

namespace {

/// How good a path is: cost in whole ticks, so that sums do not depend on their order; moves; the
/// lowest axis of each move, four bits each.
struct PathRank {
  std::int64_t ticks = 0;
  std::int32_t moves = 0;
  std::uint64_t axes = 0;
  friend auto operator<=>(const PathRank&, const PathRank&) = default;
};

struct Node {
  PathRank rank;
  std::int64_t least = -1;  // ticks to the goal
  SearchState before;
  Move move;
  bool done = false;
};

constexpr double kTicksOfEdge = 1e13;  // of the dearest; 5 x 10^5 such edges fit into 63 bits

std::optional<std::string> search_problem(const TensorSpec& from, const TensorSpec& to,
                                          const MoveCosts& costs) {
  if (from.dims.size() != to.dims.size()) return "two tensors of different dims";
  if (static_cast<int>(from.dims.size()) > kMostSearchDims)
    return "more than " + std::to_string(kMostSearchDims) + " dims";
  if ((from.maximum && to.partial != 0 && !to.maximum) ||
      (to.maximum && from.partial != 0 && !from.maximum))
    return "summands are no candidates for a maximum";
  for (const TensorSpec* spec : {&from, &to}) {
    for (const Held& held : spec->held) {
      if (dim_of(*spec, held.axis))
        return "an axis that splits some parts of a dim holds the others";
      if (costs.model == MoveCostModel::kColossal)
        return "the cost model colossal knows no tensor that one rank holds";
    }
    for (const DimSplit& dim : spec->dims) {
      const bool plain = !is_packed(dim) && dim.parts.front().count == 0;
      if (costs.model == MoveCostModel::kColossal && (!plain || dim.parts.front().reversed))
        return "the cost model colossal knows no parts of a dim";
    }
  }
  return std::nullopt;
}

/// Where no gradient flows, E and R are one.
TensorSpec without_entered(TensorSpec spec, const MoveCosts& costs) {
  if (!costs.gradient) spec.entered = 0;
  return spec;
}

/// Packed dims that only differ in how their parts are written.
TensorSpec with_equal_dims(TensorSpec to, const TensorSpec& from, const Extents& extents,
                           const DeviceMesh& mesh) {
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const bool packed = is_packed(from.dims[d]) || is_packed(to.dims[d]);
    if (packed && axes_in(from.dims[d]) == axes_in(to.dims[d]) &&
        axes_of_all_parts(from.dims[d]) == axes_of_all_parts(to.dims[d]) &&
        equal_ranges(from.dims[d], to.dims[d], extents[d], mesh))
      to.dims[d] = from.dims[d];
  }
  return to;
}

}  // namespace

std::variant<Redistribution, Infeasible> redistribute(const TensorSpec& stored,
                                                      const TensorSpec& wanted,
                                                      const Extents& extents,
                                                      const DeviceMesh& mesh,
                                                      const MoveCosts& costs) {
  if (const auto problem = search_problem(stored, wanted, costs)) return Infeasible{*problem};
  MoveCosts used = costs;
  used.gradient = costs.gradient && !stored.maximum && !wanted.maximum;
  const TensorSpec from = without_entered(stored, used);
  const TensorSpec to = with_equal_dims(without_entered(wanted, used), from, extents, mesh);
  SearchEdges edges(from, to, extents, mesh, used);
  const SearchState start = edges.codec().encode(from, 0);
  const SearchState goal = edges.codec().encode(to, 1);
  // A power of two: costs that are whole numbers, or halves of them, are counted exactly.
  const double most = edges.most_of_edge();
  const double tick = std::exp2(std::floor(std::log2(most / kTicksOfEdge)));

  std::unordered_map<SearchState, Node, SearchStateHash> nodes;
  nodes.reserve(1024);
  using Waiting = std::pair<PathRank, SearchState>;  // with the least cost of the rest
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting;
  nodes[start] = {};
  waiting.push({{}, start});
  std::vector<SearchState> ahead;
  const Node* reached = nullptr;  // the goal, once some path leads there
  while (!waiting.empty()) {
    const SearchState state = waiting.top().second;
    waiting.pop();
    if (state == goal) break;
    Node& node = nodes[state];
    if (node.done) continue;
    node.done = true;
    const PathRank rank = node.rank;
    for (const SearchEdge& edge : edges.out_of(state)) {
      const AxisId lowest = *std::min_element(edge.move.axes.begin(), edge.move.axes.end());
      const PathRank there{rank.ticks + std::llround(edge.cost / tick), rank.moves + 1,
                           rank.axes << 4 | static_cast<std::uint64_t>(lowest)};
      if (reached != nullptr && there >= reached->rank) continue;
      const auto [at, made] = nodes.try_emplace(edge.next);
      Node& next = at->second;
      if (next.done || (!made && next.rank <= there)) continue;
      const std::int64_t least = next.least;
      next = {there, least, state, edge.move, false};
      if (edge.next == goal) reached = &next;
      ahead.push_back(edge.next);
    }
    for (const SearchState& one : ahead) {
      Node& next = nodes[one];
      // A little less than the bound, which is rounded.
      if (next.least < 0)
        next.least = static_cast<std::int64_t>(edges.least_cost(one) / tick * (1 - 1e-9));
      PathRank estimate = next.rank;
      estimate.ticks += next.least;
      if (reached == nullptr || estimate <= reached->rank) waiting.push({estimate, one});
    }
    ahead.clear();
  }
  if (!nodes.contains(goal)) return Infeasible{"no moves lead from one spec to the other"};

  Redistribution path{stored, {}};
  for (SearchState state = goal; state != start; state = nodes[state].before)
    path.steps.push_back({nodes[state].move, edges.codec().decode(state)});
  std::reverse(path.steps.begin(), path.steps.end());
  if (!path.steps.empty()) path.steps.back().after = wanted;
  return path;
}

MoveCost path_cost(const Redistribution& path, const Extents& extents, const DeviceMesh& mesh,
                   const MoveCosts& costs) {
  MoveCost sum;
  const TensorSpec* before = &path.from;
  for (const RedistributionStep& step : path.steps) {
    const MoveCost cost = move_cost(step.move, *before, step.after, extents, mesh, costs);
    sum.forward += cost.forward;
    sum.backward += cost.backward;
    sum.forward_bytes += cost.forward_bytes;
    sum.backward_bytes += cost.backward_bytes;
    before = &step.after;
  }
  return sum;
}

}  // namespace trainyard
