// What every command has in common: help, version, exit codes, an answer that reaches its reader or
// is none, and names that a terminal shows without obeying.
#include "cli/command_line.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/commands.h"
#include "tests/support/child_process.h"
#include "tests/support/obeyed_characters.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::command_line_test {

namespace {

namespace fs = std::filesystem;

struct Answer {
  int exit = 0;
  std::string out, err;
};

Answer run(const ScratchFolder& folder, std::vector<std::string> words,
           const std::string& out = "") {
  words.insert(words.begin(), TRAINYARD);
  ChildProcess process(folder, words, out.empty() ? folder / "stdout" : out);
  const int exit = process.end();
  return {exit, out.empty() ? read_text(folder / "stdout") : "", process.err()};
}

const std::string kStudy =
    "model: {family: gpt, layers: 2, hidden: 64, heads: 2, vocab: 100, seq_len: 32}\n"
    "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {tensor: 2}\ntraining: {global_batch: "
    "8}\n";

const std::vector<std::string> kCommands = {"simulate",  "compile",  "sweep", "train",
                                            "emulate",   "validate", "solve", "export",
                                            "calibrate", "list",     "report"};

/// No character that a terminal acts upon, but the end of a line.
bool is_plain(const std::string& text) {
  const std::vector<std::string> obeyed = obeyed_characters();
  return std::none_of(obeyed.begin(), obeyed.end(), [&](const std::string& one) {
    return one != "\n" && text.find(one) != std::string::npos;
  });
}

}  // namespace

TEST_CASE(
    "a validation that could predict nothing ends as its cases do, and says where they stand") {
  const ScratchFolder folder;
  const auto validate = [&](const std::string& changes) {
    write_text(
        folder / "cases.yaml",
        "- id: one\n  source: mine\n  framework: megatron-lm\n"
        "  model: {family: gpt, layers: 4, hidden: 256, heads: 4, vocab: 100, seq_len: 128}\n"
        "  cluster: {preset: dgx-a100-80g, nodes: 1}\n" +
            changes + "  measured: {iteration_time_s: 0.02}\n");
    return run(folder, {"validate", folder / "cases.yaml"});
  };
  const std::string training = "  training: {global_batch: 32, microbatch: 1}\n";
  CHECK(validate(training).exit == 0);
  // A key that no study has: the input's fault.
  const Answer typo = validate("  training: {global_batch: 32, microbach: 1}\n");
  CHECK(typo.exit == 2);
  CHECK_THAT(typo.out, Catch::Contains("cases.yaml:6:32: [0].training.microbach: unknown key"));
  CHECK_THAT(typo.out, !Catch::Contains("worst cases"));
  // More replicas than sequences: the plan's.
  const Answer plan = validate(training + "  partition: {cuts: [2], replicas: [1, 7]}\n");
  CHECK(plan.exit == 4);
}

TEST_CASE(
    "help, of everything and of each command, is answered here, and says how the program is "
    "called") {
  const ScratchFolder folder;
  const Answer all = run(folder, {"--help"});
  CHECK(all.exit == 0);
  CHECK_THAT(all.out, Catch::Contains("Usage: trainyard "));
  CHECK(run(folder, {"help"}).out == all.out);
  for (const std::string& command : kCommands) {
    CAPTURE(command);
    CHECK_THAT(all.out, Catch::Contains("\n  " + command + " "));
    const Answer one = run(folder, {"help", command});
    CHECK(one.exit == 0);
    CHECK(one.out == run(folder, {command, "--help"}).out);
    CHECK_THAT(one.out, !Catch::Contains("build/"));
    if (command != "solve") CHECK_THAT(one.out, Catch::Contains("Usage: trainyard " + command));
  }
  CHECK_THAT(run(folder, {"help", "solve", "d-hondt"}).out, Catch::Contains("devices"));
  CHECK_THAT(run(folder, {"calibrate", "--device", "cpu", "--help"}).out,
             Catch::Contains("--minutes"));
  CHECK(run(folder, {"help", "nonsense"}).exit == kWrongInput);
  CHECK_THAT(run(folder, {"--version"}).out, Catch::StartsWith("trainyard 0."));
}

