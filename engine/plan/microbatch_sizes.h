// Sizes of microbatches that are not alike (training.microbatch: [2, 3, 3]), and which of a
// microbatch's sequences each replica has where pipeline ranks have replicas of their own number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// Sequences per microbatch, and replica but with ParallelConfig::replicas: every size once, the
/// largest first.
std::vector<std::int64_t> microbatch_sizes(const TrainingConfig& training);

/// [microbatch]: index of its size among those; empty where all have one.
Numbered<std::size_t> size_of_microbatches(const TrainingConfig& training);

/// Sequences of a microbatch of `sequences` that the replica computes, of `replicas`: as even as
/// can be, the first ones have one more. 7 on 3: 0 to 3, 3 to 5, 5 to 7.
struct SequenceRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const SequenceRange&, const SequenceRange&) = default;
};
SequenceRange sequences_of_replica(std::int64_t sequences, std::int64_t replicas,
                                   std::int64_t replica);

/// [microbatch]: samples of the step that come before those of a replica: all of the replicas
/// before it, and its own microbatches; or, where a microbatch is split among all replicas of a
/// pipeline rank, the microbatches before, and of this one what the replicas before have.
std::vector<std::int64_t> samples_before(const Plan& plan, std::int32_t pipeline_rank,
                                         std::int64_t replica);

/// Sequences that a rank computes of microbatches of these sizes: every number once, the largest
/// first. A model's graph is made for each. `replicas`: ParallelConfig::replicas.
std::vector<std::int64_t> local_sizes(const std::vector<std::int64_t>& sizes,
                                      const std::vector<int>& replicas);
std::vector<std::int64_t> local_sizes(const TrainingConfig& training,
                                      const ParallelConfig& parallel);

}  // namespace trainyard
