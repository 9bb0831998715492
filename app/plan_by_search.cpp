#include "app/plan_by_search.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "app/analytic_step.h"
#include "app/model_profiles.h"
#include "app/plan_by_rannc.h"
#include "app/tried_pipelines.h"
#include "engine/base/readable.h"
#include "engine/partition/batch_split.h"
#include "engine/partition/stage_partition.h"
#include "engine/planner/choose_cuts.h"
#include "engine/planner/piece_profile.h"
#include "engine/planner/search_shapes.h"
#include "study/compile_study.h"
#include "study/study_origin.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

/// Microbatches of one sequence: pieces are the same of any number.
Study of_one_sequence(const PipelineRequest& request) {
  Study study = request.one_stage;
  study.training.microbatch = study.training.global_batch = 1;
  return study;
}

class ShapePlanner {
 public:
  ShapePlanner(const PipelineRequest& request, const StudyResolvers& resolvers)
      : request_(request),
        resolvers_(resolvers),
        one_(prepare_study(of_one_sequence(request), resolvers)),
        training_(one_stage_training(one_)),
        pieces_(pieces_of(training_, one_.hardware, one_.software)),
        limit_((1 - request.partition.margin) * static_cast<double>(capacity_of(one_))) {}

  PlannedPipeline plan() {
    ShapeSpace space = space_of_request();
    add_rannc(space);
    add_even(space);
    if (space.starts.empty()) fail_at(study(), "partition", no_start());
    const auto found =
        search_shapes(space, [this](const PipelineShape& shape) { return step_of(shape); });
    if (std::holds_alternative<Infeasible>(found)) fail();
    const auto& best = std::get<SearchedShape>(found);
    PlannedPipeline out = planned(best.shape);
    out.reason = reason_for(best);
    out.lines = lines_of(best, out);
    return out;
  }

 private:
  const Study& study() const { return request_.one_stage; }
  std::int64_t batch() const { return study().training.global_batch; }
  int devices() const { return static_cast<int>(study().cluster.num_devices); }

  ShapeSpace space_of_request() const {
    using enum ShapeRecompute;
    ShapeSpace space;
    space.pieces = std::ssize(pieces_.begins);
    space.devices = devices();
    space.batch = batch();
    space.stages = request_.stages == 0;
    space.replicas = request_.each == 0;
    space.microbatches = request_.microbatches == 0;
    space.recompute =
        request_.recompute ? std::vector{kAsSaid} : std::vector{kNone, kStageAware, kFull};
    space.budget = std::max(
        1, static_cast<int>(request_.partition.budget * PartitionConfig::kEvaluationsPerSecond));
    return space;
  }

  // --- starts ---

  void add(ShapeSpace& space, PipelineShape shape, std::string name) {
    if (std::ranges::find(space.starts, shape) != space.starts.end()) return;
    space.starts.push_back(std::move(shape));
    names_.push_back(std::move(name));
  }

  /// nullopt: a cut is where no piece begins.
  std::optional<std::vector<std::int64_t>> begins_of(const std::vector<StageCut>& cuts) const {
    std::vector<std::int64_t> out;
    for (const StageCut& cut : cuts) {
      const OpId op = op_of_cut(training_.graph, cut);
      const auto at = std::lower_bound(pieces_.begins.begin(), pieces_.begins.end(), op);
      if (at == pieces_.begins.end()) return std::nullopt;
      out.push_back(at - pieces_.begins.begin());
    }
    return out;
  }

  void add_rannc(ShapeSpace& space) {
    using Rule = PartitionConfig::Rule;
    for (const Rule rule : {Rule::kPaper, Rule::kCode, Rule::kExact}) {
      PipelineRequest request = request_;
      request.partition.rule = rule;
      try {
        const PlannedPipeline plan = plan_by_rannc(request, resolvers_);
        const auto begins = begins_of(plan.cuts);
        if (!begins) continue;
        const auto count = std::ssize(plan.microbatches);
        const ShapeRecompute recompute = request_.recompute ? ShapeRecompute::kAsSaid
                                         : plan.recompute   ? ShapeRecompute::kFull
                                                            : ShapeRecompute::kNone;
        add(space, {*begins, plan.replicas, count, recompute},
            "rannc, rule " + std::string(kRuleWords[rule]));
      } catch (const ConfigError&) {
        // RaNNC has no plan; others may.
      } catch (const PlanError&) {
        // The same.
      }
    }
  }

