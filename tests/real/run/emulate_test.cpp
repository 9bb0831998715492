// `trainyard emulate` from end to end: every rank of small plans alone, and what is said where that
// cannot be.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/real/run/training_folder.h"
#include "tests/support/source_root.h"

namespace trainyard::emulate_test {

namespace {

Answer emulate(const TrainingFolder& folder, const std::string& arguments) {
  return folder.shell(std::string(TRAINYARD_REAL) + " emulate " + arguments);
}

nlohmann::json answer(const TrainingFolder& folder, const std::string& arguments) {
  const Answer got = emulate(folder, "--json --steps 2 " + arguments);
  INFO(got.err);
  REQUIRE(got.exit == 0);
  return nlohmann::json::parse(got.out);
}

}  // namespace

TEST_CASE("every rank of a plan runs alone in the memory that the Program says") {
  const TrainingFolder folder;
  const std::vector<std::string> layouts = {
      "--set cluster.ranks=2 --set parallel.data=2 --set parallel.zero=1",
      "--set cluster.ranks=4 --set parallel.tensor=2 --set parallel.pipeline=2 --set "
      "parallel.sequence_parallel=true",
      "--set cluster.ranks=2 --set parallel.pipeline=2 --set parallel.virtual_stages=2 --set "
      "schedule=interleaved --set recompute=full",
      "--set cluster.ranks=2 --set parallel.pipeline=2 --set schedule.method=zb-h1 --set "
      "schedule.post_validation=true",
      "--set cluster.ranks=4 --set 'parallel.tensor={tp0: 2, tp1: 2}'",
      "--set cluster.ranks=4 --set parallel.tensor=4 --set "
      "'sharding={\"*.mlp.fc1\": {weight: [tp, R], output: [R, R, tp]}}'",
      "--set cluster.ranks=4 --set training.dropout=0 --set parallel.context=4",
      "--set cluster.ranks=4 --set training.dropout=0 --set parallel.tensor=2 --set "
      "parallel.sequence_parallel=true --set 'parallel.context={degree: 2, method: all-gather}'",
      "--set cluster.ranks=2 --set 'parallel.context={degree: 2, method: ulysses}'",
      "--set cluster.ranks=2 --set parallel.pipeline=2 --set schedule=1f1b --set "
      "'partition={cuts: [1, 3], on: [0, 1, 0]}'",
      "--set cluster.ranks=4 --set parallel.pipeline=2 --set schedule=1f1b --set "
      "training.microbatch=4 --set 'partition={replicas: [1, 3]}'",
  };
  for (const std::string& layout : layouts) {
    CAPTURE(layout);
    const bool four = layout.find("ranks=4") != std::string::npos;
    const auto json = answer(
        folder, folder.path("study.yaml") + " --rank " + (four ? "0,1,2,3 " : "0,1 ") + layout);
    CHECK(json.at("program_digest") == json.at("study_program_digest"));
    CHECK(json.at("ranks").size() == (four ? 4 : 2));
    for (const auto& rank : json.at("ranks")) {
      CAPTURE(rank);
      const auto& memory = rank.at("memory");
      const auto bytes = [&](const char* key) { return memory.at(key).get<std::int64_t>(); };
      // Live values to the byte; what LibTorch allocates beyond them is the kernels' workspace.
      CHECK(bytes("values_peak_bytes") == bytes("predicted_bytes"));
      CHECK(bytes("allocated_peak_bytes") >= bytes("predicted_bytes"));
      CHECK(bytes("allocated_peak_bytes") <= bytes("with_workspace_bytes") + 64 * 1024);
      CHECK(rank.at("compute").at("measured_s").get<double>() > 0);
      CHECK(rank.at("optimizer").at("measured_s").get<double>() > 0);
      CHECK(rank.at("num_steps") == 2);
    }
    const auto& time = json.at("iteration_time");
    for (const char* key :
         {"with_recorded_costs_s", "with_like_ops_too_s", "predicted_s", "study_s"}) {
      CHECK(time.at(key).get<double>() > 0);
    }
    // All pipeline ranks have run, so there is nothing left to take from like ones.
    CHECK(time.at("with_like_ops_too_s") == time.at("with_recorded_costs_s"));
    CHECK(time.at("predicted_s") == time.at("study_s"));
  }
}

TEST_CASE("ranks with pieces of unlike size run alone") {
  const TrainingFolder folder;
  const auto json =
      answer(folder, folder.path("study.yaml") +
                         " --rank 0,3 --set cluster.ranks=4 --set parallel.tensor=4 --set "
                         "parallel.sequence_parallel=true --set model.seq_len=13 --set "
                         "'sharding={\"*.mlp.fc1\": {weight: [tp, R]}}'");
  REQUIRE(json.at("ranks").size() == 2);
  for (const auto& rank : json.at("ranks")) {
    CHECK(rank.at("compute").at("measured_s").get<double>() > 0);
    CHECK(rank.at("memory").at("values_peak_bytes") == rank.at("memory").at("predicted_bytes"));
  }
}

TEST_CASE("a plan for GPUs is emulated with the cpu's kernels, and says whose Program that is") {
  const TrainingFolder folder;
  write_text(
      folder.path("gpu.yaml"),
      "model: {family: gpt, layers: 4, hidden: 32, heads: 4, vocab: 64, seq_len: 16}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {tensor: 2, pipeline: 4, data: 1}\n"
      "training: {global_batch: 8, microbatch: 1, dropout: 0.1}\n");
  const auto json = answer(
      folder, folder.path("gpu.yaml") + " --rank 5 --device cpu --out " + folder.path("answer"));
  CHECK(json.at("device") == "cpu");
  CHECK(json.at("study_device") == "a100-sxm-80g");
  // That of this machine's class of CPUs.
  CHECK(json.at("peers_profile").get<std::string>().starts_with("cpu"));
  // The cpu's flash kernel takes no dropout: another Program.
  CHECK(json.at("program_digest") != json.at("study_program_digest"));
  CHECK(json.at("ranks").at(0).at("pipeline_rank") == 2);
  CHECK(json.at("fits") == true);
  const auto& time = json.at("iteration_time");
  CHECK(time.at("study_s") != time.at("predicted_s"));  // other devices
  // Rank 5's layers are those of every stage.
  CHECK(time.at("with_like_ops_too_s") != time.at("with_recorded_costs_s"));
  for (const char* file : {"summary.json", "trace.json", "program.txt", "study.resolved.yaml"}) {
    CHECK(std::filesystem::exists(folder.path("answer") + "/" + file));
  }
}

TEST_CASE("a partition by measured times is saved, and the same without measuring") {
  const TrainingFolder folder;
  const std::string model =
      "model: {family: t5, layers: 2, hidden: 32, heads: 4, vocab: 64, seq_len: 16}\n"
      "cluster: {preset: local, ranks: 2}\n"
      "training: {global_batch: 8, precision: fp32, dropout: 0}\n";
  const auto digest_of = [&](const std::string& study, const std::string& more) {
    const Answer got =
        folder.shell(std::string(TRAINYARD) + " compile --json " + folder.path(study) + more);
    INFO(got.err);
    REQUIRE(got.exit == 0);
    return nlohmann::json::parse(got.out).at("program_digest").get<std::string>();
  };
  write_text(folder.path("smp.yaml"), model +
                                          "parallel: {pipeline: 2}\nschedule: gpipe\n"
                                          "partition: {method: smp, times: emulate}\n");
  write_text(folder.path("rannc.yaml"),
             model + "partition: {method: rannc, times: emulate, blocks: 8}\n");
  for (const std::string study : {"smp", "rannc"}) {
    CAPTURE(study);
    const std::string out = study + " measured";
    const auto json =
        answer(folder, folder.path(study + ".yaml") + " --rank 0 --out '" + folder.path(out) + "'");
    const std::string digest = json.at("program_digest");
    CHECK(digest_of(study + ".yaml",
                    " --set 'partition.measured=" + folder.path(out + "/partition_times.json") +
                        "'") == digest);
    std::filesystem::rename(folder.path(out), folder.path(study));
    CHECK(digest_of(study + "/study.resolved.yaml", "") == digest);
    CHECK_THAT(read_text(folder.path(study + "/study.resolved.yaml")),
               Catch::Contains("measured (partition_times.json)"));
    const Answer without =
        folder.shell(std::string(TRAINYARD) + " simulate " + folder.path(study + ".yaml"));
    CHECK(without.exit == 2);
    CHECK_THAT(without.err, Catch::Contains("partition.times: emulate measures ops on a device"));
  }
}

TEST_CASE("what cannot be emulated is refused before anything is allocated") {
  const TrainingFolder folder;
  const auto refused = [&](int exit, const std::string& arguments) {
    const Answer got = emulate(folder, arguments);
    CHECK(got.exit == exit);
    return got.err;
  };
  const std::string study = folder.path("study.yaml");
  CHECK_THAT(refused(2, study + " --rank 1"),
             Catch::Contains("--rank: the plan has ranks 0 to 0, not 1"));
  CHECK_THAT(refused(2, study), Catch::Contains("--rank is required"));
  CHECK_THAT(refused(2, study + " --rank 0 --device tpu"), Catch::Contains("tpu"));
  CHECK_THAT(refused(2, study + " --rank 0 --set framework=megatron-lm --device cpu"),
             Catch::Contains("can be simulated only"));
  CHECK_THAT(refused(2, study + " --rank 0 --profile nobody"),
             Catch::Contains("no hardware profile is named 'nobody'"));
  CHECK_THAT(refused(2, study + " --rank 0 --profile v100-sxm-16g --set training.precision=bf16"),
             Catch::Contains("--profile v100-sxm-16g: "));
  // 175 billion weights on one device: 3 TB with gradients and moments.
  CHECK_THAT(
      refused(4,
              source_root() +
                  "/configs/gpt3-175b-dgx-a100.yaml --rank 0 --device cpu --set training.dropout=0"
                  " --set 'parallel={tensor: 1, pipeline: 1, data: 1024}' --set "
                  "training.global_batch=1024"),
      Catch::Contains("rank 0 cannot be emulated on this machine: it needs ") &&
          Catch::Contains("too much"));
}

}  // namespace trainyard::emulate_test
