// What a study says of groups of ranks that are one rank each: it is not used, which is said.
#include <string>
#include <string_view>
#include <utility>

#include "engine/passes/tensor_methods.h"
#include "study/framework_profile.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

/// What is said of how a method splits layers; a mesh says how many ranks they are for.
void warn_of_method(Study& study) {
  const ParallelConfig& parallel = study.parallel;
  if (parallel.tensor > 1) return;
  const std::pair<std::string_view, bool> said[] = {
      {"measured", !parallel.measured_meshes.empty()},
      {"table", !parallel.split_table.empty()},
      {"optimize", parallel.smp.optimize != SmpConfig{}.optimize},
      {"prescaled_batch", parallel.smp.prescaled_batch},
      {"memory_budget", parallel.tensor_memory > 0},
      {"ops", !parallel.tensor_ops.empty()}};
  for (const auto& [key, differs] : said) {
    const std::string path = "parallel.tensor_method." + std::string(key);
    if (differs && is_said(study, path))
      study.warnings.push_back(path + " is not used: tensor is 1, and no layer is split");
  }
}

/// A cluster that is written out describes its network, of use or not; an override of a preset has
/// something in mind.
void warn_of_rdma(Study& study) {
  const ParallelConfig& parallel = study.parallel;
  if (!is_said(study, "cluster.rdma") || !is_said(study, "cluster.preset")) return;
  if (parallel.d2d_buffer > 0 && parallel.pipeline > 1) return;
  study.warnings.emplace_back(
      "cluster.rdma is not used: it says whether transfers of a pipeline with "
      "parallel.d2d_buffer pass the hosts, and there are none");
}

}  // namespace

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
  warn_of_method(study);
  warn_of_rdma(study);
  const ZeroConfig& zero = parallel.zero;
  // What splits by cost may split the batch over the ranks of a tensor group.
  bool alone = parallel.shards() == 1 && parallel.dividing_ranks() == 1 &&
               !tensor_method(parallel.tensor_method).splits_by_cost;
  for (const int replicas : parallel.replicas) alone = alone && replicas == 1;
  const bool moves = zero.offloads_state() || zero.offloads_parameters();
  warn(alone && zero.stage > 0 && !moves, "zero.stage",
       "there is one replica, which has nobody to divide with");
}

}  // namespace trainyard
