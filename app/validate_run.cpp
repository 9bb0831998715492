#include "app/validate_run.h"

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "app/commands.h"
#include "app/prepare.h"
#include "app/simulation.h"
#include "engine/base/error.h"
#include "engine/program/program_text.h"
#include "engine/program/verify.h"
#include "study/compile_study.h"
#include "study/study_words.h"
#include "system/files.h"
#include "system/output_folder.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

Program read_program(const std::string& path) {
  Program program = parse_program(read_file(path), path);
  if (const auto violation = find_violation(program))
    throw ConfigError(path + ": cannot run: " + *violation);
  return program;
}

std::string in_yaml_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out.append(c == '\'' ? 2 : 1, c);
  return out + "'";
}

/// cluster.profile is a key of {preset: local}, which the resolved study has written out: the
/// preset is named again.
std::vector<std::string> for_resolved_study(const std::vector<std::string>& sets,
                                            const Cluster& cluster) {
  constexpr std::string_view kProfile = "cluster.profile=";
  std::vector<std::string> out;
  for (const std::string& set : sets) {
    const bool translate = cluster.name == kLocalCluster && set.starts_with(kProfile);
    out.push_back(translate
                      ? "cluster={preset: local, ranks: " + std::to_string(cluster.num_devices) +
                            ", profile: " + in_yaml_quotes(set.substr(kProfile.size())) + "}"
                      : set);
  }
  return out;
}

bool compiles_to(const Prepared& prepared, const Program& program) {
  PassLog log;
  const auto compiled = compile(prepared.model, prepared.study, prepared.software, log);
  const auto* other = std::get_if<Program>(&compiled);
  return other != nullptr && *other == program;
}

/// A run's measured times are those of its own instructions: options may change what they cost, not
/// what they are.
void check_same_program(const std::string& study, const std::vector<std::string>& sets,
                        const Prepared& prepared, const Program& program) {
  const ProgramInputs before = program_inputs(prepare(study, {}).study);
  if (program_inputs(prepared.study) == before || compiles_to(prepared, program)) return;
  std::string culprit = "the options together";
  for (const std::string& set : sets) {
    const Prepared alone = prepare(study, {set});
    if (program_inputs(alone.study) == before || compiles_to(alone, program)) continue;
    culprit = "--set " + set;
    break;
  }
  throw ConfigError(
      culprit +
      ": would make another Program than the run's, whose instructions were measured; --run takes "
      "options that change costs only, such as cluster.profile, cluster.intra.bandwidth and "
      "fidelity");
}

std::vector<std::int64_t> all_ranks(const Program& program) {
  std::vector<std::int64_t> ranks;
  for (std::int64_t rank = 0; rank < program.mesh.num_ranks(); ++rank) ranks.push_back(rank);
  return ranks;
}

}  // namespace

RunComparison validate_run(const std::string& folder, const std::vector<std::string>& sets,
                           const std::string& fidelity) {
  if (!fs::is_directory(folder)) throw ConfigError("--run " + folder + ": no such folder");
  const std::string study = folder + "/study.resolved.yaml";
  const bool measured_steps = fs::exists(folder + "/measured.json");
  std::vector<std::string> files = {study, folder + "/program.txt"};
  // A simulation writes these, too; what train alone writes from its first step are the losses.
  if (!measured_steps) files.push_back(folder + "/losses.csv");
  for (const std::string& file : files) {
    if (!fs::exists(file))
      throw ConfigError("--run " + folder + ": holds no run of trainyard train: it has no " + file);
  }
  if (!measured_steps) {
    throw ConfigError("--run " + folder +
                      ": has no measured.json: the run did not come to its last step, or was one "
                      "of an earlier version");
  }
  const Cluster cluster = prepare(study, {}).study.cluster;
  const std::vector<std::string> options = for_resolved_study(sets, cluster);
  const Prepared prepared = prepare(study, options, fidelity);
  const Program program = read_program(folder + "/program.txt");
  check_same_program(study, options, prepared, program);
  const RunMeasurement measured = read_run_measurement(folder + "/measured.json", program);

  SourceLog sources;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, sources);
  const std::unique_ptr<Executor> executor = make_executor(prepared.study.fidelity);
  const std::array<Job, 1> jobs = {Job{&program, 0}};
  RunOptions every;
  every.fold = false;
  every.record_rows = true;
  every.trace_ranks = all_ranks(program);
  const Trace predicted = executor->run(jobs, costs, every);
  const CostUncertainty uncertainty(program, prepared.hardware, prepared.software,
                                    prepared.study.cluster);
  const auto step_time = [&](const Costs& other) { return executor->run(jobs, other, {}).period; };
  RunComparison comparison =
      compare_run({program, costs, predicted, measured, step_time, &uncertainty});
  if (uncertainty.any()) {
    comparison.interval = find_time_interval(program, uncertainty, costs, predicted.period,
                                             draws_for(predicted.num_events), step_time);
  }
  comparison.run = folder;
  comparison.warnings.insert(comparison.warnings.end(), prepared.study.warnings.begin(),
                             prepared.study.warnings.end());
  return comparison;
}

int run_validate_run(const ValidateOptions& options) {
  std::optional<OutputFolder> folder;
  if (!options.out.empty())
    folder.emplace(options.out, WrittenBy{"validate --run", options.run}, options.overwrite);
  const RunComparison comparison = validate_run(options.run, options.sets, options.fidelity);
  std::string json = run_comparison_json(comparison);
  if (folder) {
    json = folder->marked_json(json);
    folder->write("summary.json", json);
    folder->write("report.html", run_comparison_page(comparison));
    folder->commit();
  }
  if (options.json)
    print_answer(json);
  else
    print_text(run_comparison_text(comparison));
  return kDone;
}

}  // namespace trainyard
