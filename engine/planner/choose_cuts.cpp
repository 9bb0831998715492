#include "engine/planner/choose_cuts.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/partition/min_max_cuts.h"
#include "engine/partition/stage_partition.h"

namespace trainyard {

namespace {

double load_of(const OpProfile& op, bool by_time) {
  return by_time ? op.forward + op.backward : op.parameters;
}

/// What the ops of each piece have.
std::vector<double> piece_loads(const Numbered<OpId>& begins,
                                const Indexed<OpId, OpProfile>& profile, bool by_time) {
  std::vector<double> loads;
  for (const OpId i : profile.keys()) {
    if (std::ssize(loads) < std::ssize(begins) && begins[std::ssize(loads)] == i)
      loads.push_back(0);
    loads.back() += load_of(profile[i], by_time);
  }
  return loads;
}

std::string load_text(double load, bool by_time) {
  return by_time ? duration_text(load) : format("%.4g", load);
}

}  // namespace

TransferRate transfer_rate(const Cluster& cluster, Distance distance) {
  SourceLog log;
  constexpr Bytes kSample = Bytes{16} << 20U;
  const TransferTime time = transfer_parts(kSample, distance, cluster, log);
  return {time.latency, time.transfer / static_cast<double>(kSample)};
}

Numbered<OpId> pieces_between(const Graph& graph, const Indexed<OpId, OpProfile>& profile,
                              PartitionConfig::Between between) {
  Numbered<OpId> begins = {OpId(0)};
  const auto may_begin = stage_begins(graph);
  const auto own = own_parameters(graph);
  bool has = false;        // the last piece a parameter of its own
  std::int32_t layer = 0;  // the first goes with what is in front of it
  for (const OpId i : graph.ops.keys()) {
    if (i == OpId(0)) {
      has = own[i];
      continue;
    }
    const bool of_layer = graph.ops[i].layer > layer;
    layer = std::max(layer, graph.ops[i].layer);
    if (between == PartitionConfig::Between::kLayers) {
      if (of_layer) begins.push_back(i);
    } else if (has && own[i] && profile[i].forward > 0 && may_begin[i]) {
      begins.push_back(i);
    }
    has = has || own[i];
  }
  return begins;
}

std::variant<CutChoice, Infeasible> choose_cuts(const Graph& graph,
                                                const Indexed<OpId, OpProfile>& profile,
                                                const PartitionConfig& partition, int num_stages,
                                                const TransferRate& transfer) {
  const bool by_time = partition.method == "cost";
  const Numbered<OpId> begins = pieces_between(graph, profile, partition.between);
  if (std::ssize(begins) < num_stages) {
    const bool layers = partition.between == PartitionConfig::Between::kLayers;
    return Infeasible{"the model has " + std::to_string(begins.size()) +
                          (layers ? " layers" : " ops that a stage could begin with") + " for " +
                          std::to_string(num_stages) + " stages",
                      "partition"};
  }
  const std::vector<double> loads = piece_loads(begins, profile, by_time);
  std::vector<double> boundary;
  for (const OpId begin : begins) {
    boundary.push_back(0);
    for (const Bytes bytes : {profile[begin].crossing, profile[begin].back_crossing}) {
      if (by_time && bytes > 0)
        boundary.back() += transfer.latency + transfer.per_byte * static_cast<double>(bytes);
    }
  }
  const CutSegments segments = min_max_cuts(loads, boundary, num_stages);
  CutChoice choice;
  for (const std::int64_t piece : segments.begins) {
    const auto cut = cut_at(graph, begins[piece]);
    check(cut.has_value(), "a piece begins where a cut can be said");
    choice.cuts.push_back(*cut);
  }
  const double all = std::accumulate(loads.begin(), loads.end(), 0.0);
  choice.reason = partition.method + ": the largest of " + std::to_string(num_stages) +
                  " stages has " + load_text(segments.minmax, by_time) + " of " +
                  load_text(all, by_time) + (by_time ? " and transfers" : " parameters");
  return choice;
}

}  // namespace trainyard
