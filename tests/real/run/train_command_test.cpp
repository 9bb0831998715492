// `trainyard train` from end to end: processes over Gloo, losses.csv, and what is said when
// something goes wrong. Runs that go on are resumed_training_test.cpp's.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/real/run/same_training.h"
#include "tests/real/run/training_folder.h"

namespace trainyard::train_command_test {

namespace fs = std::filesystem;

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

TEST_CASE("weights of which the model has not all, or which are not all the model's, are refused") {
  const TrainingFolder folder;
  REQUIRE(folder.train("--steps 2 --out " + folder.path("run")).exit == 0);
  REQUIRE(folder
              .shell(std::string(TRAINYARD) + " export " + folder.path("run") + " --out " +
                     folder.path("hf"))
              .exit == 0);
  const std::string checkpoint = folder.path("run") + "/checkpoints/step-00000002";
  for (const auto& [weights, layers, problem] :
       {std::tuple(folder.path("hf"), "2", "has transformer.h.2.attn.c_attn.bias, "),
        {folder.path("hf"), "5", "lacks 12 tensors of the model: transformer.h.4.ln_1.weight, "},
        {checkpoint, "2", "has decoder.layers.2."},
        {checkpoint, "5", "lacks decoder.layers.4."}}) {
    CAPTURE(weights, layers);
    const Answer answer = folder.train("--set model.layers=" + std::string(layers) + " --weights " +
                                       weights + " --out " + folder.path("other"));
    CAPTURE(answer.err);
    CHECK(answer.exit == 2);
    CHECK_THAT(answer.err, Catch::Contains(weights) && Catch::Contains(problem));
    if (answer.err.find(" of the model: ") == std::string::npos)
      CHECK_THAT(answer.err, Catch::Contains(": model.layers: ") &&
                                 Catch::Contains("say as many layers as it has"));
    CHECK_FALSE(fs::exists(folder.path("other")));
  }
}

TEST_CASE("a model from an ONNX file starts with the file's weights under any plan") {
  const TrainingFolder folder;
  const auto train = [&](const std::string& name, const std::string& plan) {
    return folder.shell(std::string(TRAINYARD_REAL) +
                        " train " TRAINYARD_SOURCE_DIR
                        "/configs/tiny-vit-onnx-cpu.yaml --steps 2 --set checkpoint.every=2 " +
                        plan + " --out " + folder.path(name));
  };
  const Answer stages = train("stages", "");
  CAPTURE(stages.err);
  REQUIRE(stages.exit == 0);
  REQUIRE(train("replicas", "--set parallel.pipeline=1 --set training.microbatch=8").exit == 0);
  REQUIRE(train("drawn", "--set model.weights=false").exit == 0);
  const auto losses = folder.losses("stages");
  for (std::size_t step = 0; step < 2; ++step)
    CHECK(losses[step][0] == Approx(folder.losses("replicas")[step][0]).epsilon(1e-5));
  CHECK(losses[0][0] != Approx(folder.losses("drawn")[0][0]).epsilon(1e-3));

  const std::string out = folder.path("out");
  REQUIRE(
      folder.shell(std::string(TRAINYARD) + " export " + folder.path("stages") + " --out " + out)
          .exit == 0);
  CHECK(fs::file_size(out + "/model.safetensors") > 24'234 * 4);  // parameters of fp32
  CHECK(read_text(out + "/model.safetensors").find("[32,3,8,8]") != std::string::npos);
  CHECK_FALSE(fs::exists(out + "/config.json"));
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
  // Options that are wrong are not put down to the study.
  for (const std::string option : {"--steps -1", "--steps 0", "--ranks 0"}) {
    const Answer wrong = folder.train(option + out);
    CHECK(wrong.exit == 2);
    CHECK_THAT(wrong.err, Catch::Contains("trainyard: " + option.substr(0, 7) + ": ") &&
                              !Catch::Contains("study.yaml"));
  }
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

}  // namespace trainyard::train_command_test
