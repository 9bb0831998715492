// What a run may not change when it goes on from a checkpoint.
#include "real/checkpoint/run_record.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tests/study/study_fixture.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::run_record_test {

namespace {

using Sets = std::vector<std::string>;

const std::string kStudy =
    "model: {family: gpt, layers: 8, hidden: 32, heads: 4, vocab: 64, seq_len: 16}\n"
    "cluster: box\nparallel: {tensor: 2, pipeline: 4}\ntraining: {global_batch: 32}\n";

/// kStudy with `now` against the record of one with `was`: what is wrong, a line
/// each, else the warnings.
std::vector<std::string> difference(const Sets& was, const Sets& now) {
  const RunRecord record = run_record(read(kStudy, was));
  try {
    return check_same_run(read(kStudy, now), record, "runs/a/checkpoints/step-00000020");
  } catch (const ConfigError& error) {
    std::vector<std::string> lines = {error.what()};
    for (const Mistake& mistake : error.others()) lines.push_back(mistake.what);
    return lines;
  }
}

/// The key that is refused.
std::string key_of(const Sets& was, const Sets& now) {
  const RunRecord record = run_record(read(kStudy, was));
  try {
    check_same_run(read(kStudy, now), record, "step");
  } catch (const ConfigError& error) {
    CHECK(error.others().empty());
    return error.key_path();
  }
  return "none";
}

}  // namespace

TEST_CASE("what decides what a run computes may not change, and each key is named") {
  CHECK(key_of({}, {"model.heads=2"}) == "model.heads");
  CHECK(key_of({}, {"model.activation=relu"}) == "model.activation");
  CHECK(key_of({}, {"model.norm_eps=1e-2"}) == "model.norm_eps");
  CHECK(key_of({}, {"data.path=synthetic"}) == "data.path");
  CHECK(key_of({}, {"data.documents={lengths: 5}"}) == "data.documents");
  for (const std::string set : {"seed=2", "optimizer=sgd", "global_batch=64"}) {
    CAPTURE(set);
    CHECK(key_of({}, {"training." + set}) == "training." + set.substr(0, set.find('=')));
  }
  // Averages that no optimizer keeps are none that it had.
  CHECK(difference({"training.optimizer=sgd"}, {"training.optimizer=sgd", "training.eps=1e-7"})
            .empty());
}

TEST_CASE("the message has what the run was trained with and what to do") {
  const std::string checkpoint = "runs/a/checkpoints/step-00000020";
  const std::vector<std::string> lines =
      difference({}, {"model.activation=relu", "training.seed=2"});
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0],
             Catch::Contains("model.activation: got relu, but " + checkpoint +
                             " was trained with gelu; say that to go on, or begin a new run with "
                             "another --out"));
  CHECK_THAT(lines[1],
             Catch::Contains("training.seed: got 2, but " + checkpoint +
                             " was trained with 1; say that to go on, or begin a new run with "
                             "another --out, which --weights lets start from the weights of a "
                             "checkpoint"));
  CHECK_THAT(lines[0], Catch::Contains("--set model.activation=relu"));
}

TEST_CASE("the layout, the learning rate and the length of the run may change") {
  CHECK(difference({}, {"parallel={tensor: 1, pipeline: 2}", "training.lr=1e-5", "training.steps=7",
                        "training.microbatch=2", "recompute=full", "training.timeout_s=5",
                        "checkpoint.every=3"})
            .empty());
  CHECK(difference({"parallel.zero=1"}, {"training.bucket_elements=1000", "model.name=other"})
            .empty());
  // Types may, since a checkpoint has fp32 weights, and so may what steers an update. It is said.
  CHECK(difference({}, {"training.precision=fp16"}) ==
        Sets{"training.precision: the run had bf16 before, and goes on with fp16"});
  for (const std::string set :
       {"weight_decay=0.2", "clip_norm=2", "dropout=0.2", "betas=[0.8, 0.9]", "eps=1e-7"}) {
    CAPTURE(set);
    const std::vector<std::string> warnings = difference({}, {"training." + set});
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].starts_with("training." + set.substr(0, set.find('=')) + ": the run had "));
  }
}

TEST_CASE("what an earlier version did not record is not compared") {
  RunRecord record = run_record(read(kStudy));
  record.values.erase("model.activation");
  CHECK(check_same_run(read(kStudy, {"model.activation=relu"}), record, "step").empty());
}

TEST_CASE("a file of data is known by what is in it") {
  namespace fs = std::filesystem;
  const ScratchFolder folder;
  const std::string first = folder / "first.txt", second = folder / "second.txt";
  const auto path = [](const std::string& file) {
    return Sets{"data.path=" + file, "model.vocab=257"};  // bytes
  };
  const std::string text(200'000, 'x');
  write_text(first, text);
  write_text(second, text);
  CHECK(difference(path(first), path(second)).empty());  // moved
  write_text(second, text + "y");
  CHECK(key_of(path(first), path(second)) == "data.path");
  std::string other = text;
  other.back() = 'y';
  write_text(second, other);
  CHECK(key_of(path(first), path(second)) == "data.path");
  // Under the same name.
  const RunRecord record = run_record(read(kStudy, path(first)));
  write_text(first, other);
  CHECK_THROWS_WITH(
      check_same_run(read(kStudy, path(first)), record, "step"),
      Catch::Contains("data.path: " + first + " has changed since step was written; restore it"));
  // Megatron's pairs are named without their endings, folders hold many.
  fs::create_directory(folder / "samples");
  write_text(folder / "samples/a.npy", "1");
  CHECK(run_record(read(kStudy, path(folder / "samples"))).contents.size() == 1);
  write_text(folder / "tokens.bin", "1");
  CHECK(run_record(read(kStudy, path(folder / "tokens"))).contents.size() == 1);
  CHECK(run_record(read(kStudy, path(folder / "none"))).contents.empty());
}

}  // namespace trainyard::run_record_test
