// A training run that a signal ends: all ranks stop after the same step, with a checkpoint of it,
// whoever got the signal. And two runs for one folder, and answers that do not reach their reader.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "real/checkpoint/checkpoint.h"
#include "tests/real/run/training_folder.h"
#include "tests/support/child_process.h"

namespace trainyard::interrupt_test {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> words_of(const TrainingFolder& folder, const std::string& arguments) {
  std::vector<std::string> words;
  std::istringstream in(folder.command(arguments));
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::size_t steps_in(const std::string& run) {
  const std::string text = read_text(run + "/losses.csv");
  return static_cast<std::size_t>(
      std::max<std::ptrdiff_t>(std::count(text.begin(), text.end(), '\n') - 1, 0));
}

std::size_t num_drafts(const std::string& run) {
  std::size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".tmp") || name.find(".part") != std::string::npos) ++count;
  }
  return count;
}

std::size_t num_lines_with(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

/// The run's one checkpoint is that of its last step, complete, and nothing else is left.
std::size_t check_checkpoint(const std::string& run) {
  const auto latest = latest_complete(run + "/checkpoints");
  REQUIRE(latest.has_value());
  const auto step =
      static_cast<std::size_t>(Checkpoint::open(*latest, Verify::kChecksums).info().step);
  CHECK(steps_in(run) == step);
  CHECK(num_drafts(run) == 0);
  return step;
}

/// And a resumed run goes on as one that was never interrupted.
void check_goes_on(const TrainingFolder& folder, const std::string& plan, const std::string& run) {
  const std::size_t step = check_checkpoint(run);
  const std::string more = " --steps " + std::to_string(step + 2);
  const Answer resumed = folder.train(plan + more + " --resume --out " + run);
  CAPTURE(resumed.err);
  REQUIRE(resumed.exit == 0);
  REQUIRE(
      folder.train(plan + more + " --set checkpoint.every=1000000 --out " + run + "-whole").exit ==
      0);
  const auto column = [](const std::string& text) {  // losses and norms, without the times
    std::string out;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      const std::size_t a = line.find(',', line.find(',') + 1), b = line.rfind(',');
      out += line.substr(0, a) + line.substr(b) + "\n";
    }
    return out;
  };
  CHECK(column(read_text(run + "/losses.csv")) == column(read_text(run + "-whole/losses.csv")));
}

const std::string kEndless = " --steps 1000000 --set checkpoint.every=1000000";

}  // namespace

TEST_CASE(
    "a run stops after the same step on all ranks, with a checkpoint, whoever hears the signal") {
  struct Case {
    std::string plan;
    int signal;
    bool group;
  };
  for (const Case& one :
       {Case{"--ranks 1", SIGINT, false}, Case{"--ranks 1", SIGINT, true},
        Case{"--ranks 4 --set parallel.tensor=2 --set parallel.pipeline=2", SIGINT, true},
        Case{"--ranks 4 --set parallel.data=2 --set parallel.pipeline=2", SIGTERM, false}}) {
    CAPTURE(one.plan, one.signal, one.group);
    const ScratchFolder scratch;
    const TrainingFolder folder;
    const std::string run = folder.path("run");
    ChildProcess process(scratch, words_of(folder, one.plan + kEndless + " --json --out " + run),
                         scratch / "answer");
    REQUIRE(wait_until([&] { return steps_in(run) >= 3 || process.has_ended(); }));
    one.group ? process.send_to_group(one.signal) : process.send(one.signal);
    CHECK(process.end() == 128 + one.signal);
    CAPTURE(process.err());
    CHECK(num_lines_with(process.err(), "trainyard: ") == 1);
    CHECK_THAT(process.err(),
               Catch::Contains(std::string("interrupted (") +
                               (one.signal == SIGINT ? "SIGINT" : "SIGTERM") + "); " + run +
                               "/checkpoints/step-") &&
                   Catch::Contains(" is kept; the same command with --resume goes on from it\n"));
    CHECK(read_text(scratch / "answer").empty());
    if (one.group)
      check_goes_on(folder, one.plan, run);
    else
      check_checkpoint(run);
  }
}

TEST_CASE("under another launcher one rank's signal stops all") {
  const ScratchFolder scratch;
  const TrainingFolder folder;
  const std::string run = folder.path("run"), plan = "--set cluster.ranks=2 --set parallel.data=2";
  const std::string variables =
      "WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(20005 + getpid() % 12000) +
      " ";
  const auto rank = [&](int number) {
    return std::vector<std::string>{"/bin/sh", "-c",
                                    "exec env RANK=" + std::to_string(number) + " " + variables +
                                        folder.command(plan + kEndless + " --out " + run)};
  };
  ChildProcess zero(scratch, rank(0)), one(scratch, rank(1));
  REQUIRE(wait_until([&] { return steps_in(run) >= 3 || zero.has_ended() || one.has_ended(); }));
  one.send(SIGTERM);
  CHECK(one.end() == 143);
  CHECK(zero.end() == 143);
  CAPTURE(zero.err(), one.err());
  CHECK_THAT(zero.err(), Catch::Contains("interrupted (SIGTERM); " + run + "/checkpoints/step-"));
  check_goes_on(folder, plan, run);
}

