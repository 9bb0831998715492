#include "engine/partition/pipeline_search.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>

namespace trainyard {

namespace {

constexpr std::int64_t kMostCodeMicrobatches = 32;

/// Nodes that a pipeline may span, ascending, and the fewest stages with each.
std::vector<std::pair<std::int64_t, std::int64_t>> node_counts(const PipelineProblem& problem) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  std::int64_t least = 1;
  if (problem.each > 0) return {{problem.nodes, 1}};
  const bool doubles = problem.rule == StageRule::kPaper;
  for (std::int64_t n = 1; n <= problem.nodes; n = doubles ? 2 * n : n + 1) {
    if (!doubles && problem.nodes % n != 0) continue;
    out.emplace_back(n, doubles ? problem.devices_per_node * (n - 1) + 1 : least);
    least = problem.devices_per_node * n + 1;
  }
  return out;
}

class Search {
 public:
  Search(const PipelineProblem& problem, const PipelineCosts& costs)
      : problem_(problem),
        costs_(costs) {}

  std::variant<PipelinePlan, Infeasible> search() {
    const auto num_blocks = static_cast<std::int64_t>(problem_.num_blocks);
    for (const auto& [nodes, least] : node_counts(problem_)) {
      const std::int64_t each = std::max<std::int64_t>(problem_.each, 1);
      const std::int64_t most = std::min(problem_.devices_per_node * nodes / each, num_blocks);
      const std::int64_t given = problem_.stages;
      if (given > most) continue;
      for (std::int64_t stages = given > 0 ? given : least; stages <= most; ++stages) {
        try_microbatches(nodes, stages);
        if (best_) return finished();
        if (given > 0) break;
      }
    }
    if (num_blocks == 0) return Infeasible{"there are no blocks to divide"};
    return Infeasible{"no pipeline fits: " +
                      (out_.tried.empty()
                           ? std::string("there is nothing to try")
                           : "with " + number_of_stages() + " " + out_.tried.back().reason)};
  }

 private:
  std::string number_of_stages() const {
    const std::int64_t stages = out_.tried.back().stages;
    return std::to_string(stages) + (stages == 1 ? " stage" : " stages");
  }

  void try_microbatches(std::int64_t nodes, std::int64_t stages) {
    const std::int64_t replicas = problem_.nodes / nodes;
    std::int64_t most = problem_.batch / replicas;
    if (most < 1) {
      out_.tried.push_back({nodes, replicas, stages, 0, false, 0,
                            "a batch of " + std::to_string(problem_.batch) +
                                " has no sample for each of " + std::to_string(replicas) +
                                " pipelines"});
    }
    if (problem_.microbatches > 0) {
      if (most > 0) try_pipeline(nodes, stages, problem_.microbatches);
      return;
    }
    if (problem_.rule == StageRule::kCode) most = std::min(most, kMostCodeMicrobatches);
    for (std::int64_t microbatches = 1; microbatches <= most; microbatches *= 2)
      try_pipeline(nodes, stages, microbatches);
  }

  void try_pipeline(std::int64_t nodes, std::int64_t stages, std::int64_t microbatches) {
    const bool code = problem_.rule == StageRule::kCode;
    PipelineTrial trial{nodes,
                        problem_.nodes / nodes,
                        stages,
                        microbatches,
                        code ? microbatches > 1 : stages > 1,
                        0,
                        ""};
    if (problem_.each > 0 && problem_.batch % (problem_.each * microbatches) != 0) {
      trial.reason = "a batch of " + std::to_string(problem_.batch) +
                     " has not as many samples for each of " + std::to_string(problem_.each) +
                     " devices and " + std::to_string(microbatches) + " microbatches";
      out_.tried.push_back(std::move(trial));
      return;
    }
    const StageProblem inner = problem_of(trial);
    auto found = divide_into_stages(
        inner, [&](std::size_t first, std::size_t end, std::int64_t samples, std::int64_t k) {
          return costs_.stage(stage_of(trial, first, end, samples, k));
        });
    if (const auto* none = std::get_if<Infeasible>(&found)) {
      trial.reason = none->reason;
      out_.tried.push_back(std::move(trial));
      return;
    }
    auto& division = std::get<StageDivision>(found);
    const auto step =
        costs_.step ? costs_.step(trial, division) : step_time(inner, trial, division);
    if (const auto* none = std::get_if<Infeasible>(&step))
      trial.reason = none->reason;
    else
      trial.time = std::get<double>(step);
    out_.tried.push_back(trial);
    if (!trial.reason.empty() || (best_ && trial.time >= best_->time)) return;
    best_ = trial;
    out_.stages = std::move(division);
  }

