// `trainyard train --resume`: under the same and another layout, from a damaged checkpoint, and
// where it fails.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "real/checkpoint/checkpoint.h"
#include "tests/real/checkpoint/checkpoint_fixture.h"
#include "tests/real/run/same_training.h"
#include "tests/real/run/training_folder.h"

namespace trainyard::resumed_training_test {

namespace fs = std::filesystem;

TEST_CASE("a run that is resumed goes on as if it had not stopped") {
  const TrainingFolder folder;
  const std::string plan = " --ranks 2 --set parallel.tensor=2";
  REQUIRE(folder.train("--steps 6 --out " + folder.path("whole") + plan).exit == 0);
  // The learning rate is constant, so that the number of steps changes nothing before they are
  // over.
  REQUIRE(folder.train("--steps 4 --out " + folder.path("parts") + plan).exit == 0);
  const Answer answer = folder.train("--steps 6 --resume --out " + folder.path("parts") + plan);
  CAPTURE(answer.err);
  REQUIRE(answer.exit == 0);
  const auto whole = folder.losses("whole"), parts = folder.losses("parts");
  REQUIRE(whole.size() == 6);
  CHECK(whole == parts);  // bit for bit, as far as nine digits tell
  // The weights are: same bytes in the files of both last checkpoints.
  for (const char* rank : {"rank-00000.safetensors", "rank-00001.safetensors"}) {
    const std::string file = std::string("/checkpoints/step-00000006/") + rank;
    CHECK(read_text(folder.path("whole") + file) == read_text(folder.path("parts") + file));
  }
  // The last two of the checkpoints after 2, 4 and 6 steps are kept.
  CHECK_FALSE(fs::exists(folder.path("whole") + "/checkpoints/step-00000002"));
  CHECK(fs::exists(folder.path("whole") + "/checkpoints/step-00000004/index.json"));
}

TEST_CASE(
    "a run that looks at its norms a step later has the losses of one that waits, resumed or not") {
  const TrainingFolder folder;
  const std::string plan =
      "--ranks 4 --set parallel.pipeline=4 --set training.lr.peak=0.01 --set "
      "schedule.method=zb-2p ";
  REQUIRE(folder.train(plan + "--steps 6 --set training.clip_norm=0 --out " + folder.path("free"))
              .exit == 0);
  std::vector<double> norms;
  for (const auto& row : folder.losses("free")) norms.push_back(row[1]);
  std::sort(norms.begin(), norms.end());
  const std::string clip = std::to_string((norms[2] + norms[3]) / 2);
  const std::string clipped = plan + "--set training.clip_norm=" + clip + " ";
  REQUIRE(folder.train(clipped + "--steps 6 --out " + folder.path("waits")).exit == 0);
  const std::string late = clipped + "--json --set schedule.post_validation=true ";
  const Answer whole = folder.train(late + "--steps 6 --out " + folder.path("whole"));
  CAPTURE(whole.err);
  REQUIRE(whole.exit == 0);
  REQUIRE(folder.train(late + "--steps 4 --out " + folder.path("parts")).exit == 0);
  REQUIRE(folder.train(late + "--steps 6 --resume --out " + folder.path("parts")).exit == 0);
  check_close(folder.losses("waits"), folder.losses("whole"));
  CHECK(folder.losses("whole") == folder.losses("parts"));
  check_same_checkpoint(folder.path("whole"), folder.path("parts"));
  // Steps 2, 4 and 6 are settled for their checkpoints; of the others those that were clipped make
  // the next one void.
  std::int64_t expected = 0;
  const auto rows = folder.losses("whole");
  for (const std::size_t step : {0, 2, 4}) expected += rows[step][1] > std::stod(clip) ? 1 : 0;
  CHECK(nlohmann::json::parse(whole.out).at("repeated_steps") == expected);
  CHECK(expected > 0);
}

TEST_CASE("a run goes on under another layout") {
  const TrainingFolder folder;
  REQUIRE(folder.train("--steps 10 --out " + folder.path("one")).exit == 0);
  const std::string out = " --out " + folder.path("many");
  const std::string by_parameter = " --set parallel.zero.stage=1 --set parallel.zero.by=parameter";
  REQUIRE(
      folder.train("--steps 2 --ranks 4 --set parallel.tensor=2 --set parallel.pipeline=2" + out)
          .exit == 0);
  REQUIRE(
      folder.train("--steps 4 --resume --ranks 4 --set parallel.data=4 --set parallel.zero=1" + out)
          .exit == 0);
  REQUIRE(folder.train("--steps 6 --resume --ranks 4 --set parallel.data=4" + by_parameter + out)
              .exit == 0);
  REQUIRE(folder.train("--steps 8 --resume --ranks 2 --set parallel.data=2" + by_parameter + out)
              .exit == 0);
  const Answer last = folder.train("--steps 10 --resume --ranks 4 --set parallel.tensor=4" + out);
  CAPTURE(last.err);
  REQUIRE(last.exit == 0);
  check_close(folder.losses("one"), folder.losses("many"));
}

TEST_CASE(
    "a run whose newest checkpoint is damaged says so, and goes back to the one before where it is "
    "told to") {
  const TrainingFolder folder;
  const std::string out = "--set checkpoint.keep=3 --out " + folder.path("run");
  REQUIRE(folder.train("--steps 6 " + out).exit == 0);
  const auto whole = folder.losses("run");
  const std::string shard =
      folder.path("run") + "/checkpoints/step-00000006/rank-00000.safetensors";
  std::string bytes = read_text(shard);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_text(shard, bytes);
  const Answer refused = folder.train("--steps 8 --resume " + out);
  CHECK(refused.exit == 2);
  CHECK(refused.err.find(shard + ": changed since it was written") != std::string::npos);
  CHECK(refused.err.find("step-00000004 before it is whole: --resume-from 4 goes on from there") !=
        std::string::npos);
  CHECK(folder.losses("run") == whole);

  // A draft is passed over by itself.
  std::filesystem::create_directory(folder.path("run") + "/checkpoints/.tmp-step-00000007");
  const Answer back = folder.train("--steps 8 --resume-from 4 " + out);
  CAPTURE(back.err);
  REQUIRE(back.exit == 0);
  CHECK(back.err.find("warning: checkpoint .tmp-step-00000007 was never completed; the run goes on "
                      "from step 4") != std::string::npos);
  CHECK(back.err.find("a later checkpoint is kept as aside-step-00000006") != std::string::npos);
  CHECK(back.err.find("resumed after step 4") != std::string::npos);
  const auto losses = folder.losses("run");
  REQUIRE(losses.size() == 8);
  CHECK(std::equal(whole.begin(), whole.end(), losses.begin()));
  CHECK(latest_complete(folder.path("run") + "/checkpoints") ==
        folder.path("run") + "/checkpoints/step-00000008");
  CHECK(folder.train("--steps 9 --resume-from 5 " + out).exit == 2);
  CHECK(folder.train("--steps 9 --resume-from 4 --overwrite " + out).exit == 2);
}

TEST_CASE("a resumed run that fails leaves what the run had in its folder") {
  const TrainingFolder folder;
  REQUIRE(folder.train("--out " + folder.path("run")).exit == 0);
  // An earlier version's, whose tensors alone say that the model is another.
  edit_index(folder.path("run") + "/checkpoints/step-00000004/index.json",
             [](nlohmann::json& index) { index["state"].erase("trained"); });
  CHECK(folder.train("--steps 6 --resume --out " + folder.path("run")).exit == 0);
  edit_index(folder.path("run") + "/checkpoints/step-00000006/index.json",
             [](nlohmann::json& index) { index["state"].erase("trained"); });
  const std::string plan = read_text(folder.path("run") + "/study.resolved.yaml");
  const std::string program = read_text(folder.path("run") + "/program.txt");
  const Answer other =
      folder.train("--set model.hidden=64 --steps 8 --resume --json --out " + folder.path("run"));
  CHECK(other.exit == 2);
  // It is in the answer, too.
  CHECK(nlohmann::json::parse(other.out).at("error").at("exit") == 2);
  CHECK_THAT(other.err,
             Catch::Contains("study.yaml:1:8: model: ") &&
                 Catch::Contains("of shape [64, 32] where the model has [64, 64]") &&
                 Catch::Contains("; say the model that it is of, or begin a new run with "
                                 "another --out"));
  // The checkpoint has all of fewer layers, and too few of more.
  for (const auto& [layers, problem] :
       {std::pair("2", " and 29 more, which the model has not; say as many layers as it has"),
        {"5", "step-00000006 lacks decoder.layers.4."}}) {
    const Answer refused = folder.train("--set model.layers=" + std::string(layers) +
                                        " --steps 8 --resume --out " + folder.path("run"));
    CAPTURE(refused.err);
    CHECK(refused.exit == 2);
    CHECK_THAT(refused.err,
               Catch::Contains("study.yaml:1:30: model.layers: ") && Catch::Contains(problem));
  }
  CHECK(read_text(folder.path("run") + "/study.resolved.yaml") == plan);
  CHECK(read_text(folder.path("run") + "/program.txt") == program);

  // Without its moments.
  CHECK(folder.train("--set training.optimizer=sgd --steps 8 --resume --out " + folder.path("run"))
            .exit == 0);
  edit_index(folder.path("run") + "/checkpoints/step-00000008/index.json",
             [](nlohmann::json& index) { index["state"].erase("trained"); });
  const Answer adam = folder.train("--steps 10 --resume --out " + folder.path("run"));
  CHECK(adam.exit == 2);
  CHECK_THAT(adam.err, Catch::Contains("study.yaml:3:11: training.optimizer: ") &&
                           Catch::Contains("; the run had another optimizer: say that"));
}

TEST_CASE("a run that has no step left to do keeps what it has") {
  const TrainingFolder folder;
  const std::string out = "--out " + folder.path("run");
  const std::string checkpoints = folder.path("run") + "/checkpoints/";
  REQUIRE(folder.train("--steps 6 " + out).exit == 0);
  const std::string losses = read_text(folder.path("run") + "/losses.csv");
  for (const std::string options :
       {"--steps 3 --resume-from 4 ", "--steps 4 --resume-from 4 ", "--steps 5 --resume "}) {
    CAPTURE(options);
    const Answer answer = folder.train(options + out);
    CAPTURE(answer.err);
    CHECK(answer.exit == 2);
    CHECK_THAT(answer.err,
               Catch::Contains("training.steps: a run of " + options.substr(8, 1) +
                               " steps has nothing to do behind " + checkpoints + "step-0000000"));
    CHECK(read_text(folder.path("run") + "/losses.csv") == losses);
    CHECK(fs::exists(checkpoints + "step-00000006/index.json"));
  }
  // A command that is given again finds its run done.
  const std::string summary = read_text(folder.path("run") + "/summary.json");
  CHECK(folder.train("--steps 6 --resume " + out).exit == 0);
  CHECK(read_text(folder.path("run") + "/summary.json") == summary);
  CHECK(read_text(folder.path("run") + "/losses.csv") == losses);
}

TEST_CASE("another run does not go on from a checkpoint: the keys are named, at their places") {
  const TrainingFolder folder;
  const std::string out = " --out " + folder.path("run");
  REQUIRE(folder.train("--steps 2" + out).exit == 0);
  const auto losses = folder.losses("run");
  // Other heads have the same tensors; other layers do not.
  for (const std::string set :
       {"model.heads=8", "model.layers=3", "model.vocab=96", "model.activation=relu",
        "model.norm_eps=0.01", "training.optimizer=sgd", "training.seed=2",
        "training.global_batch=4", "data.path=synthetic"}) {
    CAPTURE(set);
    const std::string key = set.substr(0, set.find('='));
    const Answer answer = folder.train("--steps 4 --resume --json --set " + set + out);
    CAPTURE(answer.err);
    CHECK(answer.exit == 2);
    CHECK_THAT(answer.err, Catch::Contains(": " + key + ": got " + set.substr(key.size() + 1)) &&
                               Catch::Contains("/checkpoints/step-00000002 was trained with ") &&
                               Catch::Contains("another --out") && Catch::Contains("--set " + set));
    CHECK_THAT(nlohmann::json::parse(answer.out).at("error").at("where").get<std::string>(),
               Catch::Contains("study.yaml"));
  }
  CHECK(folder.losses("run") == losses);
  CHECK_FALSE(fs::exists(folder.path("run") + "/checkpoints/step-00000004"));
  CHECK(folder.train("--steps 4 --resume --set training.lr=1e-4" + out).exit == 0);
}

TEST_CASE("a run of before dropouts had masks of their own is warned when it goes on") {
  const TrainingFolder folder;
  const std::string run = "--out " + folder.path("run") +
                          " --set 'model={family: vit, layers: 1, hidden: 16, heads: 2, "
                          "image_size: 8, patch_size: 4, classes: 4}' --set data.path=generated";
  REQUIRE(folder.train("--steps 2 " + run).exit == 0);
  const Answer same = folder.train("--steps 4 --resume " + run);
  CHECK(same.exit == 0);
  CHECK(same.err.find("mask") == std::string::npos);
  edit_index(folder.path("run") + "/checkpoints/step-00000004/index.json",
             [](nlohmann::json& index) { index["state"].erase("mask_rule"); });
  const Answer before = folder.train("--steps 6 --resume " + run);
  CAPTURE(before.err);
  CHECK(before.exit == 0);
  CHECK(
      before.err.find("warning: the checkpoint is of an earlier version, in which the dropouts of "
                      "a module had one mask") != std::string::npos);
}

}  // namespace trainyard::resumed_training_test
