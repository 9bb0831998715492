#include "app/shape_steps.h"

#include <algorithm>
#include <iterator>

#include "app/analytic_step.h"
#include "app/choose_partition.h"
#include "app/resolve_by_cost.h"
#include "engine/partition/batch_split.h"
#include "engine/partition/stage_partition.h"
#include "engine/planner/balanced_bound.h"
#include "engine/planner/choose_cuts.h"

namespace trainyard {

namespace {

constexpr std::size_t kMostPrepared = 6;

PipelineShape degrees_of(PipelineShape shape) {
  shape.begins.clear();
  return shape;
}

bool chooses_share(const Study& study) {
  return study.recompute.method == RecomputeConfig::Method::kStageAware && !study.recompute.first;
}

/// Nothing of it chosen by the cost of the cuts that it happens to have.
Prepared prepare_unresolved(Study study, const StudyResolvers& resolvers) {
  const bool share = chooses_share(study);
  const std::string rows = study.schedule.rows;
  if (share) study.recompute.first = 0;
  Prepared out = prepare_study(std::move(study), resolvers);
  if (share) out.study.recompute.first.reset();
  out.study.schedule.rows = rows;
  return out;
}

PipelineRequest without_recompute(PipelineRequest request) {
  request.recompute = false;
  return request;
}

}  // namespace

ShapeSteps::ShapeSteps(const PipelineRequest& request, const StudyResolvers& resolvers)
    : request_(request),
      resolvers_(resolvers),
      profiles_(request, resolvers),
      plain_(without_recompute(request)),
      limit_(static_cast<Bytes>((1 - request.partition.margin) *
                                static_cast<double>(capacity_of(profiles_.one())))) {
  if (request.recompute) plain_profiles_.emplace(plain_, resolvers);
}

std::optional<std::vector<std::int64_t>> ShapeSteps::begins_of(
    const std::vector<StageCut>& cuts) const {
  const Numbered<OpId>& pieces = profiles_.pieces().begins;
  std::vector<std::int64_t> out;
  for (const StageCut& cut : cuts) {
    const OpId op = op_of_cut(profiles_.training().graph, cut);
    const auto at = std::lower_bound(pieces.begin(), pieces.end(), op);
    if (at == pieces.end()) return std::nullopt;
    out.push_back(at - pieces.begin());
  }
  return out;
}

PlannedPipeline ShapeSteps::planned(const PipelineShape& shape) const {
  PlannedPipeline out;
  out.replicas = shape.replicas;
  out.recompute = shape.recompute == ShapeRecompute::kFull;
  out.stage_aware = shape.recompute == ShapeRecompute::kStageAware;
  for (const std::int64_t begin : shape.begins) {
    const auto cut = cut_at(profiles_.training().graph, profiles_.pieces().begins[begin]);
    check(cut.has_value(), "a piece begins where a cut can be said");
    out.cuts.push_back(*cut);
  }
  const BatchSplit split = split_batch(batch(), shape.microbatches, 1);
  out.microbatches.assign(split.micro.begin(), split.micro.end());
  return out;
}

const Prepared* ShapeSteps::prepared_of(const PipelineShape& shape) {
  const PipelineShape degrees = degrees_of(shape);
  const auto known =
      std::ranges::find(prepared_, degrees, [](const auto& one) { return one.first; });
  if (known != prepared_.end()) {
    prepared_.splice(prepared_.begin(), prepared_, known);
  } else {
    std::optional<Prepared> made;
    try {
      made = prepare_unresolved(request_.study_of(planned(shape)), resolvers_);
    } catch (const ConfigError& error) {
      if (!refused_) refused_ = error;
    } catch (const PlanError&) {
      // It has no plan.
    }
    prepared_.emplace_front(degrees, std::move(made));
    if (prepared_.size() > kMostPrepared) prepared_.pop_back();
  }
  return prepared_.front().second ? &*prepared_.front().second : nullptr;
}

std::optional<EvaluatedCuts> ShapeSteps::evaluated(const PipelineShape& shape,
                                                   const std::vector<StageCut>& cuts) {
  const Prepared* prepared = prepared_of(shape);
  if (prepared == nullptr) return std::nullopt;
  try {
    const auto step = evaluate_cuts(*prepared, cuts, limit_);
    if (step && step->excess > 0)
      least_ = least_ == 0 ? limit_ + step->excess : std::min(least_, limit_ + step->excess);
    return step;
  } catch (const ConfigError& error) {
    if (!refused_) refused_ = error;
  } catch (const PlanError&) {
    // The same.
  }
  return std::nullopt;
}

std::optional<Seconds> ShapeSteps::step_of(const PipelineShape& shape) {
  const auto step = evaluated(shape, planned(shape).cuts);
  if (!step || step->excess > 0) return std::nullopt;
  return step->period;
}

std::optional<ShareChoice> ShapeSteps::share_of(const PipelineShape& shape,
                                                const std::vector<StageCut>& cuts) {
  const auto step = evaluated(shape, cuts);
  return step ? step->share : std::nullopt;
}

std::optional<SearchedCuts> ShapeSteps::searched(const PipelineShape& shape) {
  const Prepared* found = prepared_of(shape);
  if (found == nullptr) return std::nullopt;
  Prepared prepared = *found;
  prepared.study.partition.budget = request_.partition.budget;
  std::optional<Seconds> best;  // that fits
  const auto evaluate = [&](const std::vector<StageCut>& cuts) -> std::optional<EvaluatedCuts> {
    PipelineShape cut = shape;
    const auto begins = begins_of(cuts);
    if (begins) cut.begins = *begins;
    // It would be no better, and so none will do.
    if (best && begins && bound_of(cut) >= *best) return std::nullopt;
    const auto step = evaluated(shape, cuts);
    if (step && step->excess == 0) best = std::min(best.value_or(step->period), step->period);
    return step;
  };
  auto searched = search_partition(prepared, evaluate);
  auto* out = std::get_if<SearchedCuts>(&searched);
  if (out == nullptr || out->step.excess > 0) return std::nullopt;
  return std::move(*out);
}

const std::vector<Seconds>& ShapeSteps::before_of(std::int64_t samples, bool recompute) {
  std::vector<Seconds>& out = before_[{samples, recompute}];
  if (!out.empty()) return out;
  const PieceProfile& profile =
      (plain_profiles_ ? *plain_profiles_ : profiles_).of(samples, recompute);
  out = {0};
  for (std::size_t p = 0; p < profile.forward.size(); ++p)
    out.push_back(out.back() + profile.forward[p] + profile.backward[p]);
  return out;
}

std::vector<Seconds> ShapeSteps::before_pieces(const PipelineShape& shape, int replicas) {
  const bool recompute = shape.recompute == ShapeRecompute::kFull;
  const std::int64_t more = batch() % shape.microbatches;
  const std::int64_t size = batch() / shape.microbatches;
  const auto with = [&](std::int64_t sequences) -> const std::vector<Seconds>& {
    return before_of((sequences + replicas - 1) / replicas, recompute);
  };
  std::vector<Seconds> out = with(size);
  for (Seconds& one : out) one *= static_cast<double>(shape.microbatches - more);
  if (more == 0) return out;
  const std::vector<Seconds>& larger = with(size + 1);
  for (std::size_t p = 0; p < out.size(); ++p) out[p] += static_cast<double>(more) * larger[p];
  return out;
}

Seconds ShapeSteps::bound_of(const PipelineShape& shape) {
  if (!request_.one_stage.cluster.speed.empty()) return 0;
  const bool whole = request_.schedule == "gpipe" || request_.schedule == "1f1b";
  bool even = batch() % shape.microbatches == 0;
  std::vector<Seconds> stages;
  for (std::size_t s = 0; s < shape.replicas.size(); ++s) {
    const int replicas = shape.replicas[s];
    even = even && batch() / shape.microbatches % replicas == 0;
    const std::vector<Seconds> before = before_pieces(shape, replicas);
    const auto at = [&](std::int64_t piece) {
      return *(before.begin() + static_cast<std::ptrdiff_t>(piece));
    };
    const Seconds first = s == 0 ? 0 : at(shape.begins[s - 1]);
    stages.push_back((s < shape.begins.size() ? at(shape.begins[s]) : before.back()) - first);
  }
  if (!even || !whole) return *std::ranges::max_element(stages);
  const auto microbatches = static_cast<double>(shape.microbatches);
  for (Seconds& stage : stages) stage /= microbatches;
  return stages_bound(stages, microbatches);
}

Seconds ShapeSteps::bound_of_any_cuts(const PipelineShape& shape) {
  if (!request_.one_stage.cluster.speed.empty()) return 0;
  std::vector<std::vector<Seconds>> before;
  for (const int replicas : shape.replicas) before.push_back(before_pieces(shape, replicas));
  return balanced_bound(before);
}

}  // namespace trainyard
