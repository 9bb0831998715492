// What the shapes of a general op's operands and results have to be to each other: of views,
// ranges, sums and products of any dims.
#pragma once

#include <optional>
#include <string>

#include "engine/graph/graph.h"

namespace trainyard {

std::string to_text(const Shape& shape);  // "[2, 3]"

/// What does not have the dim stays as it is.
Shape with_dim(Shape shape, int dim, std::int64_t extent);

/// The shape of a and b as one: dims are aligned at the last, and one of 1 element, or that is not
/// there, stands for any. nullopt: they do not fit.
std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b);

/// Elements of `shape` from one index of `dim` to the next.
std::int64_t stride_of(const Shape& shape, int dim);

/// Whether a range of `dim` is one run of the tensor's elements.
bool is_one_run(const Shape& shape, int dim);

/// `x` without the dims of `dims`, or with 1 element left of each; all of them gone: [1].
Shape sum_shape(const Shape& x, const DimList& dims, bool keepdim);

/// Why `op`, of a general kind, does not take its inputs to its outputs; empty: it does. Of a split
/// without a dim (attention's packed operands, halves of a batch) nothing is asked.
std::string find_general_shape_problem(const Graph& graph, const Op& op);

}  // namespace trainyard
