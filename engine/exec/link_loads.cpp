#include "engine/exec/link_loads.h"

#include <algorithm>

namespace trainyard {

std::vector<LinkLoad> link_loads(const RunPlan& plan, const Network& network,
                                 const std::vector<std::int64_t>& sent,
                                 const std::vector<Seconds>& shared, Seconds period) {
  const Folds& folds = plan.folds;
  std::vector<double> bytes(folds.links.size(), 0);
  for (std::size_t c = 0; c < folds.channels.size(); ++c) {
    for (std::size_t m = 0; m < plan.lanes.messages.size(); ++m) {
      if (plan.lanes.messages[m].lane != folds.channels[c].lane) continue;
      const auto channel = static_cast<ChannelId>(c);
      const auto message = static_cast<std::int32_t>(m);
      const auto times = static_cast<double>(sent[plan.times.index(channel, message)]);
      if (times == 0) continue;
      for (const CollectivePhase& phase : plan.times.of(channel, message).phases) {
        const auto edges =
            std::find_if(folds.edges[c].begin(), folds.edges[c].end(), [&](const ChannelEdges& e) {
              return e.shape == phase.shape && e.distance == phase.distance;
            });
        if (edges == folds.edges[c].end()) continue;
        const double per_edge = edge_bytes(plan.lanes.messages[m].kind, phase);
        for (const ChannelUse& use : edges->uses) {
          bytes[static_cast<std::size_t>(use.link)] +=
              times * per_edge * static_cast<double>(use.load) / static_cast<double>(edges->unit);
        }
      }
    }
  }
  std::vector<LinkLoad> out;
  for (std::size_t k = 0; k < folds.links.size(); ++k) {
    LinkLoad load;
    load.name = network.name(folds.links[k].link);
    load.multiplicity = folds.links[k].multiplicity;
    load.capacity = network.capacity(folds.links[k].link);
    load.bytes = bytes[k];
    load.busy_fraction = bytes[k] / (load.capacity * period);
    load.shared = k < shared.size() ? shared[k] : 0;
    if (load.bytes > 0) out.push_back(std::move(load));
  }
  std::stable_sort(out.begin(), out.end(), [](const LinkLoad& a, const LinkLoad& b) {
    return a.busy_fraction != b.busy_fraction ? a.busy_fraction > b.busy_fraction : a.name < b.name;
  });
  return out;
}

}  // namespace trainyard
