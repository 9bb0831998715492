#include "app/plan_by_rannc.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "app/analytic_step.h"
#include "app/op_timer.h"
#include "app/prepare.h"
#include "app/tried_pipelines.h"
#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/partition/batch_split.h"
#include "engine/partition/block_costs.h"
#include "engine/partition/stage_partition.h"
#include "engine/plan/plan_limits.h"
#include "engine/planner/stages_of_pieces.h"
#include "study/compile_study.h"
#include "study/study_origin.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

std::string text(std::int64_t value) { return std::to_string(value); }

StageRule rule_of(PartitionConfig::Rule rule) {
  switch (rule) {
    case PartitionConfig::Rule::kPaper: return StageRule::kPaper;
    case PartitionConfig::Rule::kCode: return StageRule::kCode;
    case PartitionConfig::Rule::kExact: return StageRule::kExact;
  }
  return StageRule::kExact;
}

class Planner {
 public:
  Planner(const PipelineRequest& request, const StudyResolvers& resolvers, ModelProfiles& profiles)
      : request_(request),
        resolvers_(resolvers),
        profiles_(profiles),
        units_(units()),
        limit_((1 - request.partition.margin) * static_cast<double>(capacity_of(profiles_.one()))),
        ends_(block_ends()),
        stages_(profiles_.pieces(), ends_, units_,
                [this](std::int64_t samples, bool recompute) -> const PieceProfile& {
                  return profiles_.of(samples, recompute);
                }) {}

  PlannedPipeline plan() {
    check_degrees();
    check_size();
    const auto found = search_pipeline(problem(1), costs(!by_estimate()));
    if (const auto* none = std::get_if<Infeasible>(&found)) {
      if (refused_ && !refused_->key_path().empty())
        fail_at(request_.one_stage, refused_->key_path(), refused_->problem());
      fail_for(none->reason);
    }
    PipelinePlan chosen = std::get<PipelinePlan>(found);
    take_papers_where_faster(chosen);
    PlannedPipeline out = planned(chosen.chosen, chosen.stages);
    out.reason = reason(chosen);
    out.lines = lines(chosen);
    return out;
  }

 private:
  /// The stages that are best by their own times need not have the shortest step.
  void take_papers_where_faster(PipelinePlan& chosen) {
    if (request_.partition.rule != PartitionConfig::Rule::kExact || by_estimate()) return;
    PipelineProblem paper = problem(1);
    paper.rule = StageRule::kPaper;
    auto found = search_pipeline(paper, costs(true));
    auto* plan = std::get_if<PipelinePlan>(&found);
    if (plan == nullptr || plan->chosen.time >= chosen.chosen.time) return;
    chosen = std::move(*plan);
    papers_ = true;
  }

  bool measured() const { return request_.one_stage.times_of_ops.emulated; }
  /// A step of the cost model's says nothing of measured stages.
  bool by_estimate() const {
    return request_.partition.rule == PartitionConfig::Rule::kCode || measured();
  }
  const Cluster& cluster() const { return request_.one_stage.cluster; }
  std::int64_t batch() const { return request_.one_stage.training.global_batch; }
  std::int64_t devices_per_node() const {
    return std::min(cluster().devices_per_node, cluster().num_devices);
  }
  std::int64_t nodes() const { return cluster().num_devices / devices_per_node(); }

  /// Bytes of an element as the Program of one stage has them, and seconds of transfers.
  StageUnits units() const {
    const Prepared& one = profiles_.one();
    PassLog log;
    const auto program = program_of(one, one.study, log);
    if (!program) fail_at(one.study, "partition", "the model has no plan with one stage");
    const MemoryPeak peak = peaks_of(one, one.study, *program).front();
    double elements = 0;
    for (const double of_piece : profiles_.pieces().parameters) elements += of_piece;
    StageUnits units;
    units.parameter_bytes = static_cast<double>(peak.parameters + peak.gradients) / elements;
    units.state_bytes = static_cast<double>(peak.optimizer_state) / elements;
    units.shard_state = request_.shards_state;
    const FixedMemory fixed = fixed_memory(one.software, one.study.training.precision);
    units.fixed = static_cast<double>(fixed.buffers);
    units.activation_factor = fixed.activation_factor;
    units.all_in_flight = request_.schedule == "gpipe";
    constexpr BlockCostOptions kOfCode;
    units.all_reduce = 1e-6 / kOfCode.all_reduce_bandwidth;
    units.gradient_bytes = static_cast<double>(size_in_bytes(one.study.training.grad_dtype));
    units.batch = batch();
    if (request_.partition.rule == PartitionConfig::Rule::kCode) {
      units.transfer = {0, 1e-6 / kOfCode.bandwidth};
    } else if (cluster().num_devices > 1) {
      const bool within = devices_per_node() > 1;
      units.transfer = transfer_rate(cluster(), within ? Distance::kSameNode : Distance::kSameLeaf);
    }
    return units;
  }

