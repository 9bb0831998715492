#include "engine/exec/cost_uncertainty.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "engine/base/interval.h"
#include "engine/exec/op_work.h"

namespace trainyard {

namespace {

/// As long a call or a step takes `factor` times as long.
void slow(LinkCurve& curve, double factor) {
  curve.startup *= factor;
  curve.latency *= factor;
  curve.rank_latency *= factor;
  curve.efficiency /= factor;
  for (auto& [ranks, efficiency] : curve.efficiency_by_ranks) efficiency /= factor;
  for (auto& [size, efficiency] : curve.efficiency_beyond) efficiency /= factor;
  for (auto& [ranks, group] : curve.by_ranks) {
    group.startup *= factor;
    group.efficiency /= factor;
    for (auto& [size, efficiency] : group.efficiency_beyond) efficiency /= factor;
  }
}

/// The curves of a cluster's links that say how uncertain they are, always in the same order.
template <typename ClusterT, typename Visit>
void for_uncertain_curves(ClusterT& cluster, const Visit& visit) {
  const auto see = [&](auto& link, auto& curve, const std::string& name) {
    if (curve.provenance.interval > 0)
      visit(curve, (link.name.empty() ? link.kind : link.name) + "." + name);
  };
  for (auto* link : {&cluster.intra, &cluster.inter}) {
    see(*link, link->collective, "collective");
    see(*link, link->point_to_point, "point_to_point");
    for (auto& [kind, curve] : link->by_kind) see(*link, curve, kind);
    if (link->in_switch) see(*link, *link->in_switch, "in_switch");
  }
}

const OpCosts& at_full_speed(const Costs& costs) { return costs.ops.at(1.0); }

}  // namespace

Indexed<SegmentId, double> calls_per_rank(const Program& program) {
  Indexed<SegmentId, double> calls(program.segments.size(), 0);
  const double all = static_cast<double>(program.mesh.num_ranks());
  for (const RankClass& list : program.body) {
    const double share = static_cast<double>(num_ranks(list.ranks, program.mesh)) / all;
    for (const Call& call : list.calls) {
      calls[call.segment] += share;
      for (const auto& [at, inner] : call.inside) calls[inner] += share;
    }
  }
  return calls;
}

CostUncertainty::CostUncertainty(const Program& program, const HardwareProfile& hardware,
                                 const SoftwareProfile& software, const Cluster& cluster) {
  if (hardware.kernels != nullptr && hardware.kernels->repeatability.interval > 0) {
    machine_ = add_entry(hardware.name + ".repeatability");
    machine_deviation_ = hardware.kernels->repeatability.interval / kSigmasOfInterval;
  }
  if (hardware.launch_provenance.interval > 0 && hardware.launch > 0) {
    launch_ = add_entry(hardware.name + ".launch");
    launch_deviation_ = hardware.launch_provenance.interval / kSigmasOfInterval;
  }
  std::map<std::string, std::int32_t> known;
  OpWork work_of(program);
  for (const Segment& segment : program.segments) {
    auto& ops = ops_.emplace_back(segment.ops.size());
    for (std::size_t k = 0; k < segment.ops.size(); ++k) {
      if (moves_data(segment.ops[k].kind)) continue;
      const KernelWork work = work_of(segment.ops[k]);
      if (work.cls == KernelClass::kNone) continue;
      const KernelUncertainty uncertainty = kernel_uncertainty(work, hardware, software);
      if (uncertainty.interval <= 0) continue;
      const auto [at, fresh] = known.try_emplace(uncertainty.entry, 0);
      if (fresh) at->second = add_entry(uncertainty.entry);
      ops[k] = {at->second, static_cast<float>(uncertainty.interval / kSigmasOfInterval)};
    }
  }
  first_link_ = entries_.size();
  for_uncertain_curves(cluster,
                       [&](const LinkCurve&, const std::string& name) { add_entry(name); });
}

std::int32_t CostUncertainty::add_entry(const std::string& name) {
  entries_.push_back(name);
  return static_cast<std::int32_t>(entries_.size()) - 1;
}

Costs CostUncertainty::drawn(const Costs& costs, std::span<const double> draws) const {
  Costs out = costs;
  const auto factor = [&](std::int32_t entry, double deviation) {
    return entry < 0 ? 1.0 : std::exp(deviation * draws.begin()[entry]);
  };
  const double machine = factor(machine_, machine_deviation_),
               launch = factor(launch_, launch_deviation_);
  for (auto& [speed, segments] : out.ops) {
    for (const SegmentId s : segments.keys()) {
      for (std::size_t k = 0; k < segments[s].size(); ++k) {
        const OpUncertainty& op = ops_[s][k];
        segments[s][k].kernel *= machine * factor(op.entry, op.deviation);
        segments[s][k].launch *= launch;
      }
    }
  }
  std::size_t link = first_link_;
  for_uncertain_curves(out.cluster, [&](LinkCurve& curve, const std::string&) {
    slow(curve,
         factor(static_cast<std::int32_t>(link), curve.provenance.interval / kSigmasOfInterval));
    ++link;
  });
  return out;
}

Indexed<std::int32_t, Seconds> CostUncertainty::stakes(const Program& program,
                                                       const Costs& costs) const {
  Indexed<std::int32_t, Seconds> out(entries_.size(), 0);
  const Indexed<SegmentId, double> calls = calls_per_rank(program);
  const auto add = [&](std::int32_t entry, Seconds seconds) {
    if (entry >= 0) out[entry] += seconds;
  };
  for (const SegmentId s : ops_.keys()) {
    for (std::size_t k = 0; k < ops_[s].size(); ++k) {
      const OpCost& cost = at_full_speed(costs)[s][k];
      add(machine_, calls[s] * cost.kernel * machine_deviation_);
      add(launch_, calls[s] * cost.launch * launch_deviation_);
      add(ops_[s][k].entry, calls[s] * cost.kernel * ops_[s][k].deviation);
    }
  }
  return out;
}

double CostUncertainty::interval(SegmentId segment, std::size_t op) const {
  const double own = ops_[segment][op].deviation;
  return own <= 0 ? 0 : kSigmasOfInterval * std::hypot(own, machine_deviation_);
}

std::vector<KindTime> CostUncertainty::kinds(const Program& program, const Costs& costs) const {
  struct Sum {
    double count = 0;
    Seconds time = 0;
    std::map<std::int32_t, Seconds> off;  // by entry, a standard deviation
  };
  std::map<std::string, Sum> sums;
  const Indexed<SegmentId, double> calls = calls_per_rank(program);
  for (const SegmentId s : ops_.keys()) {
    for (std::size_t k = 0; k < ops_[s].size(); ++k) {
      const OpCost& cost = at_full_speed(costs)[s][k];
      if (cost.kernel <= 0 || calls[s] <= 0) continue;
      const ProgramOp& op = program.segments[s].ops[k];
      Sum& sum = sums[op_name(op.kind, op.part)];
      sum.count += calls[s];
      sum.time += calls[s] * cost.kernel;
      sum.off[ops_[s][k].entry] += calls[s] * cost.kernel * ops_[s][k].deviation;
    }
  }
  std::vector<KindTime> out;
  for (const auto& [kind, sum] : sums) {
    double squares = std::pow(sum.time * machine_deviation_, 2);
    for (const auto& [entry, seconds] : sum.off) squares += seconds * seconds;
    out.push_back({kind, sum.count, sum.time, kSigmasOfInterval * std::sqrt(squares) / sum.time});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const KindTime& a, const KindTime& b) { return a.time > b.time; });
  return out;
}

}  // namespace trainyard