  /// Stages of like cost, and of as many layers, each on as many devices.
  void add_even(ShapeSpace& space) {
    const auto profile = profile_ops(training_, one_.hardware, one_.software);
    const bool one_node = devices() <= study().cluster.devices_per_node;
    const TransferRate rate =
        transfer_rate(study().cluster, one_node ? Distance::kSameNode : Distance::kSameLeaf);
    for (int stages = 1; stages <= devices(); ++stages) {
      const bool given = request_.stages == 0 || request_.stages == stages;
      const bool each = request_.each == 0 || std::int64_t{stages} * request_.each <= devices();
      if (!given || !each || devices() % stages != 0 || stages > space.pieces) continue;
      std::set<std::vector<std::int64_t>> seen;
      for (const auto between :
           {PartitionConfig::Between::kOps, PartitionConfig::Between::kLayers}) {
        PartitionConfig cost;
        cost.method = "cost";
        cost.between = between;
        const auto chosen = choose_cuts(training_.graph, profile, cost, stages, rate);
        if (const auto* cuts = std::get_if<CutChoice>(&chosen)) add_cuts(space, cuts->cuts, seen);
      }
      PartitionConfig floor;
      floor.method = "uniform-floor";
      if (training_.graph.num_layers < stages) continue;
      const auto ranges = layer_ranges(training_.graph.num_layers, stages, floor);
      std::vector<StageCut> cuts;
      const auto& first = std::get<std::vector<std::int64_t>>(ranges);
      for (auto it = first.begin() + 1; it + 1 != first.end(); ++it) cuts.push_back({*it, ""});
      add_cuts(space, cuts, seen);
    }
  }

  void add_cuts(ShapeSpace& space, const std::vector<StageCut>& cuts,
                std::set<std::vector<std::int64_t>>& seen) {
    const auto begins = begins_of(cuts);
    if (!begins || !seen.insert(*begins).second) return;
    const auto stages = static_cast<int>(begins->size()) + 1;
    const int each = request_.each > 0 ? static_cast<int>(request_.each) : devices() / stages;
    std::set<std::int64_t> counts;
    if (request_.microbatches > 0) counts = {request_.microbatches};
    constexpr std::int64_t kMostOfStages = 8;
    for (std::int64_t more = 1; more <= kMostOfStages && request_.microbatches == 0; more *= 2)
      counts.insert(
          std::clamp<std::int64_t>(more * stages, 1, std::max<std::int64_t>(1, batch() / each)));
    for (const std::int64_t count : counts) {
      for (const ShapeRecompute recompute : space.recompute) {
        if (recompute == ShapeRecompute::kStageAware) continue;
        const bool full = recompute == ShapeRecompute::kFull;
        add(space, {*begins, std::vector<int>(stages, each), count, recompute},
            counted(stages, "stage") + " on " + counted(each, "device") + " each" +
                (full ? ", recomputed" : ""));
      }
    }
  }

  // --- what a shape comes to ---

  PlannedPipeline planned(const PipelineShape& shape) const {
    PlannedPipeline out;
    out.replicas = shape.replicas;
    out.recompute = shape.recompute == ShapeRecompute::kFull;
    out.stage_aware = shape.recompute == ShapeRecompute::kStageAware;
    for (const std::int64_t begin : shape.begins) {
      const auto cut = cut_at(training_.graph, pieces_.begins[begin]);
      check(cut.has_value(), "a piece begins where a cut can be said");
      out.cuts.push_back(*cut);
    }
    const BatchSplit split = split_batch(batch(), shape.microbatches, 1);
    out.microbatches.assign(split.micro.begin(), split.micro.end());
    return out;
  }

