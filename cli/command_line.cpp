#include "cli/command_line.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <string_view>

#include "app/commands.h"
#include "app/real_options.h"
#include "engine/base/beside_program.h"
#include "engine/base/error.h"
#include "engine/base/user_text.h"
#include "system/interrupt.h"
#include "system/terminal.h"
#include "system/waiting_threads.h"

namespace trainyard {

namespace {

int guarded(const StudyOptions& options, const std::function<int()>& command) {
  try {
    return command();
  } catch (const ConfigError& error) {
    return report_error(error, to_string(error.where()), options.json);
  } catch (const BackendError& error) {
    return report_error(kBackendFailed, error.what(), "", options.json);
  } catch (const std::bad_alloc&) {
    return report_error(kBackendFailed,
                        "out of memory on this machine while answering " + options.study, "",
                        options.json);
  } catch (const std::exception& error) {
    return report_error(kBackendFailed, error.what(), "", options.json);
  }
}

/// Becomes the program that is linked with LibTorch, beside this one, under the same arguments.
int run_real(const char* const* argv) {
  // The launcher asks whether it has to install LibTorch: what does not come this far is answered
  // without it.
  if (const char* ask = std::getenv("TRAINYARD_ASK"); ask != nullptr && *ask != '\0')
    return kNeedsReal;
  const HeldSignals until_it_has_begun;
  const std::string real = beside_program("trainyard-real");
  limit_spinning();
  if (!real.empty()) execv(real.c_str(), const_cast<char* const*>(argv));
  const std::string what = real.empty() ? "no trainyard-real beside " + program_folder() +
                                              "/trainyard or in its lib/trainyard"
                                        : real + ": " + std::strerror(errno);
  return report_error(kBackendFailed,
                      what +
                          "; ./trainyard train, emulate and calibrate --device, in the sources, "
                          "install LibTorch and build "
                          "it, cmake --install then installs it too",
                      "", false);
}

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

bool names_device(int argc, const char* const* argv) {
  return std::any_of(argv, argv + argc, [](std::string_view word) {
    return word == "--device" || word.starts_with("--device=");
  });
}

int checked_validate(const ValidateOptions& options) {
  if (!options.run.empty()) {
    if (!options.cases.empty())
      throw ConfigError("CASES and --run: a list of published runs, or a run of ours, not both");
    if (!options.selections.empty())
      throw ConfigError("--select: chooses among cases; --run has none");
    return run_validate_run(options);
  }
  if (options.cases.empty())
    throw ConfigError(
        "CASES or --run is required: a YAML list of published runs, or the folder of a run");
  return run_validate(options);
}

int run_words(int argc, const char* const* argv) {
  StudyOptions options;
  options.begin = std::chrono::steady_clock::now();
  std::string what;
  int exit = kDone;

  CLI::App app{"Trainyard: what a training step of a parallel plan costs, from one YAML",
               "trainyard"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "trainyard " TRAINYARD_VERSION);
  app.footer("./trainyard test builds and runs all tests.");
  app.add_subcommand("help", "what a command takes: help COMMAND");
  CLI::App* simulate = app.add_subcommand("simulate", "time one training step of a study");
  add_study_options(*simulate, options);
  simulate->add_option(
      "--fidelity", options.fidelity,
      "analytic: closed forms; fluid: messages share links; step: every message of a collective");
  simulate->add_flag("--no-fold", options.no_fold, "simulate every rank, not one of each kind");
  simulate
      ->add_option("--trace-ranks", options.trace_ranks,
                   "with --no-fold: more ranks for trace.json")
      ->delimiter(',');
  simulate->add_flag("--no-reuse", options.no_reuse,
                     "time every call op by op, and every message in SimGrid");
  CLI::App* compile = app.add_subcommand(
      "compile",
      "the partition, the schedule, memory, the program text and its digest; runs nothing");
  add_study_options(*compile, options);
  compile->add_flag("--full", options.full, "all lines of every list, the whole program text too");
  compile->add_flag("--verify", options.verify,
                    "verify what every pass makes in full, not the Program alone");
  CLI::App* sweep = app.add_subcommand(
      "sweep", "every combination of the study's sweep block: a table, CSV, JSON, plots");
  add_study_options(*sweep, options);
  sweep->add_option("--fidelity", options.fidelity,
                    "of all points: analytic (unless the study says other), fluid, step");
  sweep->add_option("--jobs", options.jobs, "processes; default one per core")
      ->check(CLI::Range(1, 4096));
  CLI::App* list = app.add_subcommand("list", "what names mean: models, clusters, profiles, ...");
  list->add_option("WHAT", what,
                   "models, clusters, profiles, links, frameworks, schedules, partitioners, "
                   "tensor_overlap, recompute");

  std::string run;
  CLI::App* report = app.add_subcommand(
      "report", "make report.html of a run or a sweep again, from the files in its folder");
  report->add_option("DIR", run, "folder that simulate --out, train or sweep --out wrote")
      ->required();
  report->callback([&] { exit = guarded(options, [&] { return run_report(run); }); });

  ExportOptions exported;
  CLI::App* export_ =
      app.add_subcommand("export", "a run's weights as Hugging Face's transformers loads them");
  export_->add_option("RUN", exported.run, "folder of a training run")->required();
  export_->add_option("--out", exported.out, "folder for config.json and model.safetensors")
      ->required();
  export_->add_option("--precision", exported.precision, "fp32, fp16 or bf16");
  export_->add_flag("--overwrite", exported.overwrite, kOverwriteHelp);
  export_->callback([&] { exit = guarded(options, [&] { return run_export(exported); }); });

  TrainOptions training;
  CLI::App* train = app.add_subcommand("train", "train the study's model for real, with its plan");
  add_train_options(*train, training);
  train->callback([&exit, argv] { exit = run_real(argv); });
  EmulateOptions emulation;
  CLI::App* emulate = app.add_subcommand(
      "emulate",
      "run ranks of the study's plan alone on this machine, and simulate them among their peers");
  add_emulate_options(*emulate, emulation);
  emulate->callback([&exit, argv] { exit = run_real(argv); });

  ValidateOptions validated;
  CLI::App* validate = app.add_subcommand("validate", "published runs: predicted, measured, error");
  add_validate_options(*validate, validated);
  validate->callback([&] {
    options.study = validated.run.empty() ? validated.cases : validated.run;
    options.json = validated.json;
    exit = guarded(options, [&] { return checked_validate(validated); });
  });

  SolveOptions solved;
  CLI::App* solve = app.add_subcommand(
      "solve", "one algorithm on a problem written by hand (trainyard solve --help)");
  solve->set_help_flag();
  solve->add_option("PROBLEM", solved.problem, "the problem, a YAML file");
  solve->add_flag("--json", solved.json, "answer as JSON on stdout");
  CLI::Option* topic =
      solve->add_option("-h,--help", solved.topic, "a problem's keys and an example")
          ->expected(0, 1);
  solve->callback([&] {
    solved.help = topic->count() > 0;
    options.json = solved.json;
    exit = guarded(options, [&] { return run_solve(solved); });
  });

  CalibrateOptions calibrated;
  MeasureOptions measured;
  CLI::App* calibrate =
      app.add_subcommand("calibrate",
                         "measure this machine (--device cpu or cuda; calibrate --device cpu "
                         "--help), or fit software profiles to published runs (--fit)");
  const bool measures =
      argc > 1 && std::string_view(argv[1]) == "calibrate" && names_device(argc, argv);
  if (measures)
    add_measure_options(*calibrate, measured);
  else
    add_calibrate_options(*calibrate, calibrated);
  calibrate->callback([&, measures] {
    options.study = calibrated.fit;
    options.json = calibrated.json;
    exit = measures ? run_real(argv) : guarded(options, [&] { return run_calibrate(calibrated); });
  });

  const auto of_study = [&](CLI::App* command, int (*action)(const StudyOptions&)) {
    command->callback(
        [&exit, &options, action] { exit = guarded(options, [&] { return action(options); }); });
  };
  of_study(simulate, run_simulate);
  of_study(compile, run_compile);
  of_study(sweep, run_sweep);
  list->callback([&] { exit = guarded(options, [&] { return run_list(what); }); });

  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const bool known = argc < 2 || argv[1][0] == '-' ||
                     std::any_of(commands.begin(), commands.end(), [&](const CLI::App* command) {
                       return command->get_name() == argv[1];
                     });
  // Parsing may have failed before it saw the option.
  const bool json = std::any_of(
      argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  if (!known) {
    std::string names;
    for (const CLI::App* command : commands) names += command->get_name() + ", ";
    return report_error(
        kWrongInput,
        "no command is called " + quoted(argv[1]) + "; there are " + names + "and test", "", json);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {  // --help, --version
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return report_error(kWrongInput, error.what(), "", json);
  }
  return exit;
}

}  // namespace

std::vector<const char*> command_words(int argc, const char* const* argv) {
  std::vector<const char*> words(argv, argv + argc);
  if (argc > 1 && std::string_view(argv[1]) == "help") {
    words.erase(words.begin() + 1);
    words.insert(words.begin() + std::min<std::ptrdiff_t>(argc - 1, 2), "--help");
  }
  words.push_back(nullptr);
  return words;
}

int run_command_line(int argc, const char* const* argv) {
  const std::vector<const char*> words = command_words(argc, argv);
  return with_answer_out(run_words(static_cast<int>(words.size()) - 1, words.data()));
}

}  // namespace trainyard
