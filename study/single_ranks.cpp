// What a study says of groups of ranks that are one rank each: it is not used, which is said.
#include <string>

#include "study/framework_profile.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

// Defaults, which study.resolved.yaml writes of every key, are no warning.
void warn_of_single_ranks(Study& study, const StudyResolvers& resolvers) {
  const ParallelConfig& parallel = study.parallel;
  const auto warn = [&](bool unused, const std::string& key, const std::string& why) {
    const std::string path = "parallel." + key;
    if (unused && is_said(study, path)) study.warnings.push_back(path + " is not used: " + why);
  };
  const bool whole_layers = parallel.tensor == 1;
  // Megatron-LM's version may follow from it (framework_profile.cpp).
  const bool settles_version = study.framework.name == "megatron-lm";
  warn(whole_layers && parallel.sequence_parallel && !settles_version, "sequence_parallel",
       "tensor is 1, and no rank shares its sequences with others");
  warn(whole_layers && !parallel.tensor_modules.empty(), "tensor_modules",
       "tensor is 1, and no module is split");
  if (parallel.scatter_gather != software_of(study, resolvers).scatter_gather) {
    warn(parallel.pipeline == 1, "scatter_gather",
         "pipeline is 1, and nothing is sent between stages");
    warn(parallel.pipeline > 1 && whole_layers, "scatter_gather",
         "tensor is 1, and what is sent is whole");
  }
  const ZeroConfig& zero = parallel.zero;
  bool alone = parallel.shards() == 1 && parallel.batch_ranks() == 1;
  for (const int replicas : parallel.replicas) alone = alone && replicas == 1;
  const bool moves = zero.offloads_state() || zero.offloads_parameters();
  warn(alone && zero.stage > 0 && !moves && parallel.tensor_method != "map", "zero.stage",
       "there is one replica, which has nobody to divide with");
}

}  // namespace trainyard
