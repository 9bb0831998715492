#include "engine/partition/graph_shards.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/base/sort_unique.h"

namespace trainyard {

namespace {

/// [node]: the last that reads it, or itself.
std::vector<std::size_t> last_readers(const std::vector<TracedNode>& nodes) {
  std::vector<std::size_t> out;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    out.push_back(n);
    for (const std::size_t read : nodes[n].reads) out[read] = n;
  }
  return out;
}

/// Subgraphs that begin at these nodes, ascending, the first at 0.
GraphShards shards_from(const std::vector<TracedNode>& nodes,
                        const std::vector<std::size_t>& starts) {
  GraphShards out;
  out.count = starts.size();
  for (std::size_t s = 0; s < starts.size(); ++s)
    out.shard.resize(s + 1 < starts.size() ? starts[s + 1] : nodes.size(), s);
  const std::vector<std::size_t> last = last_readers(nodes);
  if (out.count > 0) out.crossing.resize(out.count - 1);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (std::size_t cut = out.shard[n]; cut < out.shard[last[n]]; ++cut)
      out.crossing[cut].push_back(n);
  }
  return out;
}

/// Algorithm 2. Subgraphs are consecutive nodes, so that where they begin says all.
class FarthestSearch {
 public:
  FarthestSearch(const std::vector<TracedNode>& nodes, std::size_t bound, std::size_t common)
      : nodes_(nodes),
        users_(nodes.size(), 0),
        first_user_(nodes.size()),
        common_(common) {
    double parameters = 0;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (!nodes[n].embedding) parameters += nodes[n].parameters;
      std::vector<std::size_t> reads = nodes[n].reads;
      sort_unique(reads);
      for (const std::size_t read : reads) ++users_[read];
    }
    most_ = std::floor(parameters / static_cast<double>(bound));
  }

  GraphShards search() {
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (starts_.empty() || closed_) open(n);
      const std::size_t least = nodes_[n].input ? current() : farthest(n);
      while (current() > least) join();
      if (nodes_[n].input) continue;
      filled_.back() += nodes_[n].embedding ? most_ + 1 : nodes_[n].parameters;
      closed_ = filled_.back() > most_ && !nodes_[n].embedding;
    }
    return shards_from(nodes_, starts_);
  }

 private:
  std::size_t current() const { return starts_.size() - 1; }
  void open(std::size_t n) {
    starts_.push_back(n);
    filled_.push_back(0);
    closed_ = false;
  }
  void join() {
    starts_.pop_back();
    const double filled = filled_.back();
    filled_.pop_back();
    filled_.back() += filled;
  }
  std::size_t shard_of(std::size_t n) const {
    return (std::ranges::upper_bound(starts_, n) - starts_.begin()) - 1;
  }
  bool ends_shard(std::size_t n) const { return std::ranges::binary_search(starts_, n + 1); }

  /// Algorithm 1: the lowest subgraph that n may be in.
  std::size_t farthest(std::size_t n) {
    std::size_t least = current();
    for (const std::size_t read : nodes_[n].reads) {
      if (users_[read] > common_) continue;
      if (nodes_[read].input) {
        if (!first_user_[read])
          first_user_[read] = n;
        else
          least = std::min(least, shard_of(*first_user_[read]));
      } else if (!nodes_[n].in_place && ends_shard(read)) {
        least = std::min(least, shard_of(read) + 1);
      } else {
        least = std::min(least, shard_of(read));
      }
    }
    if (nodes_[n].in_place && !nodes_[n].reads.empty())
      least = std::min(least, shard_of(nodes_[n].reads.front()));
    return least;
  }

  const std::vector<TracedNode>& nodes_;
  std::vector<std::size_t> users_;
  std::vector<std::optional<std::size_t>> first_user_;  // of an input
  std::size_t common_;
  double most_ = 0;                  // parameters of a subgraph that goes on
  std::vector<std::size_t> starts_;  // of subgraphs
  std::vector<double> filled_;       // their parameters
  bool closed_ = false;
};

}  // namespace

GraphShards farthest_shards(const std::vector<TracedNode>& nodes, std::size_t bound,
                            std::size_t common) {
  return FarthestSearch(nodes, bound, common).search();
}

GraphShards nearest_shards(const std::vector<TracedNode>& nodes) {
  if (nodes.empty()) return {};
  // Inputs are with the first node; what is written over stays with what does so.
  std::vector<std::size_t> starts;
  bool inputs_alone = true;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (n == 0 || !inputs_alone) starts.push_back(n);
    inputs_alone = inputs_alone && nodes[n].input;
    if (!nodes[n].in_place || nodes[n].reads.empty()) continue;
    while (starts.back() > nodes[n].reads.front()) starts.pop_back();
  }
  const GraphShards single = shards_from(nodes, starts);
  std::size_t left = 0;  // values that leave the last
  for (const TracedNode& node : nodes) left += node.output ? 1 : 0;
  left = std::max<std::size_t>(left, 1);
  std::vector<std::size_t> joined = {0};
  for (std::size_t unit = 0; unit + 2 < starts.size(); unit += 2) {
    const std::size_t first = single.crossing[unit].size();
    const std::size_t second =
        unit + 1 < single.crossing.size() ? single.crossing[unit + 1].size() : left;
    if (second > first) joined.push_back(starts[unit + 2]);
  }
  return shards_from(nodes, joined);
}

GraphShards layer_shards(const std::vector<TracedNode>& nodes,
                         const std::vector<std::string>& points, std::vector<std::string>& unused) {
  if (nodes.empty()) {
    unused = points;
    return {};
  }
  std::vector<std::size_t> starts = {0};
  std::vector<bool> used(points.size(), false);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const std::string& name = nodes[n].name;
    for (std::size_t p = 0; p < points.size(); ++p) {
      if (used[p] || (name != points[p] && !name.starts_with(points[p] + "."))) continue;
      used[p] = true;
      if (starts.back() != n) starts.push_back(n);
      break;
    }
  }
  for (std::size_t p = 0; p < points.size(); ++p) {
    if (!used[p]) unused.push_back(points[p]);
  }
  return shards_from(nodes, starts);
}

}  // namespace trainyard
