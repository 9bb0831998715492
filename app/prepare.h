// From a study's file to everything a command works with: the checked Study, the model's graph, the
// profiles. The only place where models/, calibrate/, topologies/ and engine/ meet.
#pragma once

#include <string>
#include <vector>

#include "engine/cost/hardware_profile.h"
#include "engine/cost/software_profile.h"
#include "engine/graph/graph.h"
#include "study/memory_error.h"
#include "study/study.h"
#include "study/study_reader.h"

namespace trainyard {

struct Prepared {
  Study study;
  Graph model;
  HardwareProfile hardware;
  SoftwareProfile software;
  MemoryError memory_error;
};

/// Look-ups of names in the folder `root` (data_root()) and in models/. What an imported model asks
/// for and its graph leaves out is added to `warnings`, which must outlive the resolvers.
/// `time_ops`: StudyResolvers' own.
using TimeOps = std::function<OpTimes(const Study& one_stage)>;
StudyResolvers make_resolvers(const std::string& root, std::vector<std::string>& warnings,
                              TimeOps time_ops = {});

/// Throws ConfigError for anything wrong in the study or in what it names. `sets` as
/// read_study_node(); `fidelity` is the argument of --fidelity, "": as the study says.
Prepared prepare(const std::string& path, const std::vector<std::string>& sets,
                 const std::string& fidelity = "", TimeOps time_ops = {});
/// Ranks at work on one node at the same time.
std::int64_t ranks_of_node(const Study& study);

/// Behind the checks it chooses what the study leaves to cost (app/resolve_by_cost.h).
Prepared prepare_study(Study study, const StudyResolvers& resolvers);

}  // namespace trainyard