  StageProblem problem_of(const PipelineTrial& trial) const {
    const bool code = problem_.rule == StageRule::kCode;
    StageProblem inner;
    inner.num_blocks = problem_.num_blocks;
    inner.stages = trial.stages;
    inner.devices =
        problem_.each > 0 ? problem_.each * trial.stages : problem_.devices_per_node * trial.nodes;
    inner.batch = problem_.batch;
    inner.replicas = trial.replicas;
    inner.microbatches = trial.microbatches;
    inner.memory = problem_.memory;
    inner.rule = problem_.rule;
    inner.round_up = problem_.rule != StageRule::kPaper;
    inner.powers_of_two = code && problem_.each == 0;
    inner.each = problem_.each;
    inner.in_bytes = problem_.in_bytes;
    return inner;
  }

  static StageOfBlocks stage_of(const PipelineTrial& trial, std::size_t first, std::size_t end,
                                std::int64_t samples, std::int64_t devices) {
    return {
        first,          end, samples, devices * trial.replicas, trial.stages, trial.microbatches,
        trial.recompute};
  }

  std::variant<double, Infeasible> step_time(const StageProblem& inner, const PipelineTrial& trial,
                                             const StageDivision& division) const {
    std::vector<double> forward, backward;
    double all_reduce = 0;
    std::size_t first = 0;
    for (std::size_t s = 0; s < division.ends.size(); ++s) {
      const std::int64_t k = division.devices[s];
      const std::int64_t parts = inner.replicas * inner.microbatches * k;
      const std::int64_t samples =
          inner.round_up ? (inner.batch + parts - 1) / parts : inner.batch / parts;
      const StageCost cost = costs_.stage(stage_of(trial, first, division.ends[s], samples, k));
      const bool both = problem_.rule == StageRule::kCode;
      const double sent = cost.send_forward + cost.send_backward;
      forward.push_back(cost.forward + (both ? sent : cost.send_forward));
      backward.push_back(cost.backward + (both ? sent : cost.send_backward));
      if (both || k * inner.replicas > 1)
        all_reduce = std::max(all_reduce, costs_.all_reduce(first, division.ends[s]));
      first = division.ends[s];
    }
    return all_reduce + slots_time(forward, backward, inner.microbatches);
  }

  /// The longest forward and backward of the stages at work, summed over the slots of a step.
  static double slots_time(const std::vector<double>& forward, const std::vector<double>& backward,
                           std::int64_t microbatches) {
    const std::ptrdiff_t stages = std::ssize(forward);
    const auto slot = [&](std::ptrdiff_t from, std::ptrdiff_t to) {
      return *std::max_element(forward.begin() + from, forward.begin() + to) +
             *std::max_element(backward.begin() + from, backward.begin() + to);
    };
    // In the middle all stages are at work, or all microbatches: those slots are alike, or few.
    const std::int64_t alike = std::max<std::int64_t>(microbatches - stages, 0);
    const std::int64_t shown = microbatches - alike;
    double time = static_cast<double>(alike) * slot(0, stages);
    for (std::ptrdiff_t s = 0; s < shown + stages - 1; ++s)
      time += slot(std::max<std::ptrdiff_t>(0, s - shown + 1), std::min(s + 1, stages));
    return time;
  }

  PipelinePlan finished() {
    out_.chosen = *best_;
    for (const std::int64_t devices : out_.stages.devices)
      out_.replicas.push_back(devices * out_.chosen.replicas);
    out_.ranks = flat_ranks(out_.replicas);
    return std::move(out_);
  }

  const PipelineProblem& problem_;
  const PipelineCosts& costs_;
  std::optional<PipelineTrial> best_;
  PipelinePlan out_;
};

}  // namespace

std::variant<PipelinePlan, Infeasible> search_pipeline(const PipelineProblem& problem,
                                                       const PipelineCosts& costs) {
  return Search(problem, costs).search();
}

std::vector<std::vector<std::int64_t>> flat_ranks(const std::vector<std::int64_t>& replicas) {
  std::int64_t rounds = 0;
  for (const std::int64_t count : replicas) rounds = std::gcd(rounds, count);
  std::vector<std::vector<std::int64_t>> out(replicas.size());
  std::int64_t rank = 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (std::size_t s = 0; s < replicas.size(); ++s) {
      for (std::int64_t i = 0; i < replicas[s] / rounds; ++i) out[s].push_back(rank++);
    }
  }
  return out;
}

}  // namespace trainyard
