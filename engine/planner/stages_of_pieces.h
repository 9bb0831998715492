// What blocks of a model's pieces cost as the stages of a pipeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "engine/partition/pipeline_search.h"
#include "engine/planner/choose_cuts.h"
#include "engine/planner/piece_profile.h"

namespace trainyard {

struct StageUnits {
  double parameter_bytes = 8;    // of an element: the parameter and its gradient
  double state_bytes = 8;        // of an element: the optimizer's
  bool shard_state = false;      // over the replicas of a stage
  double fixed = 0;              // bytes that a rank holds beside
  double activation_factor = 1;  // bytes that an activation takes over those of its values
  bool all_in_flight = true;     // a stage holds all microbatches of a step; else one per stage
  TransferRate transfer;         // between two stages
  double all_reduce = 0;         // seconds for a byte of gradients
  double gradient_bytes = 4;     // of an element, reduced
  std::int64_t batch = 1;        // sequences of a step
};

class StagesOfPieces {
 public:
  /// A profile for so many samples of a microbatch, with or without what a plan recomputes.
  using ProfileOf = std::function<const PieceProfile&(std::int64_t samples, bool recompute)>;

  /// `ends`: [block] behind its last piece.
  StagesOfPieces(const ModelPieces& pieces, std::vector<std::size_t> ends, const StageUnits& units,
                 ProfileOf profile_of);

  /// Seconds and bytes. Memory: parameters, gradients, state and fixed; of each microbatch in
  /// flight what it keeps and the stage's inputs; of one what is recomputed of a layer, the
  /// gradients of an op, and its transfers. No bound where a microbatch has fewer sequences than
  /// replicas.
  StageCost stage(const StageOfBlocks& of) const;
  double all_reduce(std::size_t first, std::size_t end) const;

 private:
  struct Range {
    double parameters = 0;                           // elements, each once
    double kept = 0, recomputed = 0, gradients = 0;  // bytes of a sample
  };
  struct Times {
    std::vector<Seconds> forward, backward;  // [block] of those before it
  };
  const Range& range(std::size_t first, std::size_t end, bool recompute) const;
  void add_ranges(bool recompute, std::vector<Range>& out) const;
  const Times& times(std::int64_t samples, bool recompute) const;
  std::size_t begin_of(std::size_t block) const { return block == 0 ? 0 : ends_[block - 1]; }

  const ModelPieces& pieces_;
  std::vector<std::size_t> ends_;
  StageUnits units_;
  ProfileOf profile_of_;
  mutable std::vector<Range> ranges_[2];
  mutable std::map<std::pair<std::int64_t, bool>, Times> times_;
};

}  // namespace trainyard
