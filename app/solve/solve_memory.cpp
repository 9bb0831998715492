// solve: problem `memory-profile`.
#include <nlohmann/json.hpp>

#include "app/solve/automatic_problems.h"
#include "app/solve/model_study.h"
#include "engine/graph/op_kind.h"
#include "engine/passes/one_stage_graph.h"
#include "engine/planner/memory_profile.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

std::string name_of(const Graph& graph, OpId id) {
  const Op& op = graph.ops[id];
  return op.outputs.empty() ? graph.modules[op.module] : graph.tensors[op.outputs[0]].name;
}

}  // namespace

Json solve_memory_profile(const YamlNode& problem) {
  const YamlNode of_study = problem.at("study");
  const Prepared prepared = *read_model_study(problem);
  auto made = one_stage_graph(prepared.model, prepared.study, prepared.software);
  if (const auto* none = std::get_if<Infeasible>(&made)) of_study.fail(none->reason);
  const auto& training = std::get<TrainingGraph>(made);
  const MemoryProfile profile = profile_memory(training);
  Json ops = Json::array();
  for (const OpId id : training.graph.ops.keys()) {
    const OpMemory& memory = profile.ops[id];
    ops.push_back({{"op", name_of(training.graph, id)},
                   {"kind", to_string(training.graph.ops[id].kind)},
                   {"fwd_in", memory.fwd_in},
                   {"fwd_tmp", memory.fwd_tmp},
                   {"fwd_out", memory.fwd_out},
                   {"fwd_kept", memory.fwd_kept},
                   {"bwd_tmp", memory.bwd_tmp},
                   {"bwd_out", memory.bwd_out}});
  }
  Json out = {{"ops", ops}, {"kept", profile.kept}, {"peak", profile.peak}};
  if (profile.peak_op != kNoIndex) {
    out["peak_at"] = name_of(training.graph, profile.peak_op) +
                     (profile.peak_backward ? " backward" : " forward");
  }
  return out;
}

}  // namespace trainyard
