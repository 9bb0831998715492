// The tensor whose storage another one lies in.
#pragma once

#include <cstddef>

#include "engine/graph/graph.h"

namespace trainyard {

/// Follows aliases; a tensor with storage of its own is its own.
inline TensorId storage_of(const Graph& graph, TensorId id) {
  while (graph.tensors[id].alias != kNoIndex) id = graph.tensors[id].alias;
  return id;
}

}  // namespace trainyard
