// What a strategy makes of an op: specs of its operands and results, and so of its backward.
//
// A strategy names one use per axis of the mesh, and is applied to each term by itself:
//   splits index k  operands: S where they have k, else E    result: S where it has k, P where the
//   term
//                                                           sums over k, else E
//   whole           R                                       R
//   entered         E                                       E   the gradient's reduction is put off
//   passed          P, of a product one factor, else E      P   linear ops; the value's is put off
// Terms that are added agree: beside P an addend comes as P. The backward has the op's strategy on
// the dual specs.
#pragma once

#include <variant>
#include <vector>

#include "engine/sharding/index_space.h"

namespace trainyard {

struct IndexSplit {
  int index;  // of IndexSpace::indices
  Axes axes;  // the first cuts coarsest
  friend bool operator==(const IndexSplit&, const IndexSplit&) = default;
};

struct Strategy {
  std::vector<IndexSplit> split;  // ascending by index
  AxisSet entered = 0;
  AxisSet passed = 0;  // all other axes: whole
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

struct OperandSpecs {
  std::vector<TensorSpec> operands;  // in normal form
  std::vector<TensorSpec> results;
};

/// The specs, or why the op cannot be split so: the index is whole or exchanged, an outer index of
/// its group is not cut into single ones, the op is not linear.
std::variant<OperandSpecs, Infeasible> apply(const IndexSpace& space, const Strategy& strategy,
                                             const DeviceMesh& mesh);

/// "o:tp0 tp1 s:cp E(dp) P(dp1)"; "whole".
std::string to_text(const Strategy& strategy, const IndexSpace& space, const DeviceMesh& mesh);

/// Every strategy that apply() takes, at most `most`: each use of each axis of more than one rank,
/// and each order of the axes of an index.
std::vector<Strategy> all_strategies(const IndexSpace& space, const DeviceMesh& mesh,
                                     std::size_t most = 100'000);

/// The strategy that reads its operand `operand` with that spec, and the other operands split as
/// little as may be; nullopt: none does.
std::optional<Strategy> strategy_reading(const IndexSpace& space, int operand,
                                         const TensorSpec& spec, const DeviceMesh& mesh);

}  // namespace trainyard
