// trainyard-real: the commands that need LibTorch. `trainyard train` runs it; it is a program of its own
// because LibTorch takes longer to load than a simulation takes.
#include <csignal>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "engine/base/error.h"
#include "real/calibrate/calibrate_command.h"
#include "real/exec/retained_memory.h"
#include "real/launch/local_launcher.h"
#include "real/launch/rank_environment.h"
#include "real/launch/rank_threads.h"
#include "real/torch.h"
#include "real/train/training_run.h"

namespace trainyard {

namespace {

/// One message per run: the supervisor prints that of the rank that failed first.
int fail(int exit, const std::string& message, const TrainOptions& options,
         const std::optional<RankEnvironment>& environment) {
  const bool supervised = environment && environment->launcher == kOwnLauncher;
  if (supervised) report_rank_error(*environment, exit, message);
  if (!supervised) {
    const std::string rank = environment ? "rank " + std::to_string(environment->rank) + ": " : "";
    std::fprintf(stderr, "trainyard: %s%s\n", rank.c_str(), message.c_str());
  }
  if (options.json && !environment) {
    const nlohmann::ordered_json error = {{"error", {{"exit", exit}, {"message", message}, {"where", options.study}}}};
    std::printf("%s\n", error.dump(2).c_str());
  }
  return exit;
}

int measure(const MeasureOptions& options, int argc, char** argv) {
  TrainOptions answer;  // how failures are said
  answer.json = options.json;
  std::optional<RankEnvironment> environment;
  try {
    environment = read_rank_environment(environment_variable);
    return run_measure(options, {argv, argv + argc});
  } catch (const ConfigError& error) {
    return fail(kWrongInput, error.what(), answer, environment);
  } catch (const BackendError& error) {
    return fail(kBackendFailed, error.what(), answer, environment);
  } catch (const c10::Error& error) {
    return fail(kBackendFailed, std::string("LibTorch: ") + error.what_without_backtrace(), answer, environment);
  } catch (const std::exception& error) {
    return fail(kBackendFailed, error.what(), answer, environment);
  }
}

void add_measure_options(CLI::App& command, MeasureOptions& options) {
  command.add_option("--device", options.device, "cpu or cuda: whose kernels are timed")->required()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command.add_option("--minutes", options.minutes, "how long it may take (default 10)")->check(CLI::Range(0.2, 1440.0));
  command.add_option("--out", options.out, "the profile to write, a .yaml file (default calibrated.yaml); its curves go into a page beside it");
  command.add_flag("--json", options.json, "answer as JSON on stdout");
  command.add_option("--set-seconds", options.set_seconds)->group("");  // of the processes that it starts
}

int train(const TrainOptions& options, int argc, char** argv) {
  std::optional<RankEnvironment> environment;
  try {
    environment = read_rank_environment(environment_variable);
    const TrainingPlan plan = plan_training(options);
    if (environment && environment->world_size != plan.num_ranks) {
      throw ConfigError(options.study + ": the plan has " + std::to_string(plan.num_ranks) + " ranks, " +
                        environment->launcher + " started " + std::to_string(environment->world_size));
    }
    if (!environment) {
      for (const std::string& warning : plan.prepared.study.warnings) {
        std::fprintf(stderr, "warning: %s\n", warning.c_str());
      }
      check_devices(plan);
      check_inputs(plan, options);
      prepare_folder(plan, options);
      return run_local_ranks({argv, argv + argc}, plan.num_ranks);
    }
    if (environment->launcher == kOwnLauncher) {
      // Nobody is left to run for when the supervisor has gone.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
    } else if (environment->rank == 0) {
      check_inputs(plan, options);
      prepare_folder(plan, options);
    }
    retain_cpu_memory();
    at::set_num_threads(threads_per_rank(*environment));
    run_rank(plan, options, *environment);
    return kDone;
  } catch (const ConfigError& error) {
    return fail(kWrongInput, error.what(), options, environment);
  } catch (const PlanError& error) {
    return fail(kCannotRun, error.what(), options, environment);
  } catch (const BackendError& error) {
    return fail(kBackendFailed, error.what(), options, environment);
  } catch (const c10::Error& error) {
    return fail(kBackendFailed, std::string("LibTorch: ") + error.what_without_backtrace(), options, environment);
  } catch (const std::exception& error) {
    return fail(kBackendFailed, error.what(), options, environment);
  }
}

int run(int argc, char** argv) {
  TrainOptions options;
  CLI::App app{"Trainyard: trains a study for real"};
  app.require_subcommand(1);
  CLI::App* command = app.add_subcommand("train", "train the study's model with its plan");
  command->add_option("STUDY", options.study, "the study, a YAML file")->required();
  command->add_option("--set", options.sets, "path=value: replaces a value of the study; repeatable")
      ->take_all()->allow_extra_args(false);
  command->add_option("--ranks", options.ranks, "processes to start; sets cluster.ranks");
  command->add_option("--device", options.device, "cpu or cuda; must be what training.kernels says");
  command->add_option("--steps", options.steps, "the run's total; sets training.steps");
  command->add_flag("--resume", options.resume, "go on from the last checkpoint in --out");
  command->add_flag("--overwrite", options.overwrite, "begin again in a folder that holds a run");
  command->add_option("--out", options.out, "folder of the run; default runs/<study name>");
  command->add_option("--weights", options.weights,
                      "weights to start from: a checkpoint's folder, or a folder or file as Hugging Face saves them");
  command->add_flag("--json", options.json, "answer as JSON on stdout");
  int exit = kDone;
  command->callback([&] { exit = train(options, argc, argv); });
  MeasureOptions measured;
  CLI::App* calibrate = app.add_subcommand("calibrate", "time this machine's kernels and links, and write its profile");
  add_measure_options(*calibrate, measured);
  calibrate->callback([&] { exit = measure(measured, argc, argv); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return fail(kWrongInput, error.what(), options, std::nullopt);
  }
  return exit;
}

}  // namespace

}  // namespace trainyard

int main(int argc, char** argv) {
  // A file that may not grow is an error of the write, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  // Nor is a peer that has gone: the store's server writes to sockets as libuv does, which leaves this to programs.
  std::signal(SIGPIPE, SIG_IGN);
  const int exit = trainyard::run(argc, argv);
  std::fflush(nullptr);
  // Threads of a process group whose peers are gone may never end; nothing is left to be saved.
  std::_Exit(exit);
}
