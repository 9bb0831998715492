#include "app/model_profiles.h"

#include "app/one_stage_training.h"

namespace trainyard {

ModelProfiles::ModelProfiles(const PipelineRequest& request, const StudyResolvers& resolvers)
    : request_(request),
      resolvers_(resolvers),
      timer_(resolvers),
      one_(prepare_study(study_of(1, false), resolvers)),
      training_(one_stage_training(one_)),
      pieces_(pieces_of(training_, one_.hardware, one_.software)) {}

const PieceProfile& ModelProfiles::of(std::int64_t samples, bool recompute) {
  const auto [at, is_new] =
      known_.try_emplace({samples, recompute && !request_.recompute}, PieceProfile{});
  if (is_new) {
    const Prepared prepared = prepare_study(study_of(samples, recompute), resolvers_);
    const TrainingGraph graph = one_stage_training(prepared);
    at->second = profile_pieces(graph, pieces_.begins, prepared.hardware, prepared.software,
                                timer_.of(prepared.study, graph));
  }
  return at->second;
}

Study ModelProfiles::study_of(std::int64_t samples, bool recompute) const {
  Study study = request_.one_stage;
  study.training.microbatch = study.training.global_batch = samples;
  if (!request_.recompute) {
    study.recompute.method =
        recompute ? RecomputeConfig::Method::kFull : RecomputeConfig::Method::kNone;
    study.recompute.ends = recompute;
  }
  return study;
}

}  // namespace trainyard
