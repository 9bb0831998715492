#include "engine/cost/collective_time.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/base/error.h"
#include "engine/cost/all_reduce_algorithm.h"
#include "engine/cost/link_rate.h"

namespace trainyard {

namespace {

/// Once per call: the larger of the classes of links in use.
Seconds startup(OpKind kind, bool in_switch, const GroupLayout& group, const Cluster& cluster) {
  const std::int64_t ranks = group.nodes == 1 ? group.ranks : group.ranks_per_node;
  Seconds time = 0;
  if (group.ranks > group.nodes) {
    const LinkCurve& curve = in_switch ? *cluster.intra.in_switch : inside_curve(kind, cluster);
    time = rates_inside(curve, group, ranks).startup;
  }
  if (group.nodes > 1) time = std::max(time, cluster.inter.collective.startup);
  return time;
}

/// `algorithm`: of an all_reduce; nullptr for others, which have one each.
std::vector<CollectivePhase> phases_of(OpKind kind, const AllReduceAlgorithm* algorithm,
                                       Bytes bytes, const GroupLayout& group,
                                       const Cluster& cluster) {
  CollectivePhases phases(kind, bytes, group, cluster);
  if (algorithm != nullptr) {
    (phases.*algorithm->add)();
  } else if (kind == OpKind::kBroadcast || kind == OpKind::kReduce) {
    phases.chain();
  } else if (kind == OpKind::kAllToAll) {
    const bool both = group.nodes > 1 && group.ranks > group.nodes;
    both ? phases.all_pairs() : phases.pairwise();
  } else if (kind == OpKind::kRingShift) {
    phases.shift();
  } else {
    phases.ring(group.ranks - 1);
  }
  auto out = phases.take();
  out.front().latency +=
      startup(kind, algorithm != nullptr && algorithm->in_switch, group, cluster);
  return out;
}

Seconds sum(const std::vector<CollectivePhase>& phases) {
  Seconds time = 0;
  for (const CollectivePhase& phase : phases) time += phase.latency + phase.transfer;
  return time;
}

/// Among which `auto` chooses.
bool is_choice(const AllReduceAlgorithm& algorithm, bool of_library) {
  using Auto = AllReduceAlgorithm::Auto;
  return algorithm.automatic == Auto::kBoth ||
         algorithm.automatic == (of_library ? Auto::kLibrary : Auto::kTextbook);
}

const AllReduceAlgorithm& fastest_choice(Bytes bytes, const GroupLayout& group,
                                         const Cluster& cluster, bool of_library) {
  const AllReduceAlgorithm* best = nullptr;
  Seconds fastest = 0;
  for (const AllReduceAlgorithm& algorithm : all_reduce_algorithms()) {
    if (!is_choice(algorithm, of_library) || !algorithm.is_made_for(group, cluster)) continue;
    const Seconds time = sum(phases_of(OpKind::kAllReduce, &algorithm, bytes, group, cluster));
    if (best != nullptr && time >= fastest) continue;
    best = &algorithm;
    fastest = time;
  }
  return *best;  // the ring is made for all
}

/// The word of an all_reduce; "ring" where the cluster says nothing.
const std::string& said_algorithm(const Cluster& cluster) {
  static const std::string ring = "ring";
  const auto said = cluster.collectives.find(std::string(to_string(OpKind::kAllReduce)));
  return said == cluster.collectives.end() ? ring : said->second;
}

}  // namespace

const AllReduceAlgorithm& algorithm_of(Bytes bytes, const GroupLayout& group,
                                       const Cluster& cluster) {
  const std::string& word = said_algorithm(cluster);
  const AllReduceAlgorithm* said = find_all_reduce_algorithm(word);
  check(said != nullptr || word == "auto", "the reader knows the algorithms of an all_reduce");
  if (said != nullptr) {
    if (said->is_made_for(group, cluster)) return *said;
    if (said->otherwise == AllReduceAlgorithm::Otherwise::kRing)
      return all_reduce_algorithms().front();
  }
  const bool fitted = (group.ranks > group.nodes && !is_plain(cluster.intra.collective)) ||
                      (group.nodes > 1 && !is_plain(cluster.inter.collective));
  return fastest_choice(bytes, group, cluster, said != nullptr || fitted);
}

std::vector<CollectivePhase> collective_phases(OpKind kind, Bytes bytes, const GroupLayout& group,
                                               const Cluster& cluster, SourceLog& log) {
  check(is_collective(kind), "phases of an op that is no collective");
  check(group.nodes >= 1 && group.nodes <= group.ranks, "a group lies on 1 to n nodes");
  if (group.ranks == 1) return {};
  const AllReduceAlgorithm* const algorithm =
      kind == OpKind::kAllReduce ? &algorithm_of(bytes, group, cluster) : nullptr;
  if (group.ranks > group.nodes) {
    if (algorithm != nullptr && algorithm->in_switch) {
      log.use(cluster.intra, *cluster.intra.in_switch, "in_switch", "all-reduces in the switches");
    } else {
      const LinkCurve& curve = inside_curve(kind, cluster);
      const bool own = &curve != &cluster.intra.collective;
      log.use(cluster.intra, curve, own ? to_string(kind) : "collective",
              own ? "such collectives" : "collectives");
      note_range(curve, bytes, log);
    }
  }
  if (group.nodes > 1)
    log.use(cluster.inter, cluster.inter.collective, "collective", "collectives");
  return phases_of(kind, algorithm, bytes, group, cluster);
}

Seconds collective_time(OpKind kind, Bytes bytes, const GroupLayout& group, const Cluster& cluster,
                        SourceLog& log) {
  return sum(collective_phases(kind, bytes, group, cluster, log));
}

double edge_bytes(const CollectivePhase& phase) {
  if (phase.shape == EdgeShape::kShift) return phase.bytes;
  return phase.bytes * static_cast<double>(phase.chunks > 0 ? phase.chunks : phase.steps);
}

std::int64_t broadcast_chunks(std::int64_t ranks, Seconds whole, Seconds alpha) {
  constexpr double kMost = 1024;
  if (alpha <= 0) return static_cast<std::int64_t>(kMost);
  // One more than c pieces is faster while c (c + 1) < (n - 2) S / (alpha B).
  const double bound = static_cast<double>(ranks - 2) * whole / alpha;
  const double best = std::ceil((std::sqrt(1 + 4 * bound) - 1) / 2);
  return static_cast<std::int64_t>(std::clamp(best, 1.0, kMost));
}

bool leaves_ring(OpKind kind, const Cluster& cluster) {
  if (kind == OpKind::kAllToAll) return true;
  if (kind != OpKind::kAllReduce) return false;
  const std::string& word = said_algorithm(cluster);
  if (word == "auto")
    return is_plain(cluster.inter.collective) && is_plain(cluster.intra.collective);
  return find_all_reduce_algorithm(word)->leaves_ring;
}

}  // namespace trainyard
