// --out DIR: what another command, another study or somebody else has there stays, one command at a
// time writes there, and the files come together or not at all.
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "app/commands.h"
#include "system/folder_lock.h"
#include "system/written_by.h"
#include "tests/support/child_process.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::output_folder_test {

namespace {

namespace fs = std::filesystem;

const std::string kStudy =
    "model: {family: gpt, layers: 2, hidden: 64, heads: 2, vocab: 100, seq_len: 32}\n"
    "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {tensor: 2}\ntraining: {global_batch: "
    "8}\n"
    "fidelity: analytic\n";

struct Outcome {
  int exit = 0;
  std::string err;
};

Outcome run(const ScratchFolder& folder, std::vector<std::string> words) {
  words.insert(words.begin(), TRAINYARD);
  ChildProcess process(folder, words);
  const int exit = process.end();
  return {exit, process.err()};
}

/// Names and contents.
std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      out[entry.path().lexically_relative(folder).string()] = read_text(entry.path());
  }
  return out;
}

}  // namespace

TEST_CASE(
    "the same command of the same study replaces what it wrote, wherever it is started from") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kStudy);
  const std::string out = folder / "out";
  REQUIRE(run(folder, {"simulate", folder / "study.yaml", "--out", out}).exit == 0);
  const std::string first = read_text(out + "/program.txt");
  REQUIRE(run(folder, {"simulate", folder.path() + "/./study.yaml", "--out", out, "--set",
                       "parallel.tensor=1"})
              .exit == 0);
  CHECK(read_text(out + "/program.txt") != first);
  const auto by = read_written_by(out);
  REQUIRE(by);
  CHECK(by->command == "simulate");
  CHECK(by->input == "../study.yaml");
  CHECK(run(folder, {"report", out}).exit == 0);
  CHECK(run(folder, {"simulate", folder / "study.yaml", "--out", out}).exit == 0);
}

TEST_CASE("methods side by side are an answer of their own: replaced by it, and by no other") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kStudy);
  const std::string out = folder / "out";
  const auto simulate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"simulate", folder / "study.yaml", "--out", out};
    words.insert(words.end(), more.begin(), more.end());
    return run(folder, words);
  };
  REQUIRE(simulate({"--compare-tensor-methods"}).exit == 0);
  CHECK(simulate({"--compare-tensor-methods"}).exit == 0);
  const auto compared = contents(out);
  CHECK(compared.count("tensor_methods.json") == 1);
  const Outcome plain = simulate({});
  CHECK(plain.exit == 2);
  CHECK_THAT(plain.err, Catch::Contains("holds what trainyard simulate --compare-tensor-methods "
                                        "wrote of '../study.yaml'; name another folder, or say "
                                        "--overwrite"));
  CHECK(contents(out) == compared);
  REQUIRE(simulate({"--overwrite"}).exit == 0);
  const auto simulated = contents(out);
  CHECK(simulated.count("tensor_methods.json") == 0);
  CHECK(simulated.count("summary.json") == 1);
  CHECK(simulate({"--compare-tensor-methods"}).exit == 2);
  CHECK(contents(out) == simulated);
  REQUIRE(simulate({"--compare-tensor-methods", "--overwrite"}).exit == 0);
  CHECK(contents(out) == compared);
  CHECK(simulate({"--compare-tensor-methods"}).exit == 0);
}

TEST_CASE(
    "another command, another study and what trainyard did not write are refused, and stay as they "
    "are") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kStudy);
  write_text(folder / "other.yaml", kStudy);
  write_text(folder / "sweep.yaml", kStudy + "sweep: {parallel.tensor: [1, 2]}\n");
  const std::string out = folder / "out";
  REQUIRE(run(folder, {"simulate", folder / "study.yaml", "--out", out}).exit == 0);
  const auto before = contents(out);
  const std::vector<std::vector<std::string>> others = {{"simulate", folder / "other.yaml"},
                                                        {"compile", folder / "study.yaml"},
                                                        {"sweep", folder / "sweep.yaml"}};
  for (std::vector<std::string> words : others) {
    CAPTURE(words[0]);
    words.insert(words.end(), {"--out", out});
    const Outcome refused = run(folder, words);
    CHECK(refused.exit == kWrongInput);
    CHECK_THAT(refused.err,
               Catch::Contains("holds what trainyard simulate wrote of '../study.yaml'") &&
                   Catch::Contains("--overwrite"));
    CHECK(contents(out) == before);
  }
  write_text(out + "/notes.txt", "mine");
  const Outcome foreign = run(folder, {"simulate", folder / "study.yaml", "--out", out});
  CHECK(foreign.exit == kWrongInput);
  CHECK_THAT(foreign.err, Catch::Contains("'notes.txt', which trainyard simulate did not write"));
  // Files that are called as ours are, and say nothing of who wrote them.
  fs::create_directory(folder / "model");
  write_text(folder / "model/summary.json", "{}");
  CHECK(run(folder, {"simulate", folder / "study.yaml", "--out", folder / "model"}).exit ==
        kWrongInput);
  CHECK(read_text(folder / "model/summary.json") == "{}");
}

