#include "engine/exec/loop/run_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

namespace trainyard {

namespace {

/// Unfolded: the first rank of each list, and those asked for.
Indexed<FoldClassId, bool> recorded(const Folds& folds, const RunOptions& options) {
  Indexed<FoldClassId, bool> out(folds.classes.size(), options.record_rows);
  if (options.fold || !options.record_rows) return out;
  std::vector<std::size_t> seen;
  for (const FoldClassId r : out.keys()) {
    const FoldClass& c = folds.classes[r];
    const bool first = std::find(seen.begin(), seen.end(), c.list) == seen.end();
    if (first) seen.push_back(c.list);
    out[r] = first || std::find(options.trace_ranks.begin(), options.trace_ranks.end(), c.rank) !=
                          options.trace_ranks.end();
  }
  return out;
}

/// Channels that join ranks with unlike lists, whose bodies need not begin and end alike.
void refuse_unlike(const Folds& folds, Indexed<ChannelId, bool>& refused) {
  constexpr auto kNone = std::numeric_limits<std::size_t>::max();
  Indexed<ChannelId, std::size_t> list_of(folds.channels.size(), kNone);
  for (const FoldClass& one : folds.classes) {
    for (const ChannelId channel : one.channel) {
      if (channel == kNoIndex) continue;
      if (list_of[channel] == kNone) list_of[channel] = one.list;
      if (list_of[channel] != one.list) refused[channel] = true;
    }
  }
}

/// Lanes of a rank whose collectives may be in bodies: a group that nobody else gets in the way of,
/// of ranks that do the same.
Indexed<FoldClassId, LaneSet> reusable_lanes(const RunPlan& plan, bool reuse) {
  Indexed<FoldClassId, LaneSet> out(plan.folds.classes.size());
  if (!reuse || plan.slowdown.communication_by_compute != 1) return out;
  Indexed<ChannelId, bool> refused = plan.contends;
  refused.resize(plan.folds.channels.size(), false);
  refuse_unlike(plan.folds, refused);
  if (plan.slowdown.any()) {  // what is beside one rank need not be beside another
    for (const ChannelId c : refused.keys()) {
      if (plan.folds.channels[c].num_classes > 1) refused[c] = true;
    }
  }
  for (const FoldClassId r : out.keys()) {
    const auto& channels = plan.folds.classes[r].channel;
    for (const LaneId l : channels.keys()) {
      const bool group = plan.lanes.lanes[l].group != kNoIndex;
      if (group && channels[l] != kNoIndex && !refused[channels[l]]) out[r] |= lane_bit(l);
    }
  }
  return out;
}

struct HashOfKey {
  std::size_t operator()(const RunPlan::ListKey& key) const {
    return key.list + 31 * std::hash<double>()(key.speed) + std::hash<std::int32_t>()(key.owner) +
           std::hash<LaneSet>()(key.lanes);
  }
};

}  // namespace

void make_lists(RunPlan& plan, const Costs& costs, const RunOptions& options) {
  const Indexed<FoldClassId, LaneSet> lanes = reusable_lanes(plan, options.reuse);
  std::deque<StreamList> before = std::exchange(plan.lists, {});
  std::vector<RunPlan::ListKey> keys_before = std::exchange(plan.list_keys, {});
  plan.list_of.clear();
  std::optional<TimedRanks> timed;
  // A list that was made with more lanes allowed serves if it made nothing of the others.
  const auto make = [&](const RunPlan::ListKey& key) {
    for (std::size_t i = 0; i < before.size(); ++i) {
      const RunPlan::ListKey& known = keys_before[i];
      if (known.list != key.list || known.speed != key.speed || known.owner != key.owner) continue;
      if ((key.lanes & ~known.lanes).any() || (before[i].bodies.lanes & ~key.lanes).any()) continue;
      StreamList found = std::move(before[i]);
      before.erase(before.begin() + static_cast<std::ptrdiff_t>(i));
      keys_before.erase(keys_before.begin() + static_cast<std::ptrdiff_t>(i));
      return found;
    }
    // Where messages slow down, too, they are slow beside kernels, but not beside gaps in a run.
    const bool whole_runs = options.reuse && plan.slowdown.communication_by_compute == 1;
    const StreamListOptions how{whole_runs, options.compute_only, key.lanes, plan.slowdown.any()};
    if (!timed) timed.emplace(*plan.program, costs, plan.lanes);
    return make_stream_list(*plan.program, plan.lanes, key.list,
                            timed->make(key.list, key.speed, key.owner), how);
  };
  std::unordered_map<RunPlan::ListKey, std::size_t, HashOfKey> known;
  for (const FoldClassId r : plan.folds.classes.keys()) {
    const FoldClass& c = plan.folds.classes[r];
    const RunPlan::ListKey key{c.list, c.speed, c.owner, lanes[r]};
    const auto [it, fresh] = known.emplace(key, plan.lists.size());
    if (fresh) {
      plan.lists.push_back(make(key));
      plan.list_keys.push_back(key);
    }
    plan.list_of.push_back(it->second);
  }
}

RunPlan make_run_plan(const Program& program, const Costs& costs, const RunOptions& options,
                      const Network* network) {
  Lanes lanes = find_lanes(program);
  const auto fold = [&](const Network* links, bool folded, LinksSeen seen) {
    return fold_ranks(program, lanes, costs.cluster, links, folded, costs.works.row, seen);
  };
  // Without an interconnect, closed forms count what like messages leave each other.
  const Network own(costs.cluster);
  const bool share = network == nullptr && may_share_links(lanes, costs.cluster, own);
  Folds folds = share && options.fold ? fold(&own, true, LinksSeen::kShared)
                                      : fold(network, options.fold, LinksSeen::kAll);
  const Folds alike = share && !options.fold ? fold(&own, true, LinksSeen::kShared) : Folds{};
  const LikeMessages like{options.fold ? &folds : &alike, &own};
  MessageTimes times(lanes, folds, costs, share ? &like : nullptr);
  RunPlan out{&program, std::move(lanes), std::move(folds), std::move(times), {}, {}, {}, {},
              {},       &costs.works,     costs.slowdown};
  out.records = recorded(out.folds, options);
  make_lists(out, costs, options);
  return out;
}

}  // namespace trainyard
