#include "app/plan_by_search.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "app/plan_by_rannc.h"
#include "app/shape_steps.h"
#include "app/tried_pipelines.h"
#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/partition/stage_partition.h"
#include "engine/planner/choose_cuts.h"
#include "engine/planner/search_shapes.h"
#include "study/compile_study.h"
#include "study/study_origin.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

// Choices of degrees whose cuts are searched at the end: so many, of steps not far from the best,
// behind the first as long as there is budget.
constexpr std::size_t kMostPolished = 3;
constexpr double kMostBehind = 1.02;

using NamedShapes = std::vector<std::pair<PipelineShape, std::string>>;

class ShapePlanner {
 public:
  ShapePlanner(const PipelineRequest& request, const StudyResolvers& resolvers)
      : request_(request),
        resolvers_(resolvers),
        steps_(request, resolvers) {}

  PlannedPipeline plan() {
    ShapeSpace space = space_of_request();
    add_rannc(space);
    add_even(space);
    if (space.starts.empty()) fail_at(study(), "partition", no_start());
    const auto found =
        search_shapes(space, [this](const PipelineShape& shape) { return steps_.step_of(shape); });
    if (std::holds_alternative<Infeasible>(found)) fail();
    const auto& best = std::get<SearchedShape>(found);
    const Polished chosen = polished(best);
    PlannedPipeline out = steps_.planned(*chosen.shape);
    out.cuts = chosen.cuts;
    out.share = steps_.share_of(*chosen.shape, chosen.cuts);
    out.reason = reason_for(best, chosen);
    out.lines = lines_of(best, out);
    return out;
  }

 private:
  const Study& study() const { return request_.one_stage; }
  std::int64_t batch() const { return study().training.global_batch; }
  int budget() const {
    return static_cast<int>(request_.partition.budget * PartitionConfig::kEvaluationsPerSecond);
  }
  int devices() const { return static_cast<int>(study().cluster.num_devices); }

  ShapeSpace space_of_request() {
    using enum ShapeRecompute;
    ShapeSpace space;
    space.pieces = std::ssize(steps_.profiles().pieces().begins);
    space.devices = devices();
    space.batch = batch();
    space.stages = request_.stages == 0;
    space.replicas = request_.each == 0;
    space.microbatches = request_.microbatches == 0;
    space.recompute =
        request_.recompute ? std::vector{kAsSaid} : std::vector{kNone, kStageAware, kFull};
    const PieceProfile& sample = steps_.profiles().of(1, false);
    for (std::size_t p = 0; p < sample.forward.size(); ++p)
      space.work.push_back(sample.forward[p] + sample.backward[p]);
    space.bound = [this](const PipelineShape& shape) { return steps_.bound_of(shape); };
    // Half of what there is: the cuts of what it finds are searched behind it.
    space.budget = std::max(1, budget() / 2);
    return space;
  }

  // --- starts ---

  void add(ShapeSpace& space, PipelineShape shape, std::string name) {
    if (std::ranges::find(space.starts, shape) != space.starts.end()) return;
    space.starts.push_back(std::move(shape));
    names_.push_back(std::move(name));
  }

  /// Those first that kernels take least of: more of the others are ruled out then.
  void add_by_bound(ShapeSpace& space, NamedShapes named) {
    std::vector<std::pair<Seconds, std::size_t>> order;
    for (std::size_t i = 0; i < named.size(); ++i)
      order.emplace_back(steps_.bound_of(named[i].first), i);
    std::ranges::sort(order);
    for (const auto& [bound, i] : order)
      add(space, std::move(named[i].first), std::move(named[i].second));
  }

  void add_rannc(ShapeSpace& space) {
    using Rule = PartitionConfig::Rule;
    for (const Rule rule : {Rule::kPaper, Rule::kCode, Rule::kExact}) {
      PipelineRequest request = request_;
      request.partition.rule = rule;
      try {
        const PlannedPipeline plan = plan_by_rannc(request, resolvers_, steps_.profiles());
        const auto begins = steps_.begins_of(plan.cuts);
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
    const Prepared& one = steps_.profiles().one();
    const Graph& graph = steps_.profiles().training().graph;
    const auto profile = profile_ops(steps_.profiles().training(), one.hardware, one.software);
    const bool one_node = devices() <= study().cluster.devices_per_node;
    const TransferRate rate =
        transfer_rate(study().cluster, one_node ? Distance::kSameNode : Distance::kSameLeaf);
    NamedShapes out;
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
        const auto chosen = choose_cuts(graph, profile, cost, stages, rate);
        if (const auto* cuts = std::get_if<CutChoice>(&chosen))
          add_cuts(space, cuts->cuts, seen, out);
      }
      PartitionConfig floor;
      floor.method = "uniform-floor";
      if (graph.num_layers < stages) continue;
      const auto ranges = layer_ranges(graph.num_layers, stages, floor);
      std::vector<StageCut> cuts;
      const auto& first = std::get<std::vector<std::int64_t>>(ranges);
      for (auto it = first.begin() + 1; it + 1 != first.end(); ++it) cuts.push_back({*it, ""});
      add_cuts(space, cuts, seen, out);
    }
    add_by_bound(space, std::move(out));
  }

