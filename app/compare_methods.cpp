// `trainyard simulate --compare-tensor-methods`: one study under every method that splits its
// layers over as many ranks, each simulated.
#include <algorithm>
#include <optional>
#include <utility>

#include "app/commands.h"
#include "app/simulation.h"
#include "engine/passes/mesh_methods.h"
#include "report/method_table.h"
#include "system/output_folder.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

constexpr const char* kMap = "map";

struct Method {
  std::string name;
  std::vector<int> mesh;
  std::string value;  // of parallel.tensor_method; empty: the study's own
};

/// On N x 1 ranks atp is megatron, and so is auto without a table of the study's own.
std::vector<Method> methods_for(const ParallelConfig& parallel) {
  const int ranks = parallel.tensor;
  std::vector<Method> out = {{"megatron", {}, "megatron"}};
  if (!parallel.split_table.empty()) out.push_back({"auto", {}, ""});
  for (int d2 = 2; d2 <= ranks; ++d2) {
    if (ranks % d2 != 0) continue;
    const int d1 = ranks / d2;
    out.push_back({"atp",
                   {d1, d2},
                   "{name: atp, mesh: [" + std::to_string(d1) + ", " + std::to_string(d2) + "]}"});
  }
  if (ranks == 1) return out;
  const std::string batch = parallel.smp.prescaled_batch ? "true" : "false";
  for (const std::string mode : {"memory", "speed"}) {
    out.push_back(
        {"smp " + mode, {}, "{name: smp, optimize: " + mode + ", prescaled_batch: " + batch + "}"});
  }
  for (const MeshMethod& method : mesh_methods()) {
    if (const auto mesh = method.mesh_of(ranks))
      out.push_back({std::string(method.name), *mesh, std::string(method.name)});
  }
  // The study's own, with its mesh and its budget, where it says map.
  out.push_back({kMap, {}, parallel.tensor_method == kMap ? "" : kMap});
  return out;
}

Prepared prepare_with(const StudyOptions& options, const Method& method) {
  std::vector<std::string> sets = options.sets;
  if (!method.value.empty()) sets.push_back("parallel.tensor_method=" + method.value);
  // It splits sequences by itself.
  if (method.name == kMap) sets.emplace_back("parallel.sequence_parallel=false");
  return prepare(options.study, sets, options.fidelity);
}

/// Without its place and that it is one: "KEY: REASON".
std::string reason_of(const PlanError& error) {
  std::string text = error.what();
  const std::string place = to_string(error.where()) + ": ", said = "the plan cannot run: ";
  if (text.starts_with(place)) text.erase(0, place.size());
  if (const auto at = text.find(said); at != std::string::npos) text.erase(at, said.size());
  return text;
}

MethodRow simulate_method(const StudyOptions& options, const Method& method) {
  MethodRow refused;
  refused.method = method.name;
  refused.mesh = method.mesh;
  try {
    const Prepared prepared = prepare_with(options, method);
    RunOptions run;
    run.fold = !options.no_fold;
    run.reuse = !options.no_reuse;
    run.record_rows = false;
    const auto answer = simulate(prepared, run);
    if (const auto* reason = std::get_if<Infeasible>(&answer)) {
      refused.refused = (reason->key.empty() ? "" : reason->key + ": ") + reason->reason;
      return refused;
    }
    const auto& result = std::get<Simulation>(answer);
    const std::vector<int> mesh =
        method.name == kMap ? prepared.study.parallel.tensor_mesh : method.mesh;
    return method_row(method.name, mesh, result.summary, result.program);
  } catch (const ConfigError& error) {
    // The method alone is refused: the study has been read as it stands.
    refused.refused = error.key_path() + ": " + error.problem();
  } catch (const PlanError& error) {
    refused.refused = reason_of(error);
  }
  return refused;
}

}  // namespace

int run_compare_methods(const StudyOptions& options) {
  std::optional<OutputFolder> folder;
  if (!options.out.empty())
    folder.emplace(options.out, WrittenBy{"simulate --compare-tensor-methods", options.study},
                   options.overwrite);
  const Prepared as_it_stands = prepare(options.study, options.sets, options.fidelity);
  print_warnings(as_it_stands.study.warnings);
  std::vector<MethodRow> rows;
  for (const Method& method : methods_for(as_it_stands.study.parallel))
    rows.push_back(simulate_method(options, method));
  std::string json = method_table_json(options.study, rows);
  if (folder) {
    json = folder->marked_json(json);
    folder->write("tensor_methods.json", json);
    folder->commit();
  }
  if (options.json)
    print_answer(json);
  else
    print_text(method_table_text(rows));
  const bool any = std::any_of(rows.begin(), rows.end(),
                               [](const MethodRow& row) { return row.refused.empty(); });
  if (any) return kDone;
  say(options.study + ": none of the " + std::to_string(rows.size()) + " methods can run");
  return kCannotRun;
}

}  // namespace trainyard