TEST_CASE(
    "option --overwrite removes what trainyard wrote, and neither what it did not nor "
    "checkpoints") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kStudy);
  const std::string out = folder / "out";
  REQUIRE(run(folder, {"compile", folder / "study.yaml", "--out", out}).exit == 0);
  write_text(out + "/notes.txt", "mine");
  write_text(out + "/config.json", "a model's");  // as export calls one of its files
  REQUIRE(run(folder, {"simulate", folder / "study.yaml", "--out", out, "--overwrite"}).exit == 0);
  CHECK_FALSE(fs::exists(out + "/schedule.csv"));
  CHECK(fs::exists(out + "/summary.json"));
  CHECK(read_text(out + "/notes.txt") == "mine");
  CHECK(read_text(out + "/config.json") == "a model's");
  fs::create_directories(out + "/checkpoints/step-00000001");
  write_text(out + "/checkpoints/step-00000001/index.json", "{}");
  const auto before = contents(out);
  const Outcome refused =
      run(folder, {"simulate", folder / "study.yaml", "--out", out, "--overwrite"});
  CHECK(refused.exit == kWrongInput);
  CHECK_THAT(refused.err, Catch::Contains("only train --overwrite removes"));
  CHECK(contents(out) == before);
}

TEST_CASE("sweeps, validations and fits know their folders too") {
  const ScratchFolder folder;
  write_text(folder / "sweep.yaml", kStudy + "sweep: {parallel.tensor: [1, 2]}\n");
  write_text(folder / "cases.yaml",
             "- {id: a, source: s, " +
                 std::string("model: gpt2, cluster: {preset: dgx-a100-80g, nodes: 1}, "
                             "training: {global_batch: 8}, measured: {iteration_time_s: 1}}\n"));
  const std::vector<std::vector<std::string>> commands = {{"sweep", folder / "sweep.yaml"},
                                                          {"validate", folder / "cases.yaml"}};
  for (std::size_t i = 0; i < commands.size(); ++i) {
    std::vector<std::string> words = commands[i];
    CAPTURE(words[0]);
    const std::string out = folder / ("out" + std::to_string(i));
    words.insert(words.end(), {"--out", out});
    const Outcome once = run(folder, words);
    CAPTURE(once.err);
    REQUIRE(once.exit == 0);
    CHECK(run(folder, words).exit == 0);
    write_text(folder / "copy.yaml", read_text(words[1]));
    words[1] = folder / "copy.yaml";
    CHECK(run(folder, words).exit == kWrongInput);
    words.emplace_back("--overwrite");
    CHECK(run(folder, words).exit == 0);
  }
}

TEST_CASE(
    "a folder in which a command writes is refused by another, with who it is; readers do not "
    "care") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kStudy);
  const std::string out = folder / "out";
  REQUIRE(run(folder, {"simulate", folder / "study.yaml", "--out", out}).exit == 0);
  const auto before = contents(out);
  {
    const FolderLock held(out);
    const Outcome refused =
        run(folder, {"simulate", folder / "study.yaml", "--out", out, "--overwrite"});
    CHECK(refused.exit == kWrongInput);
    CAPTURE(refused.err);
    CHECK_THAT(refused.err, Catch::Contains("process " + std::to_string(getpid()) + " (") &&
                                Catch::Contains("is writing in this folder"));
    CHECK(contents(out) == before);
    CHECK(run(folder, {"report", out}).exit == 0);
  }
  CHECK(run(folder, {"simulate", folder / "study.yaml", "--out", out}).exit == 0);
}

