// trainyard-real: the commands that need LibTorch. `trainyard train`, `emulate` and `calibrate --device` run it; it is a program
// of its own because LibTorch takes longer to load than a simulation takes.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/waiting_threads.h"
#include "engine/base/error.h"
#include "engine/config/quantity.h"
#include "engine/config/user_text.h"
#include "real/calibrate/calibrate_command.h"
#include "real/emulate/emulation.h"
#include "real/exec/retained_memory.h"
#include "real/launch/failure.h"
#include "real/launch/local_launcher.h"
#include "real/launch/rank_environment.h"
#include "real/launch/rank_threads.h"
#include "real/torch.h"
#include "real/train/training_run.h"

namespace trainyard {

namespace {

/// What a command was asked to do, as far as messages say it.
struct Asked {
  std::string study;
  bool json = false;
};

void print_error(const Asked& asked, int exit, const std::string& message) {
  const nlohmann::ordered_json error = {{"error", {{"exit", exit}, {"message", message}, {"where", asked.study}}}};
  std::printf("%s\n", error.dump(2).c_str());
}

/// One message per run: the supervisor prints that of the rank that failed first.
int fail(int exit, const std::string& message, const Asked& asked, const std::optional<RankEnvironment>& environment = {}) {
  const bool supervised = environment && environment->launcher == kOwnLauncher;
  if (supervised) report_rank_error(*environment, {exit, message});
  if (!supervised) {
    const std::string rank = environment ? "rank " + std::to_string(environment->rank) + ": " : "";
    std::fprintf(stderr, "trainyard: %s%s\n", rank.c_str(), message.c_str());
  }
  if (asked.json && !environment) print_error(asked, exit, message);
  return exit;
}

/// Runs a command; what it throws becomes its exit.
int guarded(const Asked& asked, const std::optional<RankEnvironment>& environment, const std::function<int()>& command) {
  try {
    return command();
  } catch (const std::exception&) {
    const Failure failure = current_failure();
    return fail(failure.exit, failure.message, asked, environment);
  }
}

void run_training(const TrainOptions& options, const RankEnvironment& environment) {
  const TrainingPlan plan = plan_training(options);
  if (environment.world_size != plan.num_ranks) {
    throw ConfigError(options.study + ": the plan has " + std::to_string(plan.num_ranks) + " ranks, " +
                      environment.launcher + " started " + std::to_string(environment.world_size));
  }
  if (environment.launcher != kOwnLauncher && environment.rank == 0) {
    check_inputs(plan, options);
    prepare_folder(plan, options);
  }
  retain_cpu_memory();
  at::set_num_threads(threads_per_rank(environment));
  run_rank(plan, options, environment);
}

int start_training(const TrainOptions& options, std::vector<std::string> arguments) {
  const TrainingPlan plan = plan_training(options);
  for (const std::string& warning : plan.prepared.study.warnings) {
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  }
  check_devices(plan);
  check_inputs(plan, options);
  prepare_folder(plan, options);
  const RunEnd end = run_local_ranks(std::move(arguments), plan.num_ranks);
  if (options.json && !end.message.empty()) print_error({options.study, true}, end.exit, end.message);
  return end.exit;
}

/// Runs a command that may be one rank of several, whose environment it gets; what it throws becomes its exit.
int guarded_rank(const Asked& asked, const std::function<int(const std::optional<RankEnvironment>&)>& command) {
  std::optional<RankEnvironment> environment;
  const int exit = guarded(asked, std::nullopt, [&] {
    environment = read_rank_environment(environment_variable);
    return kDone;
  });
  if (exit != kDone) return exit;
  return guarded(asked, environment, [&] { return command(environment); });
}

int train(const TrainOptions& options, int argc, char** argv) {
  return guarded_rank({options.study, options.json}, [&](const std::optional<RankEnvironment>& environment) {
    if (!environment) return start_training(options, {argv, argv + argc});
    run_training(options, *environment);
    return kDone;
  });
}

int measure(const MeasureOptions& options, int argc, char** argv) {
  return guarded_rank({"", options.json}, [&](const std::optional<RankEnvironment>&) {
    return run_measure(options, {argv, argv + argc});
  });
}

int emulate_ranks(const EmulateOptions& options) {
  return guarded({options.study, options.json}, std::nullopt, [&] {
    retain_cpu_memory();
    const Emulation emulation = emulate(options);
    const std::string text = options.json ? emulation_json(emulation) : emulation_text(emulation);
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (emulation.fits()) return kDone;
    std::fprintf(stderr, "trainyard: %s: an emulated rank does not fit in the memory of %s\n", options.study.c_str(),
                 emulation.study_device.c_str());
    return kCannotRun;
  });
}

CLI::App* add_train(CLI::App& app, TrainOptions& options) {
  CLI::App* command = app.add_subcommand("train", "train the study's model with its plan");
  command->add_option("STUDY", options.study, "the study, a YAML file")->required();
  command->add_option("--set", options.sets, "path=value: replaces a value of the study; repeatable")
      ->take_all()->allow_extra_args(false);
  command->add_option("--ranks", options.ranks, "processes to start; sets cluster.ranks");
  command->add_option("--device", options.device, "cpu or cuda; must be what training.kernels says");
  command->add_option("--steps", options.steps, "the run's total; sets training.steps");
  CLI::Option* resume = command->add_flag("--resume", options.resume, "go on from the last checkpoint in --out");
  CLI::Option* from = command->add_option_function<std::int64_t>(
      "--resume-from", [&options](std::int64_t step) { options.resume = true, options.resume_from = step; },
      "go on from the checkpoint of this step; later ones are kept under other names");
  from->type_name("STEP");
  command->add_flag("--overwrite", options.overwrite, "begin again in a folder that holds a run")
      ->excludes(resume)->excludes(from);
  command->add_option("--out", options.out, "folder of the run; default runs/<study name>");
  command->add_option("--weights", options.weights,
                      "weights to start from: a checkpoint's folder, or a folder or file as Hugging Face saves them");
  command->add_flag("--json", options.json, "answer as JSON on stdout");
  return command;
}

CLI::App* add_emulate(CLI::App& app, EmulateOptions& options) {
  CLI::App* command = app.add_subcommand("emulate", "run ranks of the study's plan alone on this machine, and simulate them among their peers");
  command->add_option("STUDY", options.study, "the study, a YAML file")->required();
  command->add_option("--rank", options.ranks, "which; several run one after the other: 0,3 or repeated")
      ->required()->delimiter(',');
  command->add_option("--set", options.sets, "path=value: replaces a value of the study; repeatable")
      ->take_all()->allow_extra_args(false);
  command->add_option("--device", options.device, "cpu or cuda; default: the study's, where this machine has it, else cpu")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--profile", options.profile,
                      "hardware profile of the device that emulates: of predicted times; default: "
                      "the study's, or that of this CPU");
  command->add_option("--steps", options.steps, "recorded steps, after one to warm up; default: 3 to 20, about two seconds")
      ->check(CLI::Range(1, 1000));
  command->add_option("--threads", options.threads, "cores that the rank has; default: all, of a local cluster its share")
      ->check(CLI::Range(1, 1024));
  command->add_option("--out", options.out, "folder for summary.json, trace.json, program.txt, study.resolved.yaml");
  command->add_flag("--json", options.json, "answer as JSON on stdout");
  return command;
}

/// "" where the text is a number of minutes that calibrate may take. CLI11's ranges let nan pass.
std::string minutes_problem(const std::string& text) {
  const auto minutes = parse_number(text);
  if (minutes && *minutes >= 0.2 && *minutes <= 1440) return "";
  return "expected 0.2 to 1440 minutes, got " + trainyard::quoted(text);
}

CLI::App* add_measure(CLI::App& app, MeasureOptions& options) {
  CLI::App* command = app.add_subcommand("calibrate", "time this machine's kernels and links, and write its profile");
  command->add_option("--device", options.device, "cpu or cuda: whose kernels are timed")->required()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--minutes", options.minutes, "how long it may take (default 10)")
      ->check(minutes_problem);
  command->add_option("--out", options.out, "the profile to write, a .yaml file (default calibrated.yaml); its curves go into a page beside it");
  command->add_flag("--json", options.json, "answer as JSON on stdout");
  command->add_option("--set-seconds", options.set_seconds)->group("");  // of the processes that it starts
  command->add_option("--stat", options.stat)
      ->group("");  // of tests: figures of load, as /proc/stat has them
  return command;
}

int run(int argc, char** argv) {
  TrainOptions training;
  EmulateOptions emulation;
  MeasureOptions measured;
  CLI::App app{"Trainyard: trains a study for real, or a rank of it, or times this machine"};
  app.require_subcommand(1);
  int exit = kDone;
  add_train(app, training)->callback([&] { exit = train(training, argc, argv); });
  add_emulate(app, emulation)->callback([&] { exit = emulate_ranks(emulation); });
  add_measure(app, measured)->callback([&] { exit = measure(measured, argc, argv); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    const bool json = training.json || emulation.json || measured.json;
    return fail(kWrongInput, error.what(), {training.study.empty() ? emulation.study : training.study, json});
  }
  return exit;
}

}  // namespace

}  // namespace trainyard

int main(int argc, char** argv) {
  trainyard::end_with_supervisor();
  // Started without `trainyard`, by torchrun say: begins again, since libgomp has read its limit already. Where that
  // fails its threads spin longer, no more.
  if (trainyard::limit_spinning()) execv("/proc/self/exe", argv);
  // A file that may not grow is an error of the write, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  // Nor is a peer that has gone: the store's server writes to sockets as libuv does, which leaves this to programs.
  std::signal(SIGPIPE, SIG_IGN);
  const int exit = trainyard::run(argc, argv);
  std::fflush(nullptr);
  // Threads of a process group whose peers are gone may never end; nothing is left to be saved.
  std::_Exit(exit);
}
