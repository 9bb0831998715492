#include "cli/command_options.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "app/real_options.h"

namespace trainyard {

namespace {

/// A list of texts, one for each time that the option is given.
void add_repeatable(CLI::App& command, const char* name, std::vector<std::string>& values,
                    const char* help) {
  command.add_option(name, values, help)->take_all()->allow_extra_args(false);
}

void add_jobs(CLI::App& command, int& jobs) {
  command
      .add_option("--jobs", jobs,
                  "processes at once (default: one per core); the answer is the same")
      ->check(CLI::Range(1, 4096));
}

/// `out`: what is written there; `overwrite`: before the help of --overwrite.
template <typename Options>
void add_answer_options(CLI::App& command, Options& options, const char* out,
                        const std::string& overwrite = "") {
  command.add_flag("--json", options.json, "answer as JSON on stdout");
  command.add_option("--out", options.out, out);
  command.add_flag("--overwrite", options.overwrite, overwrite + kOverwriteHelp);
}

}  // namespace

void add_study_options(CLI::App& command, StudyOptions& options) {
  command.add_option("STUDY", options.study, "the study, a YAML file")->required();
  add_repeatable(command, "--set", options.sets,
                 "path=value: replaces a value of the study; repeatable");
  add_answer_options(command, options,
                     "folder for report.html, summary.json, trace.json, program.txt, ...");
}

void add_validate_options(CLI::App& command, ValidateOptions& options) {
  command.add_option("CASES", options.cases,
                     "a YAML list of cases: studies, and what was measured of them");
  command.add_option("--run", options.run, "folder of a training run, against its own simulation");
  add_repeatable(command, "--set", options.sets,
                 "path=value: replaces a value of every case, or of the run's study; repeatable");
  add_repeatable(command, "--select", options.selections,
                 "path=value,value: only cases that say one of these; repeatable");
  command.add_option("--fidelity", options.fidelity,
                     "analytic, fluid or step; default: analytic for cases, a run's own for --run");
  command.add_flag(
      "--sensitivity", options.sensitivity,
      "of cases: which rows hold each fitted number, and what it would be without each "
      "family of them");
  add_jobs(command, options.jobs);
  add_answer_options(command, options,
                     "folder for report.html, summary.json and, of cases, cases.csv");
}

void add_calibrate_options(CLI::App& command, CalibrateOptions& options) {
  command.add_option("--fit", options.fit,
                     "a YAML list of published runs, to fit software profiles to");
  add_repeatable(command, "--nccl-tests", options.tables,
                 "what nccl-tests printed, or a table of calibrate/measured's sources: "
                 "curves of links; repeatable, one file for each collective and number of ranks");
  add_repeatable(
      command, "--kernels", options.kernels,
      "a CSV of timed matrix products (m, k, n, us), or a table of layers as Vidur publishes: "
      "a device's profile; repeatable");
  command.add_option("--like", options.like,
                     "of --kernels: the profile that the device otherwise is like");
  command.add_option("--type", options.type, "of --kernels: the products' type (default bf16)");
  add_repeatable(command, "--select", options.selections,
                 "path=value,value: only cases that say one of these; repeatable; of --kernels "
                 "device=NAME; default: Megatron-LM, Megatron-DeepSpeed and NeMo, not fp8, "
                 "context 1, 1f1b or interleaved");
  command.add_option("--leave-out", options.leave_out,
                     "a family of sources that is predicted only");
  command.add_flag("--leave-one-out", options.leave_one_out, "every family in turn");
  add_jobs(command, options.jobs);
  add_answer_options(command, options,
                     "of --fit: folder for fit.json and software/, the profiles with the fitted "
                     "values; of --nccl-tests and --kernels: the file of links, the profile",
                     "of --fit: ");
}

}  // namespace trainyard
