// `trainyard simulate --compare-tensor-methods`: one study under every method that splits its
// layers over as many ranks, each simulated.
#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "app/commands.h"
#include "app/simulation.h"
#include "engine/passes/tensor_methods.h"
#include "engine/plan/tensor_overlap.h"
#include "report/method_table.h"
#include "study/study_origin.h"
#include "system/output_folder.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

constexpr const char* kMap = "map";

struct Method {
  std::string name;
  std::vector<int> mesh;
  std::string value;            // of parallel.tensor_method; empty: the study's own
  std::int64_t microbatch = 0;  // 0: the study's
};

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

/// Samples of a rank of smp with which a tensor group has those of the study's microbatch, where
/// the study's own number would make more of them than a step has; 0: the study's own.
std::int64_t smp_microbatch(const Study& study, const std::string& said) {
  const TrainingConfig& training = study.training;
  const std::int64_t ranks = study.parallel.tensor, microbatch = training.microbatch;
  const bool own = said == "smp" || study.parallel.smp.prescaled_batch;
  if (own || !training.microbatches.empty() || !study.partition.replicas.empty()) return 0;
  const bool met = training.global_batch % (microbatch * ranks * study.parallel.data) == 0;
  return met || microbatch % ranks != 0 ? 0 : microbatch / ranks;
}

/// Those that say how ATP's ranks lie: on N x 1 it is megatron.
std::vector<Method> meshes_of_atp(const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  // What a study says of atp is not said of the others.
  const bool own_chunks = is_said(study, "parallel.tensor_method.chunks");
  const std::string chunks =
      own_chunks
          ? ", chunks: " + std::to_string(parse_tensor_overlap(parallel.tensor_overlap).chunks)
          : "";
  std::vector<Method> out;
  for (int d2 = 2; d2 <= parallel.tensor; ++d2) {
    if (parallel.tensor % d2 != 0) continue;
    const int d1 = parallel.tensor / d2;
    out.push_back({"atp",
                   {d1, d2},
                   "{name: atp, mesh: [" + std::to_string(d1) + ", " + std::to_string(d2) + "]" +
                       chunks + "}"});
  }
  return out;
}

std::vector<Method> modes_of_smp(const Study& study, const std::string& said) {
  const std::string batch = study.parallel.smp.prescaled_batch ? "true" : "false";
  std::vector<Method> out;
  for (const std::string mode : {"memory", "speed"}) {
    out.push_back({"smp " + mode,
                   {},
                   "{name: smp, optimize: " + mode + ", prescaled_batch: " + batch + "}",
                   smp_microbatch(study, said)});
  }
  return out;
}

/// The ways in which a method is compared; `said`: the study's own.
std::vector<Method> ways_of(const TensorMethod& method, const Study& study,
                            const std::string& said) {
  const std::string name(method.name);
  if (method.name == "atp") return meshes_of_atp(study);
  if (method.name == "smp") return modes_of_smp(study, said);
  if (method.form != nullptr) {
    const auto mesh = method.form->mesh_of(study.parallel.tensor);
    return mesh ? std::vector<Method>{{name, *mesh, name}} : std::vector<Method>{};
  }
  // Without a table of the study's own it is megatron.
  if (method.name == "auto" && study.parallel.split_table.empty()) return {};
  // The study's own, with all that it says of it.
  return {{name, {}, said == name ? "" : name}};
}

std::vector<Method> methods_for(const Study& study, const std::string& said) {
  std::vector<Method> out;
  for (const TensorMethod& method : tensor_methods()) {
    if (study.parallel.tensor == 1 && !out.empty()) break;
    for (Method& way : ways_of(method, study, said)) out.push_back(std::move(way));
  }
  return out;
}

Prepared prepare_with(const StudyOptions& options, const Method& method) {
  std::vector<std::string> sets = options.sets;
  if (!method.value.empty()) sets.push_back("parallel.tensor_method=" + method.value);
  if (method.microbatch > 0)
    sets.push_back("training.microbatch=" + std::to_string(method.microbatch));
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

/// What is wrong with the study as it stands, or with one method alone.
std::string reason_of(const ConfigError& error) {
  return error.key_path().empty() ? error.problem() : error.key_path() + ": " + error.problem();
}

MethodRow simulate_method(const StudyOptions& options, const Method& method) {
  MethodRow refused;
  refused.method = method.name;
  refused.mesh = method.mesh;
  refused.microbatch = method.microbatch;
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
    MethodRow row = method_row(method.name, mesh, result.summary, result.program);
    row.microbatch = method.microbatch;
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
      out.study = prepare_with(options, {row.method, {}, row.method}).study;
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
    for (const Method& method : methods_for(*compared.study, said_method(options)))
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
