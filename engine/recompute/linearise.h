// A model's graph as a chain of groups, each of which hands one value to the next: what
// recomputation works on.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace trainyard {

/// A node of a graph, behind all that it reads.
struct LinkedNode {
  std::string name;
  std::vector<std::size_t> reads;  // nodes, each once
  bool input = false;              // of the model: nothing is computed, and it may pass any cut
  bool output = false;             // of the model, or its loss: in no group, and reads nothing
  bool common = false;             // has no gradient, and may pass any cut: a mask, a shape
  bool in_place = false;           // writes over what it reads
  bool communication = false;      // belongs to what it reads
};

struct LinearGraph {
  std::vector<std::vector<std::size_t>> groups;  // nodes, in order
  std::vector<std::size_t> common;               // those that were said to be, and those found
};

/// A group ends behind the node with which every value made so far has been read by all of its
/// readers, but for that node's own, where none of its readers works in place or communicates. A
/// node is common if all that it reads is, and it reads something; what it makes is not waited for.
/// Liu et al., MAP (arXiv:2302.02599), algorithm 2 and lemma 5.4, as its code does it: a node's
/// readers count behind its own test, and outputs are no readers. O(nodes + reads).
LinearGraph linearise(const std::vector<LinkedNode>& nodes);

/// The ops of a graph as nodes, by number; parameters and data are no nodes. Common: ops whose
/// results have no gradient, or that read parameters alone, as T5's table of relative biases. The
/// op that makes the loss is an output. In place: ReLU, as torchvision's models have it.
std::vector<LinkedNode> linked_nodes(const Graph& graph);

}  // namespace trainyard
