// A traced graph cut into a sequence of subgraphs: Merak's graph sharding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard {

/// A node of a traced graph, behind all that it reads.
struct TracedNode {
  std::string name;
  std::vector<std::size_t> reads;  // nodes, as its arguments are in order
  double parameters = 0;
  bool input = false;      // of the model: nothing is computed
  bool embedding = false;  // closes no subgraph, and fills one
  bool in_place = false;   // writes over the first that it reads
  bool output = false;     // of the model
};

struct GraphShards {
  std::vector<std::size_t> shard;                  // [node], ascending
  std::size_t count = 0;                           // of subgraphs
  std::vector<std::vector<std::size_t>> crossing;  // [cut]: nodes made before and read behind it
};

/// A subgraph ends behind the node with which it has more than 1/bound of the parameters that are
/// not in embeddings; each of those fills one. A node goes to the subgraph of the farthest that it
/// reads, or behind it where that is a subgraph's result, and takes what is in between with it: so
/// one value passes each cut, but for what more than `common` nodes read. Lai et al., Merak
/// (arXiv:2206.04959), algorithms 1 and 2, and its code (common 5, bound 2 layers + 4, embeddings
/// apart). O(nodes log nodes).
GraphShards farthest_shards(const std::vector<TracedNode>& nodes, std::size_t bound,
                            std::size_t common);

/// Nodes two by two: a subgraph ends behind a pair whose second node leaves more values to pass
/// than its first. Merak's nearest_min_deps.
GraphShards nearest_shards(const std::vector<TracedNode>& nodes);

/// A subgraph begins at the first node whose name is one of `points`, or begins with it and a dot.
/// Merak's layer_split. `unused`: points that no node has.
GraphShards layer_shards(const std::vector<TracedNode>& nodes,
                         const std::vector<std::string>& points, std::vector<std::string>& unused);

}  // namespace trainyard
