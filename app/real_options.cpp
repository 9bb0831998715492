#include "app/real_options.h"

#include <CLI/CLI.hpp>

#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/plan/plan_limits.h"

namespace trainyard {

namespace {

/// "" where the text is a number of minutes that calibrate may take. CLI11's ranges let nan pass.
std::string minutes_problem(const std::string& text) {
  const auto minutes = parse_number(text);
  if (minutes && *minutes >= 0.2 && *minutes <= 1440) return "";
  return "expected 0.2 to 1440 minutes, got " + in_quotes(text);
}

/// "" where the text is a device that train, emulate and calibrate know.
std::string device_problem(const std::string& text) {
  if (text == "cpu" || text == "cuda") return "";
  return "expected cpu or cuda (a GPU), got " + in_quotes(text);
}

}  // namespace

void add_train_options(CLI::App& command, TrainOptions& options) {
  command.add_option("STUDY", options.study, "the study, a YAML file")->required();
  command
      .add_option("--set", options.sets, "path=value: replaces a value of the study; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--ranks", options.ranks, "processes to start; sets cluster.ranks")
      ->check(CLI::Range(1, kMaxRanks));
  command.add_option("--device", options.device, "cpu or cuda; must be what training.kernels says")
      ->check(device_problem);
  command.add_option("--steps", options.steps, "the run's total; sets training.steps")
      ->check(CLI::Range(std::int64_t{1}, kMaxSteps));
  CLI::Option* resume =
      command.add_flag("--resume", options.resume, "go on from the last checkpoint in --out");
  CLI::Option* from = command.add_option_function<std::int64_t>(
      "--resume-from",
      [&options](std::int64_t step) { options.resume = true, options.resume_from = step; },
      "go on from the checkpoint of this step; later ones are kept under other names");
  from->type_name("STEP");
  command
      .add_flag("--overwrite", options.overwrite,
                "begin again in a folder that holds a run: it goes, with its checkpoints")
      ->excludes(resume)
      ->excludes(from);
  command.add_option("--out", options.out, "folder of the run; default runs/<study name>");
  command.add_option("--weights", options.weights,
                     "weights to start from: a checkpoint's folder, or a folder or file as Hugging "
                     "Face saves them");
  command.add_flag("--json", options.json, "answer as JSON on stdout");
}

void add_emulate_options(CLI::App& command, EmulateOptions& options) {
  command.add_option("STUDY", options.study, "the study, a YAML file")->required();
  command
      .add_option("--rank", options.ranks,
                  "which; several run one after the other: 0,3 or repeated")
      ->required()
      ->delimiter(',');
  command
      .add_option("--set", options.sets, "path=value: replaces a value of the study; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command
      .add_option("--device", options.device,
                  "cpu or cuda; default: the study's, where this machine has it, else cpu")
      ->check(device_problem);
  command.add_option("--profile", options.profile,
                     "hardware profile of the device that emulates: of predicted times; default: "
                     "the study's, or that of this CPU");
  command
      .add_option("--steps", options.steps,
                  "recorded steps, after one to warm up; default: 3 to 20, about two seconds")
      ->check(CLI::Range(1, 1000));
  command
      .add_option("--threads", options.threads,
                  "cores that the rank has; default: all, of a local cluster its share")
      ->check(CLI::Range(1, 1024));
  command.add_option("--out", options.out,
                     "folder for summary.json, trace.json, program.txt, study.resolved.yaml");
  command.add_flag("--overwrite", options.overwrite, kOverwriteHelp);
  command.add_flag("--json", options.json, "answer as JSON on stdout");
}

void add_measure_options(CLI::App& command, MeasureOptions& options) {
  CLI::Option* pairs = command.add_flag(
      "--pairs", options.pairs,
      "what every two devices take for a message, instead of a profile: cluster.pairs");
  command
      .add_option("--device", options.device,
                  "cpu or cuda: whose kernels are timed; of --pairs default: GPUs where there are "
                  "two")
      ->check(device_problem);
  command
      .add_option("--ranks", options.ranks,
                  "of --pairs: devices (default: all GPUs; of a CPU 2 to 8, as it has cores)")
      ->needs(pairs)
      ->check(CLI::Range(2, 350));
  command.add_option("--minutes", options.minutes, "how long it may take (default 10)")
      ->check(minutes_problem)
      ->excludes(pairs);
  command.add_option("--out", options.out,
                     "the file to write, .yaml: the profile (default calibrated.yaml), whose "
                     "curves go into a page beside it, or the pairs (default pairs.yaml)");
  command.add_flag("--json", options.json, "answer as JSON on stdout");
  command.add_option("--set-seconds", options.set_seconds)
      ->group("");  // of the processes that it starts
  command.add_option("--stat", options.stat)
      ->group("");  // of tests: figures of load, as /proc/stat has them
}

}  // namespace trainyard