TEST_CASE("the words of a command end as argv does, however many they are") {
  // execv() reads until it meets a null.
  const std::vector<std::vector<const char*>> commands = {
      {"trainyard"}, {"trainyard", "train"}, {"trainyard", "help"}};
  for (const std::vector<const char*>& command : commands) {
    std::vector<const char*> argv = command;
    for (int more = 0; more < 20; ++more, argv.push_back("word")) {
      const int argc = static_cast<int>(argv.size());
      argv.push_back(nullptr);
      const std::vector<const char*> words = command_words(argc, argv.data());
      argv.pop_back();
      CAPTURE(command.back(), argc);
      REQUIRE(words.size() == argv.size() + 1);  // `help` becomes --help
      CHECK(words.back() == nullptr);
      CHECK(std::find(words.begin(), words.end(), nullptr) == words.end() - 1);
    }
  }
  const char* const help[] = {"trainyard", "help", "train", nullptr};
  const std::vector<const char*> words = command_words(3, help);
  CHECK(std::vector<std::string>(words.begin(), words.end() - 1) ==
        std::vector<std::string>{"trainyard", "train", "--help"});
}

TEST_CASE("a simulation's folder is told from a run that ended early") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kStudy);
  const std::string out = folder / "out";
  REQUIRE(run(folder, {"simulate", folder / "study.yaml", "--out", out}).exit == 0);
  const Answer answer = run(folder, {"validate", "--run", out});
  CHECK(answer.exit == 2);
  CHECK(answer.err == "trainyard: --run " + out + ": holds no run of trainyard train: it has no " +
                          out + "/losses.csv\n");
}

TEST_CASE("option --fidelity beside its key is refused, as a short word beside its key is") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kStudy + "sweep: {parallel.tensor: [1, 2]}\n");
  write_text(folder / "cases.yaml", "[]\n");
  for (const std::string command : {"simulate", "sweep", "validate"}) {
    CAPTURE(command);
    const std::string file = folder / (command == "validate" ? "cases.yaml" : "study.yaml");
    const Answer answer =
        run(folder, {command, file, "--set", "fidelity=analytic", "--fidelity", "fluid"});
    CHECK(answer.exit == 2);
    CHECK(answer.err ==
          "trainyard: --fidelity: stands for --set fidelity=fluid, and --set fidelity=analytic "
          "says it, too; leave one of them out\n");
  }
}

TEST_CASE("what is not there is not listed") {
  const ScratchFolder folder;
  const Answer plan = run(folder, {"plan", "study.yaml"});
  CHECK(plan.exit == kWrongInput);
  CHECK_THAT(plan.err, Catch::Contains("no command is called 'plan'; there are "));
  CHECK_THAT(plan.err, !Catch::Contains("plan,"));
  CHECK_THAT(run(folder, {"simulat", "study.yaml"}).err,
             Catch::Contains("'simulat' (did you mean simulate?); there are help, simulate, "));
  CHECK_THAT(run(folder, {"list", "schedule"}).err,
             Catch::Contains("list knows nothing called 'schedule' (did you mean schedules?); it "
                             "has models, "));
  CHECK_THAT(run(folder, {"--help"}).out, !Catch::Contains("\n  plan"));
}

TEST_CASE("commands that need LibTorch say what is wrong with their options without it") {
  const ScratchFolder folder;
  for (const std::string command : {"train", "emulate"}) {
    const Answer none = run(folder, {command});
    CHECK(none.exit == kWrongInput);
    CHECK_THAT(none.err, Catch::Contains("required"));
    CHECK(run(folder, {command, "study.yaml", "--no-such-option"}).exit == kWrongInput);
  }
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"train", "study.yaml"}, {"emulate", "study.yaml", "--rank", "0"}, {"calibrate"}}) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {"--device", "gpu"});
    const Answer gpu = run(folder, words);
    CAPTURE(command.front(), gpu.err);
    CHECK(gpu.exit == kWrongInput);
    CHECK_THAT(gpu.err, Catch::Contains("--device: expected cpu or cuda (a GPU), got 'gpu'"));
  }
}

