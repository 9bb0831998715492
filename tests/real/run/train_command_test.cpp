// `trainyard train` from end to end: processes over Gloo, losses.csv, checkpoints, resuming under
// the same and another layout, and what is said when something goes wrong.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "real/checkpoint/checkpoint.h"
#include "tests/real/run/training_folder.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

void check_close(const std::vector<std::array<double, 2>>& a,
                 const std::vector<std::array<double, 2>>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    // losses.csv has nine digits.
    CHECK(b[i][0] == Approx(a[i][0]).epsilon(2e-9));
    CHECK(b[i][1] == Approx(a[i][1]).epsilon(2e-9));
  }
}

std::vector<double> stored(const Checkpoint& checkpoint, const std::string& name) {
  const CheckpointTensor& tensor = checkpoint.tensors().at(name);
  const Piece whole = whole_tensor(name, DType::kFp64, tensor.shape);
  std::vector<double> values(static_cast<std::size_t>(num_elements(whole)));
  checkpoint.read(whole, std::as_writable_bytes(std::span(values)));
  return values;
}

double norm_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

/// Weights and moments in full precision, where losses.csv has nine digits.
void check_same_checkpoint(const std::string& a, const std::string& b) {
  const Checkpoint one = Checkpoint::open(*latest_complete(a + "/checkpoints"), Verify::kStructure);
  const Checkpoint many =
      Checkpoint::open(*latest_complete(b + "/checkpoints"), Verify::kStructure);
  REQUIRE(one.info().step == many.info().step);
  REQUIRE(one.tensors().size() == many.tensors().size());
  for (const auto& [name, tensor] : one.tensors()) {
    CAPTURE(name);
    const std::vector<double> values = stored(one, name);
    std::vector<double> difference = stored(many, name);
    for (std::size_t i = 0; i < values.size(); ++i) difference[i] -= values[i];
    // Moments of key biases are rounding alone: their true gradients are zero.
    CHECK(norm_of(difference) <= 1e-12 * norm_of(values) + 1e-15);
  }
}

}  // namespace

TEST_CASE("processes over Gloo train as one device does") {
  const TrainingFolder folder;
  REQUIRE(folder.train("--out " + folder.path("one")).exit == 0);
  const auto one = folder.losses("one");
  REQUIRE(one.size() == 4);
  // The run's own page, with its losses and the last step.
  const std::string page = read_text(folder.path("one") + "/report.html");
  CHECK(page.find("\"losses\":{\"steps\":4,") != std::string::npos);
  CHECK(page.find("\"timeline\":{") != std::string::npos);
  const std::vector<std::string> layouts = {
      "--ranks 2 --set parallel.data=2 --set parallel.zero=1",
      "--ranks 2 --set parallel.tensor=2 --set parallel.sequence_parallel=true",
      "--ranks 2 --set parallel.pipeline=2 --set recompute=full",
      "--ranks 4 --set parallel.tensor=2 --set parallel.pipeline=2",
      "--ranks 4 --set parallel.data=2 --set parallel.pipeline=2 --set parallel.virtual_stages=2 "
      "--set schedule=interleaved",
      "--ranks 2 --set parallel.pipeline=2 --set schedule=zb-h1",
      "--ranks 4 --set parallel.data=2 --set parallel.pipeline=2 --set schedule=zb-v",  // the loss
                                                                                        // is on the
                                                                                        // first
                                                                                        // rank
      "--ranks 8 --set parallel.data=2 --set parallel.tensor=2 --set parallel.pipeline=2 --set "
      "parallel.zero=1"};
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    CAPTURE(layouts[i]);
    const std::string run = "layout" + std::to_string(i);
    const Answer answer = folder.train("--out " + folder.path(run) + " " + layouts[i]);
    CAPTURE(answer.err);
    REQUIRE(answer.exit == 0);
    check_close(one, folder.losses(run));
    check_same_checkpoint(folder.path("one"), folder.path(run));
  }
}

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