  /// [block] behind its last piece: pieces in blocks of like time, or each by itself.
  std::vector<std::size_t> block_ends() {
    // As many as a device has where the model is on all of them.
    const std::int64_t samples = std::max<std::int64_t>(1, batch() / cluster().num_devices);
    const ModelPieces& pieces = profiles_.pieces();
    const TaskGraph graph = tasks_of(profiles_.training(), pieces, profiles_.of(samples, false),
                                     static_cast<double>(samples), units_.parameter_bytes);
    std::vector<std::size_t> order(pieces.size());
    for (std::size_t p = 0; p < order.size(); ++p) order[p] = p;
    const std::vector<TaskAtom> atoms = atoms_of(graph, order);
    const std::int64_t count = request_.partition.blocks;
    if (count == 0 && std::ssize(atoms) > kMostPlannedBlocks) {
      fail_at(request_.one_stage, "partition",
              "the model has " + counted(std::ssize(atoms), "piece") + ", and at most " +
                  text(kMostPlannedBlocks) +
                  " blocks are divided; write blocks: " + text(kMostPlannedBlocks) + " or less");
    }
    BlockOptions options;
    options.count = count;
    options.uncoarsen = request_.partition.rule != PartitionConfig::Rule::kCode;  // its default
    options.memory = limit_;
    options.state_per_parameter =
        (units_.parameter_bytes + units_.state_bytes) / units_.parameter_bytes;
    const TaskBlocks blocks =
        count == 0 ? atoms_as_blocks(graph, atoms) : blocks_of(graph, atoms, options);
    std::vector<std::size_t> ends;
    for (const TaskBlock& block : blocks.blocks) {
      check(block.tasks.front() == (ends.empty() ? 0 : ends.back()) &&
                block.tasks.back() == block.tasks.front() + block.tasks.size() - 1,
            "blocks of a chain follow one another");
      ends.push_back(block.tasks.back() + 1);
    }
    return ends;
  }

  /// Refuses what no division can be: more stages than blocks or devices, more devices to a stage
  /// than samples to a microbatch.
  void check_degrees() const {
    const std::int64_t devices = cluster().num_devices, stages = request_.stages;
    const std::int64_t blocks = std::ssize(ends_);
    const std::int64_t each = std::max<std::int64_t>(request_.each, 1);
    if (stages > blocks) {
      fail_at(request_.one_stage, "partition",
              counted(blocks, "block") + " cannot be " + counted(stages, "stage") +
                  (request_.partition.blocks > 0 ? "; write more blocks, or fewer stages" : ""));
    }
    if (std::max<std::int64_t>(stages, 1) * each > devices) {
      const std::string of_each = each > 1 ? " on " + text(each) + " devices each" : "";
      fail_at(request_.one_stage, stages > 0 ? "parallel.pipeline" : "parallel.data",
              counted(std::max<std::int64_t>(stages, 1), "stage") + of_each + " are more than " +
                  counted(devices, "device"));
    }
    const std::int64_t most = stages > 0 ? stages : std::min(blocks, devices);
    const std::int64_t shared = (devices + most - 1) / most;  // by some stage
    const std::int64_t samples = batch() / std::max<std::int64_t>(request_.microbatches, 1);
    if (shared > samples) {
      fail_at(request_.one_stage,
              request_.microbatches > 0 ? "training.microbatch" : "training.global_batch",
              counted(samples, "sequence") + " of a microbatch cannot be on each of " +
                  counted(shared, "device") + ", and with " + counted(most, "stage") +
                  " one has as many of " + text(devices));
    }
  }

