#include "engine/exec/channels/contention.h"

#include <algorithm>
#include <limits>

namespace trainyard {

namespace {

/// What passes one class of links, seen on one of them.
struct LinkUsers {
  LaneSet lanes;
  bool twice = false;  // two messages of one lane
  double demand = 0;   // bytes/s that all of them could send together
};

}  // namespace

Contention find_contention(const RunPlan& plan, const Network& network) {
  const Folds& folds = plan.folds;
  Indexed<LinkClassId, LinkUsers> users(folds.links.size());
  for (const ChannelId c : folds.channels.keys()) {
    const LaneSet lane = lane_bit(folds.channels[c].lane);
    Numbered<double> demand;
    std::vector<LinkClassId> passed;
    for (const ChannelEdges& edges : folds.edges[c]) {
      double rate = std::numeric_limits<double>::infinity();
      for (const ChannelUse& use : edges.uses) {
        rate = std::min(
            rate, network.reached(folds.links[use.link].link) / static_cast<double>(use.times));
      }
      for (const ChannelUse& use : edges.uses) {
        // Shapes of one channel come one after the other: the most that any of them wants counts.
        const double wanted = rate * static_cast<double>(use.load);
        const auto known = std::find(passed.begin(), passed.end(), use.link);
        const bool first = folds.edges[c].size() == 1 || known == passed.end();
        LinkUsers& of = users[use.link];
        if (!first) {
          double& before = demand[known - passed.begin()];
          of.demand += std::max(0.0, wanted - before);
          before = std::max(before, wanted);
          continue;
        }
        if (folds.edges[c].size() > 1) {
          passed.push_back(use.link);
          demand.push_back(wanted);
        }
        of.demand += wanted;
        if ((of.lanes & lane).any() || use.load > use.times) of.twice = true;
        of.lanes |= lane;
      }
    }
  }
  Contention out;
  out.link.resize(users.size(), false);
  for (const LinkClassId k : users.keys()) {
    const std::int64_t owner = network.owner(folds.links[k].link);
    const LinkUsers& of = users[k];
    if (of.twice || owner < 0) {
      const bool several = of.twice || of.lanes.count() > 1;
      out.link[k] = several && of.demand > network.reached(folds.links[k].link) * (1 + 1e-9);
      continue;
    }
    const StreamList& list = plan.lists[plan.list_of[folds.class_of[owner]]];
    for (const LaneId lane : list.concurrent.keys()) {
      if (of.lanes.test(lane.number()) &&
          (list.concurrent[lane] & of.lanes & ~lane_bit(lane)).any())
        out.link[k] = true;
    }
  }
  out.channel.resize(folds.channels.size(), false);
  for (const ChannelId c : folds.channels.keys()) {
    for (const ChannelEdges& edges : folds.edges[c]) {
      for (const ChannelUse& use : edges.uses) {
        if (out.link[use.link]) out.channel[c] = true;
      }
    }
  }
  return out;
}

}  // namespace trainyard
