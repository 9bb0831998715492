#include "app/solve/tensor_problems.h"

#include <nlohmann/json.hpp>

namespace trainyard {

const std::vector<SolveProblem>& tensor_problems() {
  static const std::vector<SolveProblem> kProblems = {
      {"hierarchical-matrix", "",
       "what a cluster's units at each level send out, and to each other",
       "cluster  as a study's: {preset: dgx-a100-80g, nodes: 4}, or its links written out\n",
       "problem: hierarchical-matrix\n"
       "cluster: {device: a100-sxm-80g, nodes: 4, devices_per_node: 4, intra: {kind: nvlink, "
       "bandwidth: 600 GB/s},\n"
       "          inter: {kind: infiniband, bandwidth: 200 Gbit/s}}\n",
       solve_hierarchical_matrix},
      {"atp-mesh", "atp_mesh",
       "the mesh of two axes on which tensor parallelism communicates least",
       "matrix     [{units, group, between}, ...], outermost level first: units in one of the "
       "level "
       "above, the bandwidth\n"
       "           out of a unit, and between two (default: group; or a list of lists, symmetric, "
       "0: not joined; an axis\n"
       "           has what the pairs on it have): numbers in GB/s, or 25 GB/s\n"
       "cluster    instead of matrix, as a study's\n"
       "ranks      default: as many as the matrix or the cluster has; the first of a cluster\n"
       "measured   {2x4: [1.2, 4.95]}: bandwidths of all-reduces along the axes of meshes in GB/s; "
       "without a matrix\n"
       "           and a cluster these meshes alone\n"
       "equations  paper (default), or exact: backward as it is, and links shared by as many "
       "groups "
       "as pass them\n"
       "layers, batch, sequence, hidden\n"
       "           for times in seconds; element_bytes: default 2\n",
       "problem: atp-mesh\n"
       "matrix: [{units: 4, group: 25, between: 25}, {units: 4, group: 600, between: 200}]\n"
       "layers: 1\nbatch: 4\nsequence: 2048\nhidden: 4096\n",
       solve_atp_mesh},
      {"tensor-plan", "tensor_plan",
       "which modules of a model tensor parallelism splits, how, and why not the others",
       "study  a study's file, or a study as a map, with its parallel.tensor, tensor_method and "
       "tensor_modules;\n"
       "       set: [path=value, ...], as after --set\n",
       "problem: tensor-plan\nstudy: {model: {family: gpt, layers: 1, hidden: 32, heads: 8, vocab: "
       "64, seq_len: 8}, cluster: dgx-a100-80g,\n        parallel: {tensor: 4, data: 1, "
       "tensor_method: smp, tensor_modules: [\"*.mlp\", lm_head]},\n        training: "
       "{global_batch: 4}}\n",
       solve_tensor_plan}};
  return kProblems;
}

}  // namespace trainyard