  /// Refuses what would be tried for hours, or in gigabytes.
  void check_size() const {
    constexpr double kMostSteps = 5e11, kMostCosts = 2e7;
    StageProblem largest;
    largest.num_blocks = ends_.size();
    largest.devices = cluster().num_devices;
    largest.stages = std::min<std::int64_t>(largest.devices, std::ssize(ends_));
    largest.rule = rule_of(request_.partition.rule);
    const auto blocks = static_cast<double>(ends_.size());
    const double costs = blocks * blocks * static_cast<double>(largest.devices);
    if (stage_search_steps(largest) <= kMostSteps && costs <= kMostCosts) return;
    fail_at(request_.one_stage, "partition",
            counted(std::ssize(ends_), "block") + " on " + counted(largest.devices, "device") +
                " are too many to try all divisions; write fewer blocks");
  }

  PipelineProblem problem(std::int64_t times_nodes) const {
    PipelineProblem out;
    out.num_blocks = ends_.size();
    out.nodes = nodes() * times_nodes;
    out.devices_per_node = devices_per_node();
    out.batch = batch();
    out.memory = limit_;
    out.rule = rule_of(request_.partition.rule);
    out.stages = request_.stages;
    out.microbatches = request_.microbatches;
    out.each = request_.each;
    out.in_bytes = true;
    return out;
  }

  PipelineCosts costs(bool with_steps) {
    PipelineCosts out;
    out.stage = [this](const StageOfBlocks& of) { return stages_.stage(of); };
    out.all_reduce = [this](std::size_t first, std::size_t end) {
      return stages_.all_reduce(first, end);
    };
    if (with_steps) {
      out.step = [this](const PipelineTrial& trial, const StageDivision& division) {
        return step(trial, division);
      };
    }
    return out;
  }

  PlannedPipeline planned(const PipelineTrial& trial, const StageDivision& division) const {
    PlannedPipeline out;
    out.recompute = trial.recompute;
    for (const std::int64_t devices : division.devices)
      out.replicas.push_back(static_cast<int>(devices * trial.replicas));
    const Graph& graph = profiles_.training().graph;
    for (std::size_t s = 0; s + 1 < division.ends.size(); ++s) {
      const std::size_t piece = ends_[division.ends[s] - 1];
      const auto cut = cut_at(graph, profiles_.pieces().begins[static_cast<std::int64_t>(piece)]);
      check(cut.has_value(), "a piece begins where a cut can be said");
      out.cuts.push_back(*cut);
    }
    const BatchSplit split = split_batch(batch(), trial.microbatches, 1);
    out.microbatches.assign(split.micro.begin(), split.micro.end());
    return out;
  }

  /// Seconds with closed forms, of the study's own Program.
  std::variant<double, Infeasible> step(const PipelineTrial& trial, const StageDivision& division) {
    Study study;
    try {
      study = request_.study_of(planned(trial, division));
    } catch (const ConfigError& error) {
      if (!refused_) refused_ = error;
      return Infeasible{error.problem()};
    }
    const Prepared prepared = prepare_study(std::move(study), resolvers_);
    PassLog log;
    auto compiled = compile(prepared.model, prepared.study, prepared.software, log);
    if (auto* none = std::get_if<Infeasible>(&compiled)) return std::move(*none);
    const auto& program = std::get<Program>(compiled);
    const Bytes most = largest_peak(peaks_of(prepared, prepared.study, program));
    if (static_cast<double>(most) > limit_) {
      return Infeasible{"by its Program a rank takes " + bytes_text(most) + ", and a device has " +
                        memory_text(limit_)};
    }
    return step_of(prepared, prepared.study, program, false).period;
  }

  static std::string memory_text(double bytes) { return bytes_text(static_cast<Bytes>(bytes)); }

  std::string rule_text() const {
    return "rannc, rule " + std::string(kRuleWords[request_.partition.rule]) +
           (papers_ ? ", the paper's stages, whose step is shorter" : "");
  }