  std::optional<Seconds> step_of(const PipelineShape& shape) {
    Study study;
    try {
      study = request_.study_of(planned(shape));
      const Prepared prepared = prepare_study(std::move(study), resolvers_);
      PassLog log;
      const auto program = program_of(prepared, prepared.study, log);
      if (!program) return std::nullopt;
      Bytes most = 0;
      for (const MemoryPeak& peak : peaks_of(prepared, prepared.study, *program))
        most = std::max(most, peak.total);
      if (static_cast<double>(most) > limit_) {
        least_ = least_ == 0 ? most : std::min(least_, most);
        return std::nullopt;
      }
      return step_of_program(prepared, *program);
    } catch (const ConfigError& error) {
      if (!refused_) refused_ = error;
      return std::nullopt;
    } catch (const PlanError&) {
      return std::nullopt;
    }
  }

  static Seconds step_of_program(const Prepared& prepared, const Program& program) {
    return trainyard::step_of(prepared, prepared.study, program, false).period;
  }

  // --- words ---

  std::string no_start() const {
    return "no " + (request_.stages > 0 ? counted(request_.stages, "stage") : "stages") +
           " share " + counted(devices(), "device") +
           " so; leave parallel.pipeline or parallel.data out";
  }

  [[noreturn]] void fail() const {
    if (least_ == 0 && refused_)
      fail_at(study(), refused_->key_path().empty() ? "partition" : refused_->key_path(),
              refused_->problem());
    if (least_ == 0)
      fail_at(study(), "partition", "search-pipeline found no pipeline that can run");
    throw plan_error(
        study(),
        {"no pipeline that was tried fits: of the one that needs least a rank takes " +
             bytes_text(least_) + ", and a device has " + bytes_text(static_cast<Bytes>(limit_)),
         "partition"});
  }

  static std::string reason_for(const SearchedShape& found) {
    return "search-pipeline: a step of " + duration_text(found.step) + "; " +
           counted(found.evaluations, "pipeline") +
           (found.all_tried ? ", all there are"
            : found.spent   ? " tried, as many as the budget has"
                            : " tried, no move helps any more");
  }

  std::vector<std::string> lines_of(const SearchedShape& found, const PlannedPipeline& plan) const {
    std::vector<std::string> out = {"  " + reason_for(found)};
    for (std::size_t s = 0; s < plan.replicas.size(); ++s) {
      std::string begin = "the model's begin";
      if (s > 0) {
        const StageCut& cut = plan.cuts[s - 1];
        begin = cut.at.empty() ? "layer " + std::to_string(cut.layer) : cut.at;
      }
      out.push_back("  stage " + std::to_string(s) + ": from " + begin + " on " +
                    counted(plan.replicas[s], "replica"));
    }
    out.push_back("  what it began with, where that fits:");
    std::set<std::string> said;
    for (std::size_t i = 0; i < found.starts.size(); ++i) {
      if (!found.starts[i]) continue;
      const std::size_t best = best_named(found, names_[i]);
      if (!said.insert(names_[i]).second) continue;
      out.push_back("    " + duration_text(*found.starts[best]) + "  " + names_[best]);
    }
    return out;
  }

  /// The fastest of those with a name.
  std::size_t best_named(const SearchedShape& found, const std::string& name) const {
    std::size_t best = names_.size();
    for (std::size_t i = 0; i < found.starts.size(); ++i) {
      if (names_[i] != name || !found.starts[i]) continue;
      if (best == names_.size() || *found.starts[i] < *found.starts[best]) best = i;
    }
    return best;
  }

  const PipelineRequest& request_;
  const StudyResolvers& resolvers_;
  Prepared one_;
  TrainingGraph training_;
  ModelPieces pieces_;
  double limit_;
  Bytes least_ = 0;                     // of what did not fit
  std::optional<ConfigError> refused_;  // the first pipeline that no study may say
  std::vector<std::string> names_;      // [start]
};

}  // namespace

PlannedPipeline plan_by_search(const PipelineRequest& request, const StudyResolvers& resolvers) {
  return ShapePlanner(request, resolvers).plan();
}

}  // namespace trainyard