TEST_CASE("a run that has not begun ends at once, and so does one that is told twice") {
  const ScratchFolder scratch;
  const TrainingFolder folder;
  {
    const std::string run = folder.path("early");
    ChildProcess process(
        scratch, words_of(folder, "--ranks 2 --set parallel.data=2" + kEndless + " --out " + run));
    // Its ranks are being loaded.
    REQUIRE(wait_until([&] { return fs::exists(run + "/program.txt") || process.has_ended(); }));
    process.send_to_group(SIGINT);
    CHECK(process.end() == 130);
    CHECK_THAT(process.err(), Catch::Contains("interrupted (SIGINT); "));
    CHECK(num_lines_with(process.err(), "trainyard: ") == 1);
  }
  const std::string run = folder.path("run");
  // A rank that is stopped keeps the others from coming to the end of their step.
  ChildProcess process(
      scratch, words_of(folder, "--ranks 2 --set parallel.data=2" + kEndless + " --out " + run));
  REQUIRE(wait_until([&] { return steps_in(run) >= 2 || process.has_ended(); }));
  std::ifstream file("/proc/" + std::to_string(process.id()) + "/task/" +
                     std::to_string(process.id()) + "/children");
  pid_t rank = 0;
  REQUIRE(file >> rank);
  REQUIRE(kill(rank, SIGSTOP) == 0);
  fs::create_directories(run + "/checkpoints/.tmp-step-00000003");
  process.send(SIGINT);
  process.send(SIGTERM);
  CHECK((process.end() == 130 || process.end() == 143));
  CHECK(kill(rank, 0) != 0);
  CHECK(num_drafts(run) == 0);
}

TEST_CASE("drafts of a run that died go when the next one starts") {
  const TrainingFolder folder;
  const std::string run = folder.path("run");
  REQUIRE(folder.train("--steps 2 --out " + run).exit == 0);
  fs::create_directories(run + "/checkpoints/.tmp-step-00000003");
  write_text(run + "/checkpoints/.tmp-step-00000003/rank-00000.safetensors", "half");
  write_text(run + "/trace.json.part99999999", "half");
  // Nothing is left to do, and no checkpoint to write.
  REQUIRE(folder.train("--steps 2 --resume --out " + run).exit == 0);
  CHECK(num_drafts(run) == 0);
}

TEST_CASE("a folder has one run at a time, and keeps what is not that run's") {
  const ScratchFolder scratch;
  const TrainingFolder folder;
  const std::string run = folder.path("run"), plan = "--ranks 2 --set parallel.data=2";
  ChildProcess process(scratch, words_of(folder, plan + kEndless + " --out " + run));
  REQUIRE(wait_until([&] { return steps_in(run) >= 2 || process.has_ended(); }));
  for (const std::string option : {" --overwrite", " --resume", ""}) {
    const Answer second = folder.train(plan + " --steps 2 --out " + run + option);
    CAPTURE(option, second.err);
    CHECK(second.exit == 2);
    CHECK_THAT(second.err, Catch::Contains("process " + std::to_string(process.id()) + " (") &&
                               Catch::Contains("is writing in this folder"));
  }
  const std::size_t steps = steps_in(run);
  REQUIRE(wait_until([&] { return steps_in(run) > steps || process.has_ended(); }));
  process.send(SIGTERM);
  CHECK(process.end() == 143);
  // Another command in this folder.
  const std::string losses = read_text(run + "/losses.csv");
  for (const std::string option : {"", " --overwrite"}) {
    const Answer simulated = folder.shell(std::string(TRAINYARD) + " simulate " +
                                          folder.path("study.yaml") + " --out " + run + option);
    CAPTURE(simulated.err);
    CHECK(simulated.exit == 2);
  }
  CHECK(read_text(run + "/losses.csv") == losses);
  CHECK(latest_complete(run + "/checkpoints").has_value());
  write_text(run + "/notes.txt", "mine");
  write_text(run + "/checkpoints/notes.txt", "mine");
  REQUIRE(folder.train("--steps 1 --overwrite --out " + run).exit == 0);
  CHECK(steps_in(run) == 1);
  CHECK(read_text(run + "/notes.txt") == "mine");
  CHECK(read_text(run + "/checkpoints/notes.txt") == "mine");
  CHECK(fs::path(*latest_complete(run + "/checkpoints")).filename() == "step-00000001");
  fs::create_directory(folder.path("other"));
  write_text(folder.path("other") + "/notes.txt", "mine");
  CHECK(folder.train("--steps 1 --out " + folder.path("other")).exit == 2);
}

TEST_CASE("an answer that does not reach its reader is exit 3") {
  const TrainingFolder folder;
  const auto full = [&](const std::string& command) {
    const Answer answer = folder.shell("{ " + command + " > /dev/full; }");
    CAPTURE(command, answer.err);
    CHECK(answer.exit == 3);
    CHECK_THAT(answer.err,
               Catch::Contains("cannot write the answer to stdout: No space left on device"));
  };
  full(folder.command("--steps 1 --out " + folder.path("a")));
  full(folder.command("--steps 1 --json --out " + folder.path("b")));
  full(
      folder.command("--steps 1 --json --ranks 2 --set parallel.data=2 --out " + folder.path("c")));
  const std::string emulate =
      std::string(TRAINYARD_REAL) + " emulate " + folder.path("study.yaml") + " --rank 0 --steps 1";
  full(emulate);
  full(emulate + " --json");
  full(std::string(TRAINYARD_REAL) + " train --help");
}

}  // namespace trainyard::interrupt_test
