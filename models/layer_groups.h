// From the module paths of a graph's ops to its layers: what partitions, recompute units and
// offload count in.
#pragma once

#include <string>

#include "engine/graph/graph.h"

namespace trainyard {

/// Gives each op its layer, in execution order. A layer is a child of a list of modules: a path
/// that ends in a number. Of the levels of the tree, paths that differ in their numbers alone, the
/// one whose children hold most parameters is taken, of several the deeper one. `pattern` says
/// another, with * for each number: "layer*.*". What runs between two layers belongs to the first;
/// without any level every op with a parameter begins a layer. Throws ConfigError where the pattern
/// fits no module.
void group_into_layers(Graph& graph, const std::string& pattern = {});

}  // namespace trainyard