TEST_CASE("losses.csv has one word for what is no number") {
  // Gradients of fp16 end at 65504: scaled by 1e30 they overflow, and so do sums of them of both
  // signs.
  const TrainingFolder folder;
  const Answer run = folder.train(
      "--set training.precision=fp16 --set training.loss_scale=1e30 --out " + folder.path("run"));
  CAPTURE(run.err);
  REQUIRE(run.exit == 0);
  const std::string lines = read_text(folder.path("run") + "/losses.csv");
  CAPTURE(lines);
  CHECK_THAT(lines, Catch::Contains(",nan\n"));
  CHECK_THAT(lines, !Catch::Contains("-nan"));
  CHECK_THAT(run.err, Catch::Contains("norm nan") && !Catch::Contains("-nan"));
}

TEST_CASE(
    "steps without an update are counted, and a loss that is no number ends the run whatever its "
    "scale") {
  const TrainingFolder folder;
  const std::string fp16 = "--set training.precision=fp16 --json ";
  // A scale that is fixed never falls: no step has an update.
  const Answer fixed =
      folder.train(fp16 + "--steps 3 --set training.loss_scale=1e30 --out " + folder.path("fixed"));
  CAPTURE(fixed.err);
  REQUIRE(fixed.exit == 0);
  CHECK(nlohmann::json::parse(fixed.out).at("skipped_steps") == 3);
  // A step of this size takes every weight to +-1000: activations pass 65504 in the next forward.
  for (const std::string plan :
       {"--ranks 1", "--ranks 2 --set parallel.pipeline=2", "--ranks 2 --set parallel.data=2"}) {
    CAPTURE(plan);
    const Answer run =
        folder.train(fp16 + "--steps 10 --set training.lr.peak=1e3 --overwrite --out " +
                     folder.path("run") + " " + plan);
    CAPTURE(run.err);
    CHECK(run.exit == 3);
    CHECK_THAT(run.err, Catch::Contains("step 2: ") && Catch::Contains("its result is not finite"));
  }
}