TEST_CASE("a lock is held as long as a process lives that was started under it") {
  const ScratchFolder folder;
  int over[2], who[2];
  REQUIRE(pipe(over) == 0);
  REQUIRE(pipe(who) == 0);
  const pid_t launcher = fork();
  if (launcher == 0) {  // takes the lock, starts a rank, and dies
    new FolderLock(folder.path());
    const pid_t rank = fork();
    if (rank == 0) {
      char byte = 0;
      close(over[1]);
      _exit(read(over[0], &byte, 1) == 0 ? 0 : 1);
    }
    _exit(write(who[1], &rank, sizeof rank) == sizeof rank ? 0 : 1);
  }
  waitpid(launcher, nullptr, 0);
  pid_t rank = -1;
  REQUIRE(read(who[0], &rank, sizeof rank) == sizeof rank);
  const auto refusal = [&] { return error_of([&] { FolderLock(folder.path()); }); };
  CHECK_THAT(refusal(), Catch::Contains("process " + std::to_string(rank) + " ("));
  close(over[0]);
  close(over[1]);
  CHECK(wait_until([&] { return refusal() == "none"; }));
}

TEST_CASE("what a command that died left there goes; one that is refused leaves no folder") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kStudy);
  const std::string out = folder / "out";
  REQUIRE(run(folder, {"simulate", folder / "study.yaml", "--out", out}).exit == 0);
  write_text(out + "/program.txt.part4711", "half");
  write_text(out + "/program.txt.part-of-mine", "mine");
  CHECK(run(folder, {"simulate", folder / "study.yaml", "--out", out}).exit == kWrongInput);
  CHECK_FALSE(fs::exists(out + "/program.txt.part4711"));
  CHECK(fs::exists(out + "/program.txt.part-of-mine"));
  CHECK(run(folder, {"simulate", folder / "study.yaml", "--set", "parallel.tensor=3", "--out",
                     folder / "a/b"})
            .exit == kWrongInput);
  CHECK_FALSE(fs::exists(folder / "a"));
}

TEST_CASE("a file in place of the folder, or on the way to it, is wrong input, and stays") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kStudy);
  write_text(folder / "file", "mine");
  for (const char* out : {"file", "file/a/b"}) {
    for (const char* command : {"simulate", "compile"}) {
      const Outcome refused = run(folder, {command, folder / "study.yaml", "--out", folder / out});
      CHECK(refused.exit == kWrongInput);
      CHECK_THAT(refused.err, Catch::Contains("--out " + (folder / out) + ": '" +
                                              (folder / "file") + "' is a file; name a folder"));
    }
  }
  CHECK(read_text(folder / "file") == "mine");
}

TEST_CASE("a disk that fills up leaves the files of the run before, all of them") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kStudy);
  const std::string out = folder / "out";
  REQUIRE(run(folder, {"simulate", folder / "study.yaml", "--out", out}).exit == 0);
  const auto before = contents(out);
  // Stands for a full disk: study.resolved.yaml is smaller than 8 KiB, what comes after it is not.
  const std::string command = "ulimit -f 16; trap '' XFSZ; exec " TRAINYARD " simulate " +
                              (folder / "study.yaml") + " --out " + out;
  ChildProcess process(folder, {"/bin/sh", "-c", command});
  CHECK(process.end() == kBackendFailed);
  CHECK_THAT(process.err(),
             Catch::Contains("cannot write " + out) && Catch::Contains("File too large"));
  CHECK(contents(out) == before);
}

TEST_CASE("calibrate replaces no file that it has not written") {
  const ScratchFolder folder;
  write_text(folder / "table.csv",
             "m,k,n,us\n1024,1024,1024,10\n2048,1024,1024,20\n4096,1024,1024,40\n");
  write_text(folder / "mine.yaml", "a: study\n");
  const std::vector<std::string> words = {"calibrate", "--kernels",    folder / "table.csv",
                                          "--like",    "h100-sxm-80g", "--out"};
  const auto with = [&](const std::string& out) {
    std::vector<std::string> all = words;
    all.push_back(folder / out);
    return run(folder, all);
  };
  const Outcome refused = with("mine.yaml");
  CHECK(refused.exit == kWrongInput);
  CHECK_THAT(refused.err, Catch::Contains("trainyard calibrate did not write it"));
  CHECK(read_text(folder / "mine.yaml") == "a: study\n");
  const Outcome first = with("new.yaml");
  CAPTURE(first.err);
  CHECK(first.exit == 0);
  CHECK(with("new.yaml").exit == 0);
}

}  // namespace trainyard::output_folder_test
