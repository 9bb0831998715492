// Where the times come from by which a planner weighs ops: the cost model, a file, or this machine.
#pragma once

#include <map>
#include <string>

#include "engine/planner/op_times.h"
#include "study/study_reader.h"

namespace trainyard {

class OpTimer {
 public:
  /// `resolvers` must outlive it.
  explicit OpTimer(const StudyResolvers& resolvers) : resolvers_(resolvers) {}

  /// Those of all kernels of `training`, the graph of `study` with one stage; nullptr: the cost
  /// model's. Valid until the next call. Throws ConfigError where the study wants measured ones and
  /// there are none.
  const OpTimes* of(const Study& study, const TrainingGraph& training);

  /// "" by the cost model; " measured (partition_times.json)".
  static std::string text(const Study& study);

 private:
  const StudyResolvers& resolvers_;
  OpTimes times_;
};

}  // namespace trainyard
