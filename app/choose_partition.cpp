#include "app/choose_partition.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "app/one_stage_training.h"
#include "engine/base/near_names.h"
#include "engine/base/user_text.h"
#include "engine/partition/stage_partition.h"
#include "engine/planner/autopipe_cuts.h"
#include "engine/planner/choose_cuts.h"
#include "study/cut_keys.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

/// Between nodes where the plan has several: there some of its transfers go.
TransferRate rate_between_stages(const Study& study) {
  const bool one_node = study.parallel.num_ranks() <= study.cluster.devices_per_node;
  return transfer_rate(study.cluster, one_node ? Distance::kSameNode : Distance::kSameLeaf);
}

/// Names at the depth of `name`: what was meant is not a module around it.
std::vector<std::string> names_like(const Graph& graph, const std::string& name) {
  std::set<std::string> names;
  for (const Op& op : graph.ops) {
    if (op.kind == OpKind::kLoad) continue;
    std::string path = graph.modules[op.module];
    for (const TensorId output : op.outputs) names.insert(graph.tensors[output].name);
    for (; names.insert(path).second && path.find('.') != std::string::npos;)
      path.resize(path.rfind('.'));
  }
  const auto depth = [](const std::string& path) {
    return std::count(path.begin(), path.end(), '.');
  };
  std::erase_if(names, [&](const std::string& one) { return depth(one) != depth(name); });
  return {names.begin(), names.end()};
}

bool is_by_name(const StageCut& cut) { return !cut.at.empty(); }

/// What nobody can tell before there is a graph.
void check_named_cuts(const Prepared& prepared) {
  const std::vector<StageCut>& cuts = prepared.study.partition.cuts;
  if (std::none_of(cuts.begin(), cuts.end(), is_by_name)) return;
  const TrainingGraph training = one_stage_training(prepared);
  // Loads of data are no ops of the model.
  const auto& ops = training.graph.ops;
  const OpId first = *std::find_if(ops.keys().begin(), ops.keys().end(),
                                   [&](OpId i) { return ops[i].kind != OpKind::kLoad; });
  OpId before = first;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const StageCut& cut = cuts[i];
    const OpId begin = op_of_cut(training.graph, cut);
    const std::string text =
        is_by_name(cut) ? in_quotes(cut.at) : "layer " + std::to_string(cut.layer);
    if (begin == kNoIndex) {
      fail_at(prepared.study, cut_key(prepared.study, i),
              "no module and no op is named " + text +
                  did_you_mean(cut.at, names_like(training.graph, cut.at)));
    }
    if (begin <= before) {
      fail_at(prepared.study, cut_key(prepared.study, i),
              text + " begins no later than " +
                  (before == first ? "the model" : "the stage before it"));
    }
    before = begin;
  }
}

/// A way to cut that the search begins with; nothing where the model is too small for it.
void add_start(std::variant<CutChoice, Infeasible> chosen, CutSearch& search) {
  if (auto* choice = std::get_if<CutChoice>(&chosen))
    search.starts.push_back(std::move(choice->cuts));
}

/// Microbatches of the largest size that a step comes to, 0 where ranks or their stages differ in
/// what they do with one.
double num_alike(const Study& study) {
  const bool stages_differ = study.recompute.method == RecomputeConfig::Method::kStageAware;
  if (stages_differ || !study.partition.replicas.empty() || !study.cluster.speed.empty()) return 0;
  const std::vector<std::int64_t>& sizes = study.training.microbatches;
  if (sizes.empty()) return static_cast<double>(study.num_microbatches());
  return static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0})) /
         static_cast<double>(*std::max_element(sizes.begin(), sizes.end()));
}

