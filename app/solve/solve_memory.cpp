// solve: problem `memory-profile`.
#include <nlohmann/json.hpp>

#include "app/solve/automatic_problems.h"
#include "app/solve/model_study.h"
#include "app/solve/written_training.h"
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

TrainingGraph read_training(const YamlNode& problem) {
  const auto prepared = read_model_study(problem);
  if (!prepared && !problem.has("nodes")) problem.fail("expected a study, or nodes");
  if (!prepared) return read_written_training(problem);
  auto made = one_stage_graph(prepared->model, prepared->study, prepared->software);
  if (const auto* none = std::get_if<Infeasible>(&made)) problem.at("study").fail(none->reason);
  return std::get<TrainingGraph>(std::move(made));
}

}  // namespace

Json solve_memory_profile(const YamlNode& problem) {
  const bool written = !problem.has("study");
  const TrainingGraph training = read_training(problem);
  const MemoryProfile profile = profile_memory(training);
  Json ops = Json::array();
  for (const OpId id : training.graph.ops.keys()) {
    const OpMemory& memory = profile.ops[id];
    Json op = {{"op", name_of(training.graph, id)}};
    if (!written) op["kind"] = to_string(training.graph.ops[id].kind);
    op["fwd_in"] = memory.fwd_in;
    op["fwd_tmp"] = memory.fwd_tmp;
    op["fwd_out"] = memory.fwd_out;
    op["fwd_kept"] = memory.fwd_kept;
    op["bwd_tmp"] = memory.bwd_tmp;
    op["bwd_out"] = memory.bwd_out;
    ops.push_back(std::move(op));
  }
  Json out = {{"ops", ops}, {"kept", profile.kept}, {"peak", profile.peak}};
  if (profile.peak_op != kNoIndex) {
    out["peak_at"] = name_of(training.graph, profile.peak_op) +
                     (profile.peak_backward ? " backward" : " forward");
  }
  return out;
}

}  // namespace trainyard