TEST_CASE("an answer that does not reach its reader is exit 3, of every command") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kStudy);
  write_text(folder / "sweep.yaml", kStudy + "sweep: {parallel.tensor: [1, 2]}\n");
  write_text(folder / "cases.yaml",
             "- {id: a, source: s, model: gpt2, cluster: {preset: dgx-a100-80g, nodes: 1}, "
             "training: {global_batch: 8}, measured: {iteration_time_s: 1}}\n");
  write_text(folder / "problem.yaml", "problem: d-hondt\ndevices: 4\ncosts: [1, 2]\n");
  REQUIRE(run(folder, {"simulate", folder / "study.yaml", "--out", folder / "out"}).exit == 0);
  const std::vector<std::vector<std::string>> commands = {
      {"simulate", folder / "study.yaml"},
      {"simulate", folder / "study.yaml", "--json"},
      {"compile", folder / "study.yaml"},
      {"compile", folder / "study.yaml", "--json"},
      {"sweep", folder / "sweep.yaml"},
      {"sweep", folder / "sweep.yaml", "--json"},
      {"validate", folder / "cases.yaml"},
      {"validate", folder / "cases.yaml", "--json"},
      {"solve", folder / "problem.yaml"},
      {"solve", folder / "problem.yaml", "--json"},
      {"report", folder / "out"},
      {"list"},
      {"--help"},
      {"train", "--help"},
      {"--version"}};
  for (const std::vector<std::string>& words : commands) {
    CAPTURE(words);
    const Answer full = run(folder, words, "/dev/full");
    CHECK(full.exit == kBackendFailed);
    CHECK_THAT(full.err, Catch::Contains("cannot write the answer to stdout"));
    // What prints as it goes finds out at its end, when the system's reason is no more to be had.
    const bool as_it_goes = words[0] == "compile" || words[0] == "report" || words[0] == "list";
    if (!as_it_goes) CHECK_THAT(full.err, Catch::Contains("stdout: No space left on device"));
  }
}

TEST_CASE("a plan that has no Program is exit 4 at the key to blame") {
  const ScratchFolder folder;
  const std::string study = folder / "study.yaml";
  // 2 x 64 stages x 70,000 microbatches are more than 2^23 actions.
  write_text(study,
             "model: {family: gpt, layers: 64, hidden: 64, heads: 2, vocab: 100, seq_len: 32}\n"
             "cluster: {preset: dgx-a100-80g, nodes: 8}\nparallel: {pipeline: 64, data: 1}\n"
             "training: {global_batch: 70000, microbatch: 1}\n");
  for (const std::string command : {"simulate", "compile"}) {
    CAPTURE(command);
    const Answer answer = run(folder, {command, study, "--json"});
    CHECK(answer.exit == kCannotRun);
    CHECK_THAT(answer.err, Catch::Contains(study + ":4:26: training.global_batch: the plan cannot "
                                                   "run: 64 stages x 70000 microbatches"));
    CHECK(nlohmann::json::parse(answer.out)["error"]["where"] == study + ":4:26");
  }
}

TEST_CASE("names are shown, not obeyed") {
  const ScratchFolder folder;
  // A colour, a bell, a new line, C1's CSI, and a mark that turns what follows around.
  const std::string evil =
      "x\x1b[31m\a\nfits\xc2\x9b"
      "2J\xe2\x80\xaey";
  const std::string in_yaml = "\"x\\e[31m\\a\\nfits\\x9b2J\\u202ey\"";
  write_text(folder / "named.yaml",
             "model: {family: gpt, name: " + in_yaml +
                 ", layers: 2, hidden: 64, heads: 2, vocab: 100, seq_len: 32}\n"
                 "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {tensor: 2}\ntraining: "
                 "{global_batch: 8}\n");
  write_text(folder / evil, kStudy + in_yaml + ": 1\n");
  write_text(folder / ("sweep" + evil), kStudy + "sweep: {model: [{family: gpt, name: " + in_yaml +
                                            ", layers: 2, hidden: 64, heads: 2, "
                                            "vocab: 100, seq_len: 32}]}\n");
  write_text(folder / "cases.yaml",
             "- {id: " + in_yaml + ", source: " + in_yaml +
                 ", model: gpt2, cluster: {preset: dgx-a100-80g, nodes: 1}, "
                 "training: {global_batch: 8}, measured: {iteration_time_s: 1}}\n");
  fs::create_directory(folder / ("out" + evil));
  const std::vector<std::vector<std::string>> commands = {
      {"simulate", folder / "named.yaml"},
      {"simulate", folder / evil},
      {"simulate", folder / ("no" + evil)},
      {"simulate", folder / "named.yaml", "--set", evil + "=1"},
      {"simulate", folder / "named.yaml", "--set", "cluster.preset=" + evil},
      {"simulate", folder / "named.yaml", "--set", "parallel.pipeline=3"},
      {"compile", folder / "named.yaml", "--out", folder / ("file" + evil)},
      {"sweep", folder / ("sweep" + evil)},
      {"validate", folder / "cases.yaml"},
      {"solve", folder / evil},
      {"list", evil},
      {"report", folder / ("out" + evil)},
      {evil},
      {"help", evil},
      {"simulate", "--" + evil}};
  for (const std::vector<std::string>& words : commands) {
    CAPTURE(words[0], words.size());
    const Answer answer = run(folder, words);
    CAPTURE(answer.out, answer.err);
    CHECK(is_plain(answer.out));
    CHECK(is_plain(answer.err));
    // Nothing begins a line of its own.
    CHECK(answer.out.find("\nfits") == std::string::npos);
    CHECK(answer.err.find("\nfits") == std::string::npos);
  }
}

