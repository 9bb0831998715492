// trainyard-real: the commands that need LibTorch. `trainyard train`, `emulate` and `calibrate
// --device` run it; it is a program of its own because LibTorch takes longer to load than a
// simulation takes.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/real_options.h"
#include "engine/base/error.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "real/command/calibrate_command.h"
#include "real/command/emulation.h"
#include "real/command/run_folder.h"
#include "real/command/training_run.h"
#include "real/exec/retained_memory.h"
#include "real/launch/failure.h"
#include "real/launch/local_launcher.h"
#include "real/launch/rank_environment.h"
#include "real/launch/rank_threads.h"
#include "real/torch.h"
#include "system/exit_code.h"
#include "system/interrupt.h"
#include "system/terminal.h"
#include "system/waiting_threads.h"

namespace trainyard {

namespace {

/// What a command was asked to do, as far as messages say it.
struct Asked {
  std::string study;
  bool json = false;
};

/// One message per run: the supervisor prints that of the rank that failed first.
int fail(int exit, const std::string& message, const Asked& asked,
         const std::optional<RankEnvironment>& environment = {}) {
  const bool supervised = environment && environment->launcher == kOwnLauncher;
  if (supervised) report_rank_error(*environment, {exit, message});
  if (!supervised) {
    const std::string rank = environment ? "rank " + std::to_string(environment->rank) + ": " : "";
    say(rank + message);
  }
  if (asked.json && !environment) print_error_answer(exit, message, asked.study);
  return exit;
}

/// Runs a command; what it throws becomes its exit.
int guarded(const Asked& asked, const std::optional<RankEnvironment>& environment,
            const std::function<int()>& command) {
  try {
    return command();
  } catch (const ConfigError& error) {
    if (!environment) return report_error(error, asked.study, asked.json);
    return fail(kWrongInput, error.what(), asked, environment);
  } catch (const std::exception&) {
    const Failure failure = current_failure();
    return fail(failure.exit, failure.message, asked, environment);
  }
}

/// The end of a rank that another launcher has started, or our own.
int end_of_rank(const RankEnd& end, const RankEnvironment& environment) {
  if (end.signal == 0 || environment.launcher == kOwnLauncher) return kDone;
  if (environment.rank != 0) return 128 + end.signal;
  keeps(end.kept);
  return ended_by_signal(end.signal);
}

int run_training(const TrainOptions& options, const RankEnvironment& environment) {
  // One rank's lock serves all: the others come to the folder after they have met this one.
  std::optional<RunFolder> folder;
  const bool prepares = environment.launcher != kOwnLauncher && environment.rank == 0;
  if (prepares) folder.emplace(options);
  const TrainingPlan plan = plan_training(options);
  if (environment.world_size != plan.num_ranks) {
    throw ConfigError(options.study + ": the plan has " + std::to_string(plan.num_ranks) +
                      " ranks, " + environment.launcher + " started " +
                      std::to_string(environment.world_size));
  }
  if (prepares) {
    check_inputs(plan, options);
    folder->prepare(plan, options);
  }
  keeps(environment.rank == 0 ? kept_of(plan) : "");
  retain_cpu_memory();
  at::set_num_threads(threads_per_rank(environment));
  return end_of_rank(run_rank(plan, options, environment), environment);
}

int start_training(const TrainOptions& options, std::vector<std::string> arguments) {
  RunFolder folder(options);
  const TrainingPlan plan = plan_training(options);
  print_warnings(plan.prepared.study.warnings);
  check_devices(plan);
  check_inputs(plan, options);
  folder.prepare(plan, options);
  keeps(kept_of(plan));
  const RunEnd end = run_local_ranks(std::move(arguments), plan.num_ranks);
  if (end.exit != kDone) folder.remove_drafts();
  if (end.signal != 0) {
    keeps(end.kept.empty() ? kept_of(plan) : end.kept);
    return ended_by_signal(end.signal);
  }
  if (options.json && !end.message.empty())
    print_error_answer(end.exit, end.message, options.study);
  return end.exit;
}

/// Runs a command that may be one rank of several, whose environment it gets; what it throws
/// becomes its exit.
int guarded_rank(const Asked& asked,
                 const std::function<int(const std::optional<RankEnvironment>&)>& command) {
  std::optional<RankEnvironment> environment;
  const int exit = guarded(asked, std::nullopt, [&] {
    environment = read_rank_environment(environment_variable);
    return kDone;
  });
  if (exit != kDone) return exit;
  return guarded(asked, environment, [&] { return command(environment); });
}

int train(const TrainOptions& options, int argc, char** argv) {
  return guarded_rank({options.study, options.json},
                      [&](const std::optional<RankEnvironment>& environment) {
                        if (!environment) return start_training(options, {argv, argv + argc});
                        return run_training(options, *environment);
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
    if (options.json)
      print_answer(emulation_json(emulation));
    else
      print_text(emulation_text(emulation));
    if (emulation.fits()) return kDone;
    say(options.study + ": an emulated rank does not fit in the memory of " +
        emulation.study_device);
    return kCannotRun;
  });
}

int run(int argc, char** argv) {
  TrainOptions training;
  EmulateOptions emulation;
  MeasureOptions measured;
  CLI::App app{"Trainyard: trains a study for real, or a rank of it, or times this machine",
               "trainyard"};
  app.require_subcommand(1);
  int exit = kDone;
  CLI::App* command = app.add_subcommand("train", "train the study's model with its plan");
  add_train_options(*command, training);
  command->callback([&] { exit = train(training, argc, argv); });
  command = app.add_subcommand(
      "emulate",
      "run ranks of the study's plan alone on this machine, and simulate them among their peers");
  add_emulate_options(*command, emulation);
  command->callback([&] { exit = emulate_ranks(emulation); });
  command = app.add_subcommand("calibrate",
                               "time this machine's kernels and links, and write its profile");
  add_measure_options(*command, measured);
  command->callback([&] { exit = measure(measured, argc, argv); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    const bool json = training.json || emulation.json || measured.json;
    return fail(kWrongInput, error.what(),
                {training.study.empty() ? emulation.study : training.study, json});
  }
  return exit;
}

}  // namespace

}  // namespace trainyard

int main(int argc, char** argv) {
  trainyard::end_with_supervisor();
  // Started without `trainyard`, by torchrun say: begins again, since libgomp has read its limit
  // already. Where that fails its threads spin longer, no more.
  if (trainyard::limit_spinning()) execv("/proc/self/exe", argv);
  // A file that may not grow is an error of the write, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  // Nor is a peer that has gone: the store's server writes to sockets as libuv does, which leaves
  // this to programs.
  std::signal(SIGPIPE, SIG_IGN);
  // The ranks of our own launcher are its to end.
  if (!trainyard::is_started_by_supervisor()) trainyard::end_on_signals();
  const int exit = trainyard::with_answer_out(trainyard::run(argc, argv));
  std::fflush(nullptr);
  // Threads of a process group whose peers are gone may never end; nothing is left to be saved.
  std::_Exit(exit);
}