  void add_cuts(const ShapeSpace& space, const std::vector<StageCut>& cuts,
                std::set<std::vector<std::int64_t>>& seen, NamedShapes& out) {
    const auto begins = steps_.begins_of(cuts);
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
        out.emplace_back(PipelineShape{*begins, std::vector<int>(stages, each), count, recompute},
                         counted(stages, "stage") + " on " + counted(each, "device") + " each" +
                             (full ? ", recomputed" : ""));
      }
    }
  }

  // --- the cuts once more ---

  struct Polished {
    const PipelineShape* shape = nullptr;  // of which the degrees are
    std::vector<StageCut> cuts;
    Seconds step = 0;
    Seconds bound = 0;    // no cuts lead to a shorter one; 0: none is known
    int evaluations = 0;  // of all whose cuts were searched
  };

  /// What partition search makes of the fastest with each choice of degrees, of those that are
  /// first. It begins where it would begin by itself, so that it is no slower than that.
  Polished polished(const SearchedShape& found) {
    Polished out;
    out.shape = &found.best_of_degrees.front().second;
    out.cuts = steps_.planned(*out.shape).cuts;
    out.step = found.step;
    out.bound = steps_.bound_of_any_cuts(*out.shape);
    for (std::size_t i = 0; i < std::min(found.best_of_degrees.size(), kMostPolished); ++i) {
      const auto& [step, shape] = found.best_of_degrees[i];
      if (i > 0 && found.evaluations + out.evaluations >= budget()) break;
      const Seconds bound = steps_.bound_of_any_cuts(shape);
      if (shape.begins.empty() || bound >= out.step || step > kMostBehind * out.step) continue;
      auto cuts = steps_.searched(shape);
      if (!cuts) continue;
      out.evaluations += cuts->evaluations;
      const bool faster = cuts->step.period < out.step;
      if (faster || i == 0) out.bound = std::max(bound, cuts->bound);
      if (!faster) continue;
      out.shape = &shape;
      out.step = cuts->step.period;
      out.cuts = std::move(cuts->cuts);
    }
    return out;
  }

  // --- words ---

  std::string no_start() const {
    return "no " + (request_.stages > 0 ? counted(request_.stages, "stage") : "stages") +
           " share " + counted(devices(), "device") +
           " so; leave parallel.pipeline or parallel.data out";
  }

  [[noreturn]] void fail() const {
    const std::optional<ConfigError>& refused = steps_.refused();
    if (steps_.least() == 0 && refused)
      fail_at(study(), refused->key_path().empty() ? "partition" : refused->key_path(),
              refused->problem());
    if (steps_.least() == 0)
      fail_at(study(), "partition", "search-pipeline found no pipeline that can run");
    throw plan_error(
        study(),
        {"no pipeline that was tried fits: of the one that needs least a rank takes " +
             bytes_text(steps_.least()) + ", and a device has " + bytes_text(steps_.limit()) +
             " without partition.margin; a larger partition.budget tries more",
         "partition"});
  }

  static std::string reason_for(const SearchedShape& found, const Polished& chosen) {
    std::string text = "search-pipeline: a step of " + duration_text(chosen.step);
    if (chosen.bound > 0)
      text += format(", %.1f %% above what kernels alone allow these stages and microbatches",
                     100 * (chosen.step / chosen.bound - 1));
    text += "; " + counted(found.evaluations + found.ruled_out, "pipeline") +
            (found.all_tried ? ", all there are"
             : found.spent   ? " tried, as many as the budget has"
                             : " tried, no move helps any more");
    if (found.ruled_out > 0)
      text += "; " + std::to_string(found.ruled_out) + " of them by kernels alone";
    if (chosen.evaluations > 0)
      text += "; then " + counted(chosen.evaluations, "way") + " to cut the fastest";
    return text;
  }

  std::vector<std::string> lines_of(const SearchedShape& found, const PlannedPipeline& plan) const {
    std::vector<std::string> out = {"  " + plan.reason};
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
  ShapeSteps steps_;
  std::vector<std::string> names_;  // [start]
};

}  // namespace

PlannedPipeline plan_by_search(const PipelineRequest& request, const StudyResolvers& resolvers) {
  return ShapePlanner(request, resolvers).plan();
}

}  // namespace trainyard
