#include "engine/partition/tree_partition.h"

#include <numeric>
#include <utility>

#include "engine/partition/d_hondt.h"
#include "engine/partition/min_max_segments.h"

namespace trainyard {

namespace {

DeviceSet set_of(std::vector<std::int64_t> devices) {
  return std::make_shared<const std::vector<std::int64_t>>(std::move(devices));
}

/// Algorithm 2: the devices of each of `nodes`, siblings in execution order.
void divide(const ModuleTree& tree, const DeviceSet& devices, std::vector<std::size_t> nodes,
            std::vector<DeviceSet>& of_node) {
  std::vector<std::pair<DeviceSet, std::vector<std::size_t>>> open;
  open.emplace_back(devices, std::move(nodes));
  while (!open.empty()) {
    const auto [set, siblings] = std::move(open.back());
    open.pop_back();
    std::vector<double> costs;
    for (const std::size_t node : siblings) costs.push_back(tree.cost[node]);
    const Segments segments = min_max_segments(costs, set->size());
    std::vector<double> sums;
    std::size_t begin = 0;
    for (const std::size_t end : segments.ends) {
      double sum = 0;
      for (; begin < end; ++begin) sum += costs[begin];
      sums.push_back(sum);
    }
    const auto seats = d_hondt(sums, *set);
    begin = 0;
    for (std::size_t s = 0; s < seats.size(); ++s) {
      std::vector<std::size_t> segment(
          siblings.begin() + static_cast<std::ptrdiff_t>(begin),
          siblings.begin() + static_cast<std::ptrdiff_t>(segments.ends[s]));
      begin = segments.ends[s];
      const DeviceSet seat = seats[s].empty()
                                 ? set_of({set->front()})
                                 : (seats[s].size() == set->size() ? set : set_of(seats[s]));
      if (seat->size() > 1 && segment.size() > 1) {
        open.emplace_back(seat, std::move(segment));  // fewer nodes than before: this ends
        continue;
      }
      for (const std::size_t node : segment) of_node[node] = seat;
    }
  }
}

}  // namespace

TreePartition partition_tree(const ModuleTree& tree, std::int64_t num_devices) {
  TreePartition out;
  out.load.assign(num_devices, 0);
  const std::size_t num_nodes = tree.parent.size();
  if (num_nodes == 0) return out;
  std::vector<std::vector<std::size_t>> children(num_nodes);
  for (std::size_t n = 1; n < num_nodes; ++n) children[tree.parent[n]].push_back(n);
  std::vector<std::int64_t> all(num_devices);
  std::iota(all.begin(), all.end(), 0);
  out.devices.resize(num_nodes);
  out.devices.front() = set_of(std::move(all));
  // Parents stand before their children, which is all that breadth first is needed for.
  for (std::size_t n = 0; n < num_nodes; ++n) {
    const DeviceSet& devices = out.devices[n];
    out.device.push_back(devices->front());
    out.load[devices->front()] += tree.own[n];
    if (children[n].empty()) continue;
    if (devices->size() > 1) {
      divide(tree, devices, children[n], out.devices);
    } else {
      for (const std::size_t child : children[n]) out.devices[child] = devices;
    }
  }
  return out;
}

}  // namespace trainyard
