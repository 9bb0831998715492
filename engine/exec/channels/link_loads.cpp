#include "engine/exec/channels/link_loads.h"

#include <algorithm>

namespace trainyard {

std::vector<LinkLoad> link_loads(const RunPlan& plan, const Network& network,
                                 const std::vector<std::int64_t>& sent,
                                 const Indexed<LinkClassId, Seconds>& shared, Seconds period) {
  const Folds& folds = plan.folds;
  Indexed<LinkClassId, double> bytes(folds.links.size(), 0);
  for (const ChannelId channel : folds.channels.keys()) {
    for (const MessageId message : plan.lanes.messages.keys()) {
      if (plan.lanes.messages[message].lane != folds.channels[channel].lane) continue;
      const auto times = static_cast<double>(sent[plan.times.index(channel, message)]);
      if (times == 0) continue;
      for (const CollectivePhase& phase : plan.times.of(channel, message).phases) {
        const auto edges = std::find_if(
            folds.edges[channel].begin(), folds.edges[channel].end(), [&](const ChannelEdges& e) {
              return e.shape == phase.shape && e.distance == phase.distance;
            });
        if (edges == folds.edges[channel].end()) continue;
        const double per_edge = edge_bytes(phase);
        for (const ChannelUse& use : edges->uses) {
          bytes[use.link] +=
              times * per_edge * static_cast<double>(use.load) / static_cast<double>(edges->unit);
        }
      }
    }
  }
  std::vector<LinkLoad> out;
  for (const LinkClassId k : folds.links.keys()) {
    LinkLoad load;
    load.name = network.name(folds.links[k].link);
    load.multiplicity = folds.links[k].multiplicity;
    load.capacity = network.capacity(folds.links[k].link);
    load.bytes = bytes[k];
    load.busy_fraction = bytes[k] / (load.capacity * period);
    load.shared = shared.has(k) ? shared[k] : 0;
    if (load.bytes > 0) out.push_back(std::move(load));
  }
  std::stable_sort(out.begin(), out.end(), [](const LinkLoad& a, const LinkLoad& b) {
    return a.busy_fraction != b.busy_fraction ? a.busy_fraction > b.busy_fraction : a.name < b.name;
  });
  return out;
}

}  // namespace trainyard
