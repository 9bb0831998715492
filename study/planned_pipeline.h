// What a study leaves to a planner of whole pipelines (partition: rannc or search-pipeline), and
// what that decides.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/planner/search_recompute.h"
#include "study/study.h"

namespace trainyard {

struct PlannedPipeline {
  std::vector<StageCut> cuts;
  std::vector<int> replicas;               // [stage]
  std::vector<std::int64_t> microbatches;  // sequences of each, over all replicas
  bool recompute = false;                  // full, with ends, where the study does not say a method
  bool stage_aware = false;                // the same, with as much as memory asks for
  std::optional<ShareChoice> share;        // of stage-aware, which the study leaves open
  std::string reason;
  std::vector<std::string> lines;  // for people: Study::planned
};

/// Whether a partition is decided so.
inline bool plans_pipeline(const PartitionConfig& partition) {
  return partition.method == "rannc" || partition.method == "search-pipeline";
}

/// What is given is a constraint; 0: left out.
struct PipelineRequest {
  Study one_stage;            // checked: the study with one stage and microbatches of few samples
  PartitionConfig partition;  // method; rule, blocks, margin, budget
  std::string schedule;       // gpipe where the study does not say one
  bool shards_state = false;  // the optimizer's, over a stage's replicas
  std::int64_t stages = 0;
  std::int64_t each = 0;          // replicas of every stage
  std::int64_t microbatches = 0;  // of a step
  bool recompute = false;         // one_stage has the method
  /// The checked study with such a pipeline. Throws ConfigError where it would not pass the checks.
  std::function<Study(const PlannedPipeline& plan)> study_of;
};

/// Where the modules of a study of partition smp lie.
struct PlannedModules {
  std::vector<std::pair<std::string, std::int32_t>> assign;
  std::int32_t fallback = 0;
  Numbered<std::int32_t> on;  // [stage]: PartitionConfig::on
  std::vector<double> work;   // [stage]: PartitionConfig::work
  std::string reason;
  std::vector<std::string> lines;
};

struct ModulesRequest {
  Study one_stage;            // checked: one microbatch on one device
  PartitionConfig partition;  // what it says of method smp
  std::int64_t devices = 0;   // 0: those that `assign` names
};

}  // namespace trainyard
