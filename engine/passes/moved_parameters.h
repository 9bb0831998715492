// Parameters that an op uses otherwise than they are stored: moved within every microbatch, as an
// activation is, and their gradients back (sharding.h: a stored spec, and one of each use).
#pragma once

#include "engine/graph/graph.h"

namespace trainyard {

/// A product or a look-up, whose weight, operand 1, may be what has been gathered of a parameter:
/// the backward then writes its gradient, and adds it to nothing.
inline bool is_weighted(OpKind kind) {
  return kind == OpKind::kLinear || kind == OpKind::kEmbedding;
}

/// The same, and ops that may have a weight which others make of a parameter: windows along one
/// dim.
inline bool takes_any_weight(OpKind kind) {
  return is_weighted(kind) || kind == OpKind::kConv2d || kind == OpKind::kConvTranspose2d;
}

/// The spec with which ops read a tensor: a parameter's is that of its use (Parameter::used).
inline SpecId read_spec(const Graph& graph, TensorId id) {
  const Tensor& t = graph.tensors[id];
  return t.role == TensorRole::kParameter ? graph.parameters[t.parameter].used : t.spec;
}

}  // namespace trainyard
