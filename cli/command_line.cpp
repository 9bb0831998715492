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
#include <sstream>
#include <string_view>
#include <utility>

#include "app/commands.h"
#include "app/real_options.h"
#include "cli/command_options.h"
#include "cli/completion.h"
#include "engine/base/beside_program.h"
#include "engine/base/error.h"
#include "engine/base/near_names.h"
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
  } catch (const PlanError& error) {
    return report_error(kCannotRun, error.what(), to_string(error.where()), options.json);
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

/// Whether calibrate is asked to measure this machine.
bool measures(int argc, const char* const* argv) {
  return std::any_of(argv, argv + argc, [](std::string_view word) {
    return word == "--device" || word.starts_with("--device=") || word == "--pairs";
  });
}

/// --fidelity is the short word of a key, and a word beside its key is refused, as in a study.
void refuse_fidelity_twice(const std::vector<std::string>& sets, const std::string& fidelity) {
  const auto also = std::find_if(sets.begin(), sets.end(), [](const std::string& set) {
    return set.starts_with("fidelity=");
  });
  if (fidelity.empty() || also == sets.end()) return;
  throw ConfigError("--fidelity: stands for --set fidelity=" + printable(fidelity) +
                    ", and --set " + printable(*also) + " says it, too; leave one of them out");
}

int checked_validate(const ValidateOptions& options) {
  refuse_fidelity_twice(options.sets, options.fidelity);
  if (!options.run.empty()) {
    if (!options.cases.empty())
      throw ConfigError("CASES and --run: a list of published runs, or a run of ours, not both");
    if (!options.selections.empty())
      throw ConfigError("--select: chooses among cases; --run has none");
    if (options.sensitivity)
      throw ConfigError("--sensitivity: of the numbers that cases were fitted to; --run has none");
    return run_validate_run(options);
  }
  if (options.cases.empty())
    throw ConfigError(
        "CASES or --run is required: a YAML list of published runs, or the folder of a run");
  return run_validate(options);
}

/// The commands and what they are asked; each runs as soon as its words are read.
class CommandLine {
 public:
  CommandLine(int argc, const char* const* argv) : argc_(argc), argv_(argv) {
    options_.begin = std::chrono::steady_clock::now();
    app_.require_subcommand(1);
    app_.set_version_flag("--version", "trainyard " TRAINYARD_VERSION);
    app_.footer("./trainyard test builds and runs all tests.");
    app_.add_subcommand("help", "what a command takes: help COMMAND");
    add_simulate();
    add_compile();
    add_sweep();
    add_list();
    add_report();
    add_export();
    add_train();
    add_emulate();
    add_validate();
    add_solve();
    add_calibrate();
    add_completion();
  }

  int run();

 private:
  CLI::App* add(const std::string& name, const std::string& help) {
    return app_.add_subcommand(name, help);
  }
  /// Runs what a command throws into an exit code.
  void on(CLI::App* command, std::function<int()> action) {
    command->callback([this, action = std::move(action)] { exit_ = guarded(options_, action); });
  }
  void add_simulate();
  void add_compile();
  void add_sweep();
  void add_list();
  void add_report();
  void add_export();
  void add_train();
  void add_emulate();
  void add_validate();
  void add_solve();
  void add_calibrate();
  void add_completion();
  std::string option_without_word() const;
  int refuse_unknown(const std::vector<CLI::App*>& commands, bool json) const;

  int argc_;
  const char* const* argv_;
  CLI::App app_{"Trainyard: what a training step of a parallel plan costs, from one YAML",
                "trainyard"};
  StudyOptions options_;
  ExportOptions exported_;
  TrainOptions training_;
  EmulateOptions emulation_;
  ValidateOptions validated_;
  SolveOptions solved_;
  CalibrateOptions calibrated_;
  MeasureOptions measured_;
  std::string topic_, folder_, shell_;
  int exit_ = kDone;
};

void CommandLine::add_simulate() {
  CLI::App* command = add("simulate", "time one training step of a study");
  add_study_options(*command, options_);
  command->add_option(
      "--fidelity", options_.fidelity,
      "analytic: closed forms; fluid: messages share links; step: every message of a collective");
  command->add_flag("--no-fold", options_.no_fold, "simulate every rank, not one of each kind");
  command
      ->add_option("--trace-ranks", options_.trace_ranks,
                   "with --no-fold: more ranks for trace.json")
      ->delimiter(',');
  command->add_flag("--no-reuse", options_.no_reuse,
                    "time every call op by op, and every message in SimGrid");
  command->add_flag("--compare-tensor-methods", options_.compare_methods,
                    "under each method of tensor parallelism, side by side");
  on(command, [this] {
    refuse_fidelity_twice(options_.sets, options_.fidelity);
    return options_.compare_methods ? run_compare_methods(options_) : run_simulate(options_);
  });
}

void CommandLine::add_compile() {
  CLI::App* command =
      add("compile",
          "the partition, the schedule, memory, the program text and its digest; runs nothing");
  add_study_options(*command, options_);
  command->add_flag("--full", options_.full, "all lines of every list, the whole program text too");
  command->add_flag("--verify", options_.verify,
                    "verify what every pass makes in full, not the Program alone");
  on(command, [this] { return run_compile(options_); });
}

void CommandLine::add_sweep() {
  CLI::App* command =
      add("sweep", "every combination of the study's sweep block: a table, CSV, JSON, plots");
  add_study_options(*command, options_);
  command->add_option("--fidelity", options_.fidelity,
                      "of all points: analytic (unless the study says other), fluid, step");
  command->add_option("--jobs", options_.jobs, "processes; default one per core")
      ->check(CLI::Range(1, 4096));
  on(command, [this] {
    refuse_fidelity_twice(options_.sets, options_.fidelity);
    return run_sweep(options_);
  });
}

void CommandLine::add_list() {
  CLI::App* command = add("list", "what names mean: models, clusters, profiles, ...");
  std::string topics;
  for (const std::string& topic : list_topics()) topics += (topics.empty() ? "" : ", ") + topic;
  command->add_option("WHAT", topic_, topics);
  on(command, [this] { return run_list(topic_); });
}

void CommandLine::add_report() {
  CLI::App* command =
      add("report", "make report.html of a run or a sweep again, from the files in its folder");
  command->add_option("DIR", folder_, "folder that simulate --out, train or sweep --out wrote")
      ->required();
  on(command, [this] { return run_report(folder_); });
}

void CommandLine::add_export() {
  CLI::App* command = add("export", "a run's weights as Hugging Face's transformers loads them");
  command->add_option("RUN", exported_.run, "folder of a training run")->required();
  command->add_option("--out", exported_.out, "folder for config.json and model.safetensors")
      ->required();
  command->add_option("--precision", exported_.precision, "fp32, fp16 or bf16");
  command->add_flag("--overwrite", exported_.overwrite, kOverwriteHelp);
  on(command, [this] { return run_export(exported_); });
}

void CommandLine::add_train() {
  CLI::App* command = add("train", "train the study's model for real, with its plan");
  add_train_options(*command, training_);
  command->callback([this] { exit_ = run_real(argv_); });
}

void CommandLine::add_emulate() {
  CLI::App* command =
      add("emulate",
          "run ranks of the study's plan alone on this machine, and simulate them among their "
          "peers");
  add_emulate_options(*command, emulation_);
  command->callback([this] { exit_ = run_real(argv_); });
}

void CommandLine::add_validate() {
  CLI::App* command = add("validate", "published runs: predicted, measured, error");
  add_validate_options(*command, validated_);
  command->callback([this] {
    options_.study = validated_.run.empty() ? validated_.cases : validated_.run;
    options_.json = validated_.json;
    exit_ = guarded(options_, [&] { return checked_validate(validated_); });
  });
}

void CommandLine::add_solve() {
  CLI::App* command =
      add("solve", "one algorithm on a problem written by hand (trainyard solve --help)");
  command->set_help_flag();
  command->add_option("PROBLEM", solved_.problem, "the problem, a YAML file");
  command->add_flag("--json", solved_.json, "answer as JSON on stdout");
  CLI::Option* topic =
      command->add_option("-h,--help", solved_.topic, "a problem's keys and an example")
          ->expected(0, 1);
  command->callback([this, topic] {
    solved_.help = topic->count() > 0;
    options_.json = solved_.json;
    exit_ = guarded(options_, [&] { return run_solve(solved_); });
  });
}

void CommandLine::add_calibrate() {
  CLI::App* command =
      add("calibrate",
          "measure this machine (--device cpu or cuda, --pairs; calibrate --device cpu --help), or "
          "fit software profiles to published runs (--fit)");
  const bool here =
      argc_ > 1 && std::string_view(argv_[1]) == "calibrate" && measures(argc_, argv_);
  if (here)
    add_measure_options(*command, measured_);
  else
    add_calibrate_options(*command, calibrated_);
  command->callback([this, here] {
    options_.study = calibrated_.fit;
    options_.json = calibrated_.json;
    exit_ = here ? run_real(argv_) : guarded(options_, [&] { return run_calibrate(calibrated_); });
  });
}

void CommandLine::add_completion() {
  CLI::App* command =
      add("completion", "a script that completes words in a shell: completion bash");
  command->add_option("SHELL", shell_, "bash")->required()->check(CLI::IsMember({"bash"}));
  on(command, [this] {
    print_text(bash_completion(app_));
    return kDone;
  });
}

/// The first option that gets an empty word, as from an unset variable of a script; "": none does.
/// CLI11 takes such an option for one that was left out.
std::string CommandLine::option_without_word() const {
  for (const CLI::App* command : app_.get_subcommands([](const CLI::App*) { return true; })) {
    for (int i = 2; i + 1 < argc_ && command->get_name() == argv_[1]; ++i) {
      const std::string_view word = argv_[i], next = argv_[i + 1];
      const CLI::Option* option = command->get_option_no_throw(argv_[i]);
      const bool takes = option != nullptr && option->get_items_expected_max() > 0;
      if (next.empty() && word.starts_with('-') && takes) return argv_[i];
    }
  }
  return "";
}

int CommandLine::refuse_unknown(const std::vector<CLI::App*>& commands, bool json) const {
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  names.emplace_back("test");
  return report_error(kWrongInput,
                      "no command is called " + in_quotes(argv_[1]) +
                          did_you_mean(argv_[1], names) + "; there are " + join_words(names),
                      "", json);
}

int CommandLine::run() {
  const std::vector<CLI::App*> commands = app_.get_subcommands([](CLI::App*) { return true; });
  const bool known = argc_ < 2 || argv_[1][0] == '-' ||
                     std::any_of(commands.begin(), commands.end(), [&](const CLI::App* command) {
                       return command->get_name() == argv_[1];
                     });
  // Parsing may have failed before it saw the option.
  const bool json = std::any_of(
      argv_, argv_ + argc_, [](const char* word) { return std::string_view(word) == "--json"; });
  if (!known) return refuse_unknown(commands, json);
  if (const std::string option = option_without_word(); !option.empty()) {
    return report_error(kWrongInput,
                        option +
                            ": expected a value, got an empty word; leave the option out for its "
                            "default",
                        "", json);
  }
  try {
    app_.parse(argc_, argv_);
  } catch (const CLI::Success& help) {  // --help, --version
    std::ostringstream text;
    app_.exit(help, text, text);
    return guarded(options_, [&] {
      print_text(text.str());
      return kDone;
    });
  } catch (const CLI::ParseError& error) {
    return report_error(kWrongInput, error.what(), "", json);
  }
  return exit_;
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
  return with_answer_out(CommandLine(static_cast<int>(words.size()) - 1, words.data()).run());
}

}  // namespace trainyard
