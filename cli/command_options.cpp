#include "cli/command_options.h"

#include <CLI/CLI.hpp>
#include <string>

#include "app/real_options.h"

namespace trainyard {

void add_study_options(CLI::App& command, StudyOptions& options) {
  command.add_option("STUDY", options.study, "the study, a YAML file")->required();
  command
      .add_option("--set", options.sets, "path=value: replaces a value of the study; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command.add_flag("--json", options.json, "answer as JSON on stdout");
  command.add_option("--out", options.out,
                     "folder for report.html, summary.json, trace.json, program.txt, ...");
  command.add_flag("--overwrite", options.overwrite, kOverwriteHelp);
}

void add_validate_options(CLI::App& command, ValidateOptions& options) {
  command.add_option("CASES", options.cases,
                     "a YAML list of cases: studies, and what was measured of them");
  command.add_option("--run", options.run, "folder of a training run, against its own simulation");
  command
      .add_option("--set", options.sets,
                  "path=value: replaces a value of every case, or of the run's study; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command
      .add_option("--select", options.selections,
                  "path=value,value: only cases that say one of these; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--fidelity", options.fidelity,
                     "analytic, fluid or step; default: analytic for cases, a run's own for --run");
  command
      .add_option("--jobs", options.jobs,
                  "processes at once (default: one per core); the answer is the same")
      ->check(CLI::Range(1, 4096));
  command.add_flag("--json", options.json, "answer as JSON on stdout");
  command.add_option("--out", options.out,
                     "folder for report.html, summary.json and, of cases, cases.csv");
  command.add_flag("--overwrite", options.overwrite, kOverwriteHelp);
}

void add_calibrate_options(CLI::App& command, CalibrateOptions& options) {
  command.add_option("--fit", options.fit,
                     "a YAML list of published runs, to fit software profiles to");
  command
      .add_option("--nccl-tests", options.tables,
                  "what nccl-tests printed, or a table of calibrate/measured's sources: "
                  "curves of links; repeatable, one file for each collective and number of ranks")
      ->take_all()
      ->allow_extra_args(false);
  command
      .add_option(
          "--kernels", options.kernels,
          "a CSV of timed matrix products (m, k, n, us), or a table of layers as Vidur publishes: "
          "a device's profile; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--like", options.like,
                     "of --kernels: the profile that the device otherwise is like");
  command.add_option("--type", options.type, "of --kernels: the products' type (default bf16)");
  command
      .add_option("--select", options.selections,
                  "path=value,value: only cases that say one of these; repeatable; of --kernels "
                  "device=NAME; default: Megatron-LM, Megatron-DeepSpeed and NeMo, not fp8, "
                  "context 1, 1f1b or interleaved")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--leave-out", options.leave_out,
                     "a family of sources that is predicted only");
  command.add_flag("--leave-one-out", options.leave_one_out, "every family in turn");
  command
      .add_option("--jobs", options.jobs,
                  "processes at once (default: one per core); the answer is the same")
      ->check(CLI::Range(1, 4096));
  command.add_flag("--json", options.json, "answer as JSON on stdout");
  command.add_option("--out", options.out,
                     "of --fit: folder for fit.json and software/, the profiles with the fitted "
                     "values; of --nccl-tests and --kernels: the file of links, the profile");
  command.add_flag("--overwrite", options.overwrite, std::string("of --fit: ") + kOverwriteHelp);
}

}  // namespace trainyard
