// The model with one stage, cut into pieces that are profiled for microbatches of any number of
// samples: what partition rannc makes its blocks and stages of.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "app/op_timer.h"
#include "app/prepare.h"
#include "engine/passes/training_graph.h"
#include "engine/planner/stages_of_pieces.h"

namespace trainyard {

class ModelProfiles {
 public:
  /// Both outlive it. Throws ConfigError where the model has no plan with one stage.
  ModelProfiles(const PipelineRequest& request, const StudyResolvers& resolvers);

  const Prepared& one() const { return one_; }
  const ModelPieces& pieces() const { return pieces_; }
  const TrainingGraph& training() const { return training_; }

  const PieceProfile& of(std::int64_t samples, bool recompute);

 private:
  Study study_of(std::int64_t samples, bool recompute) const;

  const PipelineRequest& request_;
  const StudyResolvers& resolvers_;
  OpTimer timer_;
  Prepared one_;
  TrainingGraph training_;
  ModelPieces pieces_;
  std::map<std::pair<std::int64_t, bool>, PieceProfile> known_;
};

}  // namespace trainyard