  /// With the fewest nodes that would do, by estimate.
  [[noreturn]] void fail_for(const std::string& reason) {
    constexpr std::int64_t kMostTimes = 16;
    if (reason.find("memory") == std::string::npos)
      throw plan_error(request_.one_stage, {reason, "partition"});
    const bool local = cluster().name == kLocalCluster;
    std::string least =
        text(kMostTimes) + " times the " + (local ? "ranks" : "nodes") + " would not do";
    for (std::int64_t times = 2; times <= kMostTimes; times *= 2) {
      PipelineProblem more = problem(times);
      // Finds a division where the best one would be found, and sooner.
      if (more.rule == StageRule::kExact) more.rule = StageRule::kPaper;
      if (!std::holds_alternative<PipelinePlan>(search_pipeline(more, costs(false)))) continue;
      least = (local ? counted(more.nodes * more.devices_per_node, "rank")
                     : counted(more.nodes, "node")) +
              " would do";
      break;
    }
    throw plan_error(request_.one_stage,
                     {reason + " (a margin of " + format("%.3g", 100 * request_.partition.margin) +
                          " % left free); " + least,
                      "partition"});
  }

  std::string reason(const PipelinePlan& plan) const {
    return rule_text() + ": of " + counted(std::ssize(ends_), "block") + ", by " +
           (by_estimate() ? "its estimate " : "a step of ") + duration_text(plan.chosen.time) +
           (measured() ? ", of times" + OpTimer::text(request_.one_stage) : "");
  }

  std::vector<std::string> lines(const PipelinePlan& plan) {
    const PipelineTrial& chosen = plan.chosen;
    std::vector<std::string> out;
    out.push_back("  " + rule_text() + ": " +
                  counted(static_cast<std::int64_t>(profiles_.pieces().size()), "piece") + " in " +
                  counted(std::ssize(ends_), "block") + "; a pipeline on " +
                  counted(chosen.nodes, "node") + ", " +
                  (chosen.replicas == 1 ? "once" : text(chosen.replicas) + " times") + "; " +
                  counted(chosen.microbatches, "microbatch"));
    std::size_t first = 0;
    for (std::size_t s = 0; s < plan.stages.ends.size(); ++s) {
      const std::size_t end = plan.stages.ends[s];
      const std::int64_t parts = chosen.microbatches * plan.replicas[s];
      const bool up = request_.partition.rule != PartitionConfig::Rule::kPaper;
      const std::int64_t samples = up ? (batch() + parts - 1) / parts : batch() / parts;
      const StageCost cost = stages_.stage({first, end, samples, plan.replicas[s], chosen.stages,
                                            chosen.microbatches, chosen.recompute});
      const std::string of =
          end - first == 1 ? "block " + std::to_string(first)
                           : "blocks " + std::to_string(first) + " to " + std::to_string(end - 1);
      out.push_back("  stage " + std::to_string(s) + ": " + of + " on " +
                    counted(plan.replicas[s], "replica") + " of " + counted(samples, "sequence") +
                    "; forward " + duration_text(cost.forward) + ", backward " +
                    duration_text(cost.backward) + ", sends " + duration_text(cost.send_forward) +
                    " and " + duration_text(cost.send_backward) + "; memory " +
                    memory_text(cost.memory) + " of " + memory_text(limit_));
      first = end;
    }
    for (std::string& line : tried_lines(plan.tried)) out.push_back(std::move(line));
    return out;
  }

  const PipelineRequest& request_;
  const StudyResolvers& resolvers_;
  ModelProfiles& profiles_;
  StageUnits units_;
  double limit_;
  std::vector<std::size_t> ends_;
  StagesOfPieces stages_;
  bool papers_ = false;                 // under rule exact
  std::optional<ConfigError> refused_;  // the first pipeline that no study may say
};

}  // namespace

PlannedPipeline plan_by_rannc(const PipelineRequest& request, const StudyResolvers& resolvers) {
  ModelProfiles profiles(request, resolvers);
  return plan_by_rannc(request, resolvers, profiles);
}

PlannedPipeline plan_by_rannc(const PipelineRequest& request, const StudyResolvers& resolvers,
                              ModelProfiles& profiles) {
  return Planner(request, resolvers, profiles).plan();
}

}  // namespace trainyard