TEST_CASE(
    "a norm of finite gradients that overflows is named, and nobody waits for another rank's "
    "error") {
  // Steps of 30 let gradients grow until their squares pass fp32's 3e38 though they do not.
  const TrainingFolder folder;
  const Answer run = folder.train(
      "--steps 40 --set training.precision=fp32 --set training.dropout=0 --set training.lr.peak=30 "
      "--out " +
      folder.path("run"));
  CAPTURE(run.err);
  CHECK(run.exit == 3);
  CHECK_THAT(run.err, Catch::Contains("its result is not finite"));
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

TEST_CASE("a folder that holds a run is not written over") {
  const TrainingFolder folder;
  REQUIRE(folder.train("--steps 1 --out " + folder.path("run")).exit == 0);
  const Answer again = folder.train("--steps 1 --out " + folder.path("run"));
  CHECK(again.exit == 2);
  CHECK(again.err.find("holds a run; say --resume") != std::string::npos);
  CHECK(folder.train("--steps 1 --overwrite --out " + folder.path("run")).exit == 0);
  CHECK(folder.train("--resume --out " + folder.path("none")).exit == 2);
  CHECK_FALSE(fs::exists(folder.path("none")));
}

TEST_CASE("train answers with the digest that simulate answers with") {
  const TrainingFolder folder;
  const std::string plan = " --set cluster.ranks=2 --set parallel.pipeline=2";
  const Answer real = folder.train("--json --steps 1 --out " + folder.path("run") + plan);
  const Answer simulated = folder.shell(std::string(TRAINYARD) + " simulate " +
                                        folder.path("study.yaml") + " --json" + plan);
  CHECK(nlohmann::json::parse(real.out)["program_digest"] ==
        nlohmann::json::parse(simulated.out)["program_digest"]);
  const auto trace = nlohmann::json::parse(read_text(folder.path("run") + "/trace.json"));
  CHECK(trace["traceEvents"].size() > 100);
}

TEST_CASE("a small GPT learns the generated language") {
  // The shipped study, for somewhat more steps than it asks for: within 10 % of the entropy of the
  // text, 1.8333 nats a token for 64 of them (real/data/README.md derives it). A model that knew
  // only which token came before would stay at 2.93.
  const TrainingFolder folder;
  const Answer answer =
      folder.shell(std::string(TRAINYARD_REAL) +
                   " train " TRAINYARD_SOURCE_DIR "/configs/tiny-gpt-cpu.yaml --steps 550 --out " +
                   folder.path("run"));
  CAPTURE(answer.err);
  REQUIRE(answer.exit == 0);
  const auto losses = folder.losses("run");
  REQUIRE(losses.size() == 550);
  double mean = 0;
  for (std::size_t i = 530; i < 550; ++i) mean += losses[i][0] / 20;
  CHECK(losses[0][0] > 4);
  CHECK(mean < 1.1 * 1.8333);
  CHECK(mean > 1.8333 * 0.98);  // no model does better; single batches scatter
}

TEST_CASE("weights leave in Hugging Face's form and come back") {
  const TrainingFolder folder;
  REQUIRE(
      folder.train("--steps 2 --out " + folder.path("run") + " --ranks 2 --set parallel.tensor=2")
          .exit == 0);
  const std::string trainyard = TRAINYARD;
  const Answer out =
      folder.shell(trainyard + " export " + folder.path("run") + " --out " + folder.path("hf"));
  CAPTURE(out.err);
  REQUIRE(out.exit == 0);
  CHECK(fs::exists(folder.path("hf") + "/config.json"));
  // The step after is of new data from the same weights, so both ways of starting lose the same on
  // it.
  const std::string plan = " --steps 1 --ranks 2 --set parallel.pipeline=2";
  REQUIRE(
      folder.train("--weights " + folder.path("hf") + " --out " + folder.path("a") + plan).exit ==
      0);
  REQUIRE(folder
              .train("--weights " + folder.path("run") + "/checkpoints/step-00000002 --out " +
                     folder.path("b") + plan)
              .exit == 0);
  REQUIRE(folder.train("--out " + folder.path("c") + plan).exit == 0);
  CHECK(folder.losses("a")[0][0] ==
        Approx(folder.losses("b")[0][0]).epsilon(1e-6));  // fp32 in the file
  CHECK(folder.losses("a")[0][0] < folder.losses("c")[0][0]);
  CHECK(folder.shell(trainyard + " export " + folder.path("none") + " --out " + folder.path("x"))
            .exit == 2);
  CHECK(
      folder.train("--weights " + folder.path("none") + " --out " + folder.path("d") + plan).exit ==
      2);
}

TEST_CASE("studies that cannot be trained are refused") {
  const TrainingFolder folder;
  const std::string out = " --out " + folder.path("run");
  const Answer framework = folder.train("--set framework=megatron-lm" + out);
  CHECK(framework.exit == 2);
  CHECK(framework.err.find("train runs framework trainyard") != std::string::npos);
  CHECK(folder.train("--device cuda" + out).exit == 2);
  // More GPUs than this machine has, if it has any and the build is for them.
  const Answer gpus = folder.train(
      "--set training.kernels=cuda --set training.dropout=0 --ranks 64 --set "
      "training.global_batch=64" +
      out);
  const Answer dropout = folder.train(
      "--set training.kernels=cuda --set training.precision=bf16 --set training.dropout=0.1" + out);
  CHECK(dropout.exit == 2);
  CHECK(dropout.err.find("draws a mask of its own") != std::string::npos);
  CAPTURE(gpus.err);
  CHECK(gpus.exit == 3);
  CHECK(gpus.err.find("GPUs") != std::string::npos);
  CHECK(folder.train("--set model.heads=5" + out).exit == 2);
  const Answer data = folder.train("--set model.vocab=300 --set data.path=no.txt" + out);
  CAPTURE(data.err);
  CHECK(data.exit == 2);
  CHECK(data.err.find("no.txt: No such file or directory (set by --set data.path=no.txt)") !=
        std::string::npos);
  CHECK(folder.train("--weights no --ranks 1" + out).exit == 2);
  CHECK_FALSE(fs::exists(folder.path("run")));
}

TEST_CASE("under torchrun's variables the ranks find each other") {
  const TrainingFolder folder;
  const auto rank = [&](int i) {
    return "RANK=" + std::to_string(i) + " WORLD_SIZE=2 LOCAL_RANK=" + std::to_string(i) +
           " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(20000 + getpid() % 12000) + " " +
           folder.command("--steps 2 --set cluster.ranks=2 --set parallel.data=2 --out " +
                          folder.path("run"));
  };
  std::thread second([&] { CHECK(std::system((rank(1) + " > /dev/null 2>&1").c_str()) == 0); });
  const Answer first = folder.shell(rank(0));
  second.join();
  CAPTURE(first.err);
  CHECK(first.exit == 0);
  CHECK(folder.losses("run").size() == 2);
  const Answer wrong = folder.shell("RANK=0 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 " +
                                    folder.command("--out " + folder.path("run2")));
  CHECK(wrong.exit == 2);
  CHECK(wrong.err.find("the plan has 1 ranks, torchrun started 3") != std::string::npos);
}

TEST_CASE("static mode times orders, keeps one as schedule.csv, and goes on with it") {
  const TrainingFolder folder;
  const std::string ranks = "--ranks 2 --set parallel.pipeline=2 ";
  const std::string statics = ranks + "--set 'schedule={method: opportunistic, mode: static}' ";
  const Answer tried = folder.train(statics + "--out " + folder.path("static"));
  REQUIRE(tried.exit == 0);
  CHECK(tried.err.find("order 1: ") != std::string::npos);
  // The trials leave no trace in the weights: losses are those of the order read from the file,
  // whose program it is.
  const std::string file = folder.path("static") + "/schedule.csv";
  REQUIRE(folder.train(ranks + "--set 'schedule={file: " + file + "}' --out " + folder.path("file"))
              .exit == 0);
  CHECK(folder.losses("static") == folder.losses("file"));
  const auto digest = [&](const std::string& run) {
    return nlohmann::json::parse(read_text(folder.path(run) + "/summary.json"))
        .at("program_digest")
        .get<std::string>();
  };
  CHECK(digest("static") == digest("file"));
  // The resolved study names the order and tries none again.
  const std::string resolved = folder.path("static") + "/study.resolved.yaml";
  CHECK(read_text(resolved).find("that train timed") != std::string::npos);
  const Answer again = folder.shell(std::string(TRAINYARD_REAL) + " train " + resolved + " --out " +
                                    folder.path("again"));
  REQUIRE(again.exit == 0);
  CHECK(again.err.find("order 1: ") == std::string::npos);
  CHECK(digest("again") == digest("static"));
  // A run that is resumed keeps its order.
  const Answer resumed =
      folder.train(statics + "--steps 6 --resume --out " + folder.path("static"));
  REQUIRE(resumed.exit == 0);
  CHECK(resumed.err.find("order 1: ") == std::string::npos);
  CHECK(digest("static") == digest("file"));
  // With another number of microbatches, or ranks, that order is none, and others are timed; losses
  // are as before.
  REQUIRE(folder.train("--steps 6 --resume --out " + folder.path("file")).exit == 0);
  for (const std::string other :
       {"--set training.microbatch=2 ", "--set cluster.ranks=4 --set parallel.pipeline=4 "}) {
    CAPTURE(other);
    fs::remove_all(folder.path("copy"));
    REQUIRE(folder.train(statics + "--out " + folder.path("copy")).exit == 0);
    const Answer moved = folder.train(
        (other.find("ranks") == std::string::npos ? ranks : "") + other +
        "--set 'schedule={method: opportunistic, mode: static}' --steps 6 --resume --out " +
        folder.path("copy"));
    REQUIRE(moved.exit == 0);
    CHECK(moved.err.find("order 1: ") != std::string::npos);
    check_close(folder.losses("copy"), folder.losses("file"));
  }
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
  const std::string plan = read_text(folder.path("run") + "/study.resolved.yaml");
  const std::string program = read_text(folder.path("run") + "/program.txt");
  const Answer other =
      folder.train("--set model.hidden=64 --steps 6 --resume --json --out " + folder.path("run"));
  CHECK(other.exit == 2);
  // What a rank finds is in the answer, too.
  CHECK(nlohmann::json::parse(other.out).at("error").at("exit") == 2);
  CHECK(read_text(folder.path("run") + "/study.resolved.yaml") == plan);
  CHECK(read_text(folder.path("run") + "/program.txt") == program);
}

}  // namespace trainyard
