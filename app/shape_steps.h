// What a shape of a pipeline comes to: its study, its step with closed forms, and what no step of
// it takes less than.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "app/model_profiles.h"
#include "engine/planner/search_cuts.h"
#include "engine/planner/search_shapes.h"
#include "study/planned_pipeline.h"

namespace trainyard {

class ShapeSteps {
 public:
  /// Both outlive it. Throws ConfigError where the model has no plan with one stage.
  ShapeSteps(const PipelineRequest& request, const StudyResolvers& resolvers);

  ModelProfiles& profiles() { return profiles_; }
  Bytes limit() const { return limit_; }

  /// nullopt: a cut is where no piece begins.
  std::optional<std::vector<std::int64_t>> begins_of(const std::vector<StageCut>& cuts) const;
  PlannedPipeline planned(const PipelineShape& shape) const;

  /// nullopt: there is no such study, no Program, or it does not fit.
  std::optional<Seconds> step_of(const PipelineShape& shape);

  /// What stage 0 of the shape keeps with these cuts, where that is left open.
  std::optional<ShareChoice> share_of(const PipelineShape& shape,
                                      const std::vector<StageCut>& cuts);

  /// By kernels alone, as the whole model has them: of each stage those of all microbatches on its
  /// fullest rank, behind the first microbatch's way to it where all have as many sequences.
  Seconds bound_of(const PipelineShape& shape);
  /// The same of the shape with any cuts, within ops too.
  Seconds bound_of_any_cuts(const PipelineShape& shape);

  /// What partition search finds with the shape's replicas, microbatches and recomputation.
  std::optional<SearchedCuts> searched(const PipelineShape& shape);

  Bytes least() const { return least_; }  // of what did not fit; 0: all did
  /// The first pipeline that no study may say.
  const std::optional<ConfigError>& refused() const { return refused_; }

 private:
  std::int64_t batch() const { return request_.one_stage.training.global_batch; }
  /// The study of the shape's degrees, with some cuts, and nothing chosen by cost; nullptr: none.
  const Prepared* prepared_of(const PipelineShape& shape);
  std::optional<EvaluatedCuts> evaluated(const PipelineShape& shape,
                                         const std::vector<StageCut>& cuts);
  /// [piece] seconds of a step of those before it, on the fullest of so many replicas.
  std::vector<Seconds> before_pieces(const PipelineShape& shape, int replicas);
  const std::vector<Seconds>& before_of(std::int64_t samples, bool recompute);

  const PipelineRequest& request_;
  const StudyResolvers& resolvers_;
  ModelProfiles profiles_;
  PipelineRequest plain_;  // without what the study says of recomputation, by which bounds are
  std::optional<ModelProfiles> plain_profiles_;  // where the study says something
  Bytes limit_;
  std::list<std::pair<PipelineShape, std::optional<Prepared>>> prepared_;  // the last few degrees
  std::map<std::pair<std::int64_t, bool>, std::vector<Seconds>> before_;
  Bytes least_ = 0;
  std::optional<ConfigError> refused_;
};

}  // namespace trainyard
