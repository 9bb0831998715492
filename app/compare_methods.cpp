// `trainyard simulate --compare-tensor-methods`: one study under every method that splits its
// layers over as many ranks, each simulated.
#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "app/commands.h"
#include "app/simulation.h"
#include "engine/passes/tensor_methods.h"
#include "report/method_table.h"
#include "study/study_origin.h"
#include "system/output_folder.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

/// The method that the study names, whether or not it can be read otherwise; "": none.
std::string said_method(const StudyOptions& options) {
  YamlNode document = YamlNode::load_file(options.study);
  apply_options(document, options.sets);
  const auto parallel = document.find("parallel");
  if (!parallel || !parallel->is_map()) return "";
  auto method = parallel->find("tensor_method");
  if (method && method->is_map()) method = method->find("name");
  return method && method->is_scalar() ? method->as_string() : "";
}

struct ComparedMethod {
  MethodWay way;
  bool splits_by_cost = false;
};

std::vector<ComparedMethod> methods_for(const Study& study, const std::string& said) {
  const ComparedPlan of{study, said, is_said(study, "parallel.tensor_method.chunks")};
  std::vector<ComparedMethod> out;
  for (const TensorMethod& method : tensor_methods()) {
    if (study.parallel.tensor == 1 && !out.empty()) break;
    for (MethodWay& way : method.ways(method, of))
      out.push_back({std::move(way), method.splits_by_cost});
  }
  return out;
}

Prepared prepare_with(const StudyOptions& options, const ComparedMethod& method) {
  std::vector<std::string> sets = options.sets;
  const MethodWay& way = method.way;
  if (!way.value.empty()) sets.push_back("parallel.tensor_method=" + way.value);
  if (way.microbatch > 0) sets.push_back("training.microbatch=" + std::to_string(way.microbatch));
  if (method.splits_by_cost) sets.emplace_back("parallel.sequence_parallel=false");
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

/// What is wrong with the study as it stands, or with one method alone.
std::string reason_of(const ConfigError& error) {
  return error.key_path().empty() ? error.problem() : error.key_path() + ": " + error.problem();
}

MethodRow simulate_method(const StudyOptions& options, const ComparedMethod& method) {
  const MethodWay& way = method.way;
  MethodRow refused;
  refused.method = way.name;
  refused.mesh = way.mesh;
  refused.microbatch = way.microbatch;
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
    const std::vector<int>& mesh =
        way.mesh.empty() ? prepared.study.parallel.tensor_mesh : way.mesh;
    MethodRow row = method_row(way.name, mesh, result.summary, result.program);
    row.microbatch = way.microbatch;
    return row;
  } catch (const ConfigError& error) {
    // The method alone is refused: the study has been read.
    refused.refused = reason_of(error);
  } catch (const PlanError& error) {
    refused.refused = reason_of(error);
  }
  return refused;
}

/// The study as it stands, or as some method would have it where its own refuses it.
struct ComparedStudy {
  std::optional<Study> study;   // none: no method can split its layers
  std::exception_ptr refused;   // why its own does
  int exit = kCannotRun;        // of a command that is refused so
  std::string reason;           // in words
  std::vector<MethodRow> rows;  // why methods cannot that were asked for a study
};

ComparedStudy compared_study(const StudyOptions& options) {
  ComparedStudy out;
  try {
    out.study = prepare(options.study, options.sets, options.fidelity).study;
    return out;
  } catch (const ConfigError& error) {
    out.exit = kWrongInput;
    out.refused = std::current_exception();
    out.reason = reason_of(error);
  } catch (const PlanError& error) {
    out.refused = std::current_exception();
    out.reason = reason_of(error);
  }
  for (const TensorMethod& method : tensor_methods()) {
    MethodRow row;
    row.method = method.name;
    try {
      out.study =
          prepare_with(options, {{row.method, {}, row.method}, method.splits_by_cost}).study;
      return out;
    } catch (const ConfigError& error) {
      row.refused = reason_of(error);
    } catch (const PlanError& error) {
      row.refused = reason_of(error);
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

/// Whether they refuse the study for something else than the reason that its own method has.
bool differ(const ComparedStudy& compared) {
  return std::any_of(compared.rows.begin(), compared.rows.end(),
                     [&](const MethodRow& row) { return row.refused != compared.reason; });
}

}  // namespace

int run_compare_methods(const StudyOptions& options) {
  std::optional<OutputFolder> folder;
  if (!options.out.empty())
    folder.emplace(options.out, WrittenBy{"simulate --compare-tensor-methods", options.study},
                   options.overwrite);
  const ComparedStudy compared = compared_study(options);
  std::vector<MethodRow> rows;
  if (compared.study) {
    print_warnings(compared.study->warnings);
    for (const ComparedMethod& method : methods_for(*compared.study, said_method(options)))
      rows.push_back(simulate_method(options, method));
  } else {
    // Nothing has to do with methods: the study is refused as always.
    if (!differ(compared)) std::rethrow_exception(compared.refused);
    rows = compared.rows;
  }
  const bool any = std::any_of(rows.begin(), rows.end(),
                               [](const MethodRow& row) { return row.refused.empty(); });
  if (compared.refused) {
    const bool said = std::any_of(rows.begin(), rows.end(), [&](const MethodRow& row) {
      return row.refused == compared.reason;
    });
    if (!said) {
      MethodRow& own = rows.emplace_back();
      own.method = "as it stands";
      own.refused = compared.reason;
    }
  }
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
  if (any) return kDone;
  say(options.study + ": none of the " + std::to_string(rows.size()) + " methods can run");
  return compared.study ? kCannotRun : compared.exit;
}

}  // namespace trainyard
