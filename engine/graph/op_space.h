// The index space of an op of a graph: which forms of its kind it has (masks, packed operands,
// parts of its parameter) decides beside the kind.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/graph.h"
#include "engine/sharding/op_index_table.h"

namespace trainyard {

/// All that the index space of an op depends on beside the extents of its operands.
struct OpForm {
  OpKind kind;
  const OpAttrs& attrs;
  std::size_t num_operands;
  std::size_t num_results;
  std::string_view rows = "o";  // linear, add_bias: how the rows of its parameter lie in parts
  const OpParameters& parameters = kNoParameters;

  static const OpParameters kNoParameters;
};
std::variant<IndexSpace, Infeasible> op_space(const OpForm& form,
                                              const std::vector<Extents>& operands);

/// Whether the kind computes: has an index space. Moves, transfers, views of halves have none.
bool has_op_space(OpKind kind);

/// `operands`: extents of the op's inputs, of the unsharded tensors; `op.attrs` likewise. As many
/// results as the op has outputs.
std::variant<IndexSpace, Infeasible> op_space(const Graph& graph, const Op& op,
                                              const std::vector<Extents>& operands);

}  // namespace trainyard
