// solve: problem `tensor-plan`.
#include <map>
#include <nlohmann/json.hpp>

#include "app/solve/model_study.h"
#include "app/solve/tensor_problems.h"
#include "engine/passes/chosen_modules.h"
#include "engine/passes/plan_auto.h"
#include "engine/passes/plan_method.h"
#include "engine/passes/plan_smp.h"
#include "engine/passes/select_kernels.h"
#include "engine/passes/smp_modules.h"
#include "engine/passes/tensor_methods.h"
#include "engine/sharding/spec_text.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

/// The weights of each module as a planner splits them.
struct SplitModules {
  const PlannedGraph& planned;
  const ParallelConfig& parallel;
  AxisSet tensor = 0;

  bool is_split(const TensorSpec& spec) const {
    for (const DimSplit& dim : spec.dims) {
      if ((axes_in(dim) & tensor) != 0) return true;
    }
    return false;
  }

  /// Why no weight of a module is split, whose planner is not smp.
  std::string why_whole(const std::string& module) const {
    if (!is_chosen(module, parallel.tensor_modules))
      return "parallel.tensor_modules does not choose it";
    if (takes_key(tensor_method(parallel.tensor_method), "table") &&
        split_rule(module, parallel.split_table) == nullptr)
      return "no entry of the table matches it";
    return "method " + parallel.tensor_method + " splits no weight of it";
  }
};

Json weights_of(const SplitModules& of, const std::vector<ParameterId>& parameters,
                bool& is_split) {
  Json weights = Json::object();
  const auto& [graph, sharding] = of.planned;
  for (const ParameterId id : parameters) {
    const Parameter& parameter = graph.parameters[id];
    const TensorSpec& spec = sharding.specs[sharding.stored[parameter.tensor]];
    weights[parameter.name] = to_text(spec, sharding.mesh);
    is_split = is_split || of.is_split(spec);
  }
  return weights;
}

}  // namespace

Json solve_tensor_plan(const YamlNode& problem) {
  const auto prepared = read_model_study(problem);
  if (!prepared) problem.at("study");
  const Study& study = prepared->study;
  const bool flash = study.training.flash_attention == FlashAttention::kOn;
  const Graph graph = select_kernels(prepared->model, prepared->software, flash);
  const MethodPlan plan = method_plan(study.parallel);
  const auto answer = plan.plan(graph);
  if (const auto* none = std::get_if<Infeasible>(&answer)) problem.at("study").fail(none->reason);
  const auto& planned = std::get<PlannedGraph>(answer);
  SplitModules modules{planned, study.parallel};
  modules.tensor = set_of(find_axes(planned.sharding.mesh, "tp").value_or(Axes{}));

  std::map<std::string, std::vector<ParameterId>> own;  // by the module that reads it first
  std::vector<std::string> order;
  Indexed<ParameterId, bool> seen;
  seen.assign(planned.graph.parameters.size(), false);
  for (const Op& op : planned.graph.ops) {
    for (const TensorId input : op.inputs) {
      const ParameterId id = planned.graph.tensors[input].parameter;
      if (id == kNoIndex || seen[id]) continue;
      seen[id] = true;
      const std::string& module = planned.graph.modules[op.module];
      if (own[module].empty()) order.push_back(module);
      own[module].push_back(id);
    }
  }

  Json rows = Json::array();
  int num_split = 0;
  const auto add = [&](const std::string& path, Json row, const std::string& reason) {
    bool is_split = false;
    Json weights = weights_of(modules, own[path], is_split);
    if (!weights.empty()) row["split"] = is_split;
    if (!reason.empty())
      row["why_not"] = reason;
    else if (!is_split && !weights.empty() && row.find("as") == row.end())
      row["why_not"] = modules.why_whole(path);
    if (!weights.empty()) row["weights"] = std::move(weights);
    num_split += is_split ? 1 : 0;
    rows.push_back(std::move(row));
  };
  if (plan.told<SmpPlan>() != nullptr) {
    for (const SmpModule& module : smp_modules(graph, study.parallel.tensor_modules).modules) {
      Json row = {{"module", module.path.empty() ? "(model)" : module.path}};
      if (module.broken == 0)
        row["as"] = to_string(module.kind);
      else
        row["rule"] = module.broken;
      if (module.broken == 3) row["in"] = module.replaced.empty() ? "(model)" : module.replaced;
      add(module.path, std::move(row), module.broken == 3 ? "" : module.reason);
    }
  } else {
    for (const std::string& path : order) add(path, {{"module", path}}, "");
  }
  return {{"method", study.parallel.tensor_method},
          {"ranks", study.parallel.tensor},
          {"modules_split", num_split},
          {"modules", std::move(rows)}};
}

}  // namespace trainyard
