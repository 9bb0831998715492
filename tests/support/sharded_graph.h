// Random graphs of ops, run whole and sharded: each op with a random strategy, each stored tensor
// with a random spec, moves between them, forward and backward through the duals.
#pragma once

#include <string>
#include <vector>

#include "engine/sharding/op_index_table.h"
#include "engine/sharding/strategy.h"
#include "tests/support/sharded_tensor.h"

namespace trainyard {

struct GraphOp {
  std::string kind;
  std::vector<int> operands;  // tensors
  std::vector<int> results;
  OpParameters parameters;
};
struct OpGraph {
  std::vector<Extents> tensors;
  std::vector<bool> is_input;
  std::vector<GraphOp> ops;
};
OpGraph random_graph(Random& random);

/// The local results of an op on local operands; local or global, the loops are the same.
/// `results`: extents of what it makes.
std::vector<DenseTensor> run_op(const GraphOp& op, const std::vector<DenseTensor>& operands,
                                const std::vector<Extents>& results);
/// Gradients of the operands.
std::vector<DenseTensor> run_backward(const GraphOp& op, const std::vector<DenseTensor>& operands,
                                      const std::vector<DenseTensor>& gradients);

/// The largest difference of any value and gradient from those of one rank; `text`: the graph with
/// all its specs, `problem`: copies that differ.
double sharded_difference(Random& random, const OpGraph& graph, const DeviceMesh& mesh,
                          PlantedError& planted, std::string& text, std::string& problem);

}  // namespace trainyard