CutSearch search_for(const Study& study, const TrainingGraph& training,
                     const Indexed<OpId, OpProfile>& profile) {
  CutSearch search;
  search.num_stages = static_cast<int>(study.num_stages());
  search.num_ranks = study.parallel.pipeline;
  search.num_microbatches = num_alike(study);
  const std::string& schedule = study.schedule.method;
  search.one_stage_per_rank = search.num_stages == study.parallel.pipeline &&
                              study.partition.on.empty() && study.training.microbatches.empty() &&
                              (schedule == "gpipe" || schedule == "1f1b");
  search.budget = std::max(
      1, static_cast<int>(study.partition.budget * PartitionConfig::kEvaluationsPerSecond));
  for (const char* method : {"cost", "parameters"}) {
    for (const auto between : {PartitionConfig::Between::kLayers, PartitionConfig::Between::kOps}) {
      PartitionConfig partition;
      partition.method = method;
      partition.between = between;
      add_start(choose_cuts(training.graph, profile, partition, search.num_stages,
                            rate_between_stages(study)),
                search);
    }
  }
  using Shards = PartitionConfig::Shards;
  for (const Shards shards : {Shards::kFarthest, Shards::kNearest, Shards::kLayer}) {
    PartitionConfig partition;
    partition.shards = shards;
    add_start(autopipe_cuts(training.graph, profile, partition, search.num_stages), search);
  }
  if (training.graph.num_layers < search.num_stages) return search;
  PartitionConfig floor;
  floor.method = "uniform-floor";
  auto ranges = layer_ranges(training.graph.num_layers, search.num_stages, floor);
  const auto& first = std::get<std::vector<std::int64_t>>(ranges);
  auto& cuts = search.starts.emplace_back();
  for (auto it = first.begin() + 1; it + 1 != first.end(); ++it) cuts.push_back({*it, ""});
  return search;
}

/// Throws ConfigError in place of the Infeasible.
template <typename Choice>
Choice choice_or_fail(const Study& study, std::variant<Choice, Infeasible> chosen) {
  if (const auto* reason = std::get_if<Infeasible>(&chosen))
    fail_at(study, reason->key, reason->reason);
  return std::get<Choice>(std::move(chosen));
}

}  // namespace

void choose_partition(Prepared& prepared, const EvaluateCuts& evaluate) {
  Study& study = prepared.study;
  PartitionConfig& partition = study.partition;
  if (!partition.chooses_cuts()) return check_named_cuts(prepared);
  const TrainingGraph training = one_stage_training(prepared);
  const auto profile = profile_ops(training, prepared.hardware, prepared.software);
  CutChoice choice;
  const auto stages = static_cast<int>(study.num_stages());
  if (partition.method == "search") {
    const CutSearch search = search_for(study, training, profile);
    auto searched = search_cuts(training.graph, profile, search, evaluate);
    if (const auto* none = std::get_if<Infeasible>(&searched); none && !search.starts.empty()) {
      // The Program that such cuts do not lead to has a reason of its own.
      choice = {search.starts.front(), none->reason};
    } else {
      SearchedCuts found = choice_or_fail(study, std::move(searched));
      choice = {std::move(found.cuts), std::move(found.reason)};
    }
  } else if (partition.method == "autopipe") {
    choice = choice_or_fail(study, autopipe_cuts(training.graph, profile, partition, stages));
  } else {
    choice = choice_or_fail(
        study, choose_cuts(training.graph, profile, partition, stages, rate_between_stages(study)));
  }
  PartitionConfig chosen;
  chosen.method = "cuts";
  chosen.cuts = std::move(choice.cuts);
  chosen.on = std::move(partition.on);
  chosen.replicas = std::move(partition.replicas);
  partition = std::move(chosen);
  study.origins["partition"] = derived_origin(choice.reason);
}

std::variant<SearchedCuts, Infeasible> search_partition(const Prepared& prepared,
                                                        const EvaluateCuts& evaluate) {
  const TrainingGraph training = one_stage_training(prepared);
  const auto profile = profile_ops(training, prepared.hardware, prepared.software);
  return search_cuts(training.graph, profile, search_for(prepared.study, training, profile),
                     evaluate);
}

}  // namespace trainyard