TEST_CASE("names in JSON are written out and read back as they are") {
  const ScratchFolder folder;
  std::string evil = "x";
  for (const std::string& one : obeyed_characters()) evil += one;
  const std::string study = folder / evil,
                    in_yaml = nlohmann::json(evil).dump(-1, ' ', true);  // which YAML reads, too
  write_text(study, kStudy);
  write_text(folder / "cases.yaml",
             "- {id: " + in_yaml +
                 ", source: s, model: gpt2, cluster: {preset: dgx-a100-80g, nodes: 1}, "
                 "training: {global_batch: 8}, measured: {iteration_time_s: 1}}\n");
  write_text(folder / "swept.yaml", kStudy + "sweep: {model: [{family: gpt, name: " + in_yaml +
                                        ", layers: 2, hidden: 64, heads: 2, "
                                        "vocab: 100, seq_len: 32}]}\n");
  const auto json = [&](const std::vector<std::string>& words) {
    CAPTURE(words[0]);
    const std::string out = run(folder, words).out;
    CHECK(is_plain(out));
    return nlohmann::json::parse(out);
  };
  CHECK(json({"simulate", study, "--json"})["study"] == study);
  CHECK(json({"compile", study, "--set", "parallel.tensor=3", "--json"})["error"]["exit"] ==
        kWrongInput);
  CHECK(json({"sweep", study, "--json"})["error"]["where"] == study);  // it has no sweep
  CHECK(json({"sweep", folder / "swept.yaml", "--json"})["points"].size() == 1);
  CHECK(json({"validate", folder / "cases.yaml", "--json"})["cases"][0]["id"] == evil);
}

TEST_CASE("names of presets and profiles lead nowhere") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kStudy);
  fs::copy_file(TRAINYARD_SOURCE_DIR "/topologies/dgx-a100-80g.yaml", folder / "mine.yaml");
  fs::create_directory(folder / "studies");
  fs::rename(folder / "study.yaml", folder / "studies/study.yaml");
  for (const std::string path : {"../mine", "./mine", "mine/..", "/etc/passwd"}) {
    for (const std::string key :
         {"cluster.preset", "model.preset", "framework.name", "framework", "cluster.intra.kind"}) {
      CAPTURE(key, path);
      const Answer answer =
          run(folder, {"simulate", folder / "studies/study.yaml", "--set", key + "=" + path});
      CHECK(answer.exit == kWrongInput);
      CHECK_THAT(answer.err, Catch::Contains(key.substr(0, key.find('.'))));
      CHECK_THAT(answer.err, !Catch::Contains("cannot open") && !Catch::Contains("No such file"));
    }
  }
  const Answer preset =
      run(folder, {"simulate", folder / "studies/study.yaml", "--set", "cluster.preset=../mine"});
  CHECK_THAT(
      preset.err,
      Catch::Contains(
          "study.yaml:2:19: cluster.preset: the name of a preset takes no path, got '../mine'"));
}

TEST_CASE("an option with an empty word is refused, not taken for one that was left out") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kStudy);
  const std::vector<std::vector<std::string>> commands = {
      {"simulate", folder / "study.yaml", "--fidelity", ""},
      {"compile", folder / "study.yaml", "--out", ""},
      {"train", folder / "study.yaml", "--device", ""},
      {"validate", "--run", ""},
      {"calibrate", "--fit", ""},
      {"calibrate", "--device", ""}};
  for (const std::vector<std::string>& words : commands) {
    const std::string& option = words[words.size() - 2];
    CAPTURE(words.front(), option);
    const Answer answer = run(folder, words);
    CHECK(answer.exit == 2);
    CHECK(answer.out.empty());
    CHECK(answer.err == "trainyard: " + option +
                            ": expected a value, got an empty word; leave the option out for its "
                            "default\n");
  }
}

}  // namespace trainyard::command_line_test
