// The cheapest way from the spec with which a tensor is stored to the one with which it is wanted.
//
// A shortest path (Dijkstra) over specs, whose edges are the moves of move.h: all states, lists in
// every order, several axes at once. Costs are forward plus backward; ties go to fewer moves, then
// to the lower axis. Packed dims change one axis at a time, part by part, from the parts that the
// tensor has to those that are wanted; equal packed dims are left as they are.
//
// Under the model `colossal` the edges are Colossal-AI's own: one axis at a time, lists in
// ascending order, an all-to-all between two split dims towards the first alone.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/sharding/move_cost.h"

namespace trainyard {

struct RedistributionStep {
  Move move;
  TensorSpec after;
};

struct Redistribution {
  TensorSpec from;
  std::vector<RedistributionStep> steps;
};

/// Takes specs in normal form, without spec_problem().
std::variant<Redistribution, Infeasible> redistribute(const TensorSpec& from, const TensorSpec& to,
                                                      const Extents& extents,
                                                      const DeviceMesh& mesh,
                                                      const MoveCosts& costs);

/// Sums over the steps.
MoveCost path_cost(const Redistribution& path, const Extents& extents, const DeviceMesh& mesh,
                   const MoveCosts& costs);

/// Paths of one mesh and one table of costs, by (from, to, extents): each is searched once.
class RedistributionCache {
 public:
  RedistributionCache(DeviceMesh mesh, MoveCosts costs);
  const std::variant<Redistribution, Infeasible>& find(const TensorSpec& from, const TensorSpec& to,
                                                       const Extents& extents,
                                                       double element_bytes = 1);
  std::size_t size() const { return paths_.size(); }

 private:
  DeviceMesh mesh_;
  MoveCosts costs_;
  std::unordered_map<std::string, std::variant<Redistribution, Infeasible>> paths_;
};

}  // namespace trainyard
