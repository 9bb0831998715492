// Parameters, and an optimizer's state, that lie on the host or on its drives train as on the
// device, in the same bytes that the Program says, and go on from checkpoints of any place.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "real/exec/left_drive_files.h"
#include "tests/real/exec/as_one_device.h"
#include "tests/real/exec/watched_memory.h"
#include "tests/real/exec/zero_layouts.h"
#include "tests/real/parity.h"

namespace trainyard::host_parameters_test {

namespace {

/// So that none of the test's machines has to have drives.
const std::string kDrives = "cluster.nvme={read: 2 GB/s, write: 1 GB/s, drives: 1}";

std::string zero(const std::string& keys, const std::string& offload) {
  return "parallel.zero={" + keys + ", offload: " + offload + "}";
}
Sets of(const Sets& layout, const std::string& keys, const std::string& offload) {
  return joined(layout, {zero(keys, offload), kDrives});
}

const std::string kBoth = "{optimizer: host, parameters: host}";
const std::string kDeep = "{optimizer: nvme, parameters: nvme}";
const Sets kOne = {};

/// Each is trained by gpt, whose embedding and head are tied, and by t5.
const std::vector<Sets> kLayouts = {
    of(kOne, "stage: 3", "parameters"),
    of(kOne, "stage: 3", kDeep),
    of(kTwo, "stage: 3", "parameters"),
    of(kTwo, "stage: 3", kBoth),
    of(kTwo, "stage: 3", "{parameters: nvme}"),
    of(kTwo, "stage: 2", "{optimizer: nvme}"),
    of(kFour, "stage: 1", "{optimizer: nvme}"),
    of(kFour, "stage: 3", "{optimizer: nvme, parameters: host}"),
    of(kFour, "stage: 3, prefetch: 0", kDeep),
    of(kFour, "stage: 3, prefetch: 3, gathers_in_flight: 2", kBoth),
    of(kFour, "stage: 3, replicate: 2, reduce: last", kBoth),
    of(kFour, "stage: 3, reshard_after_forward: 2", kDeep),
    joined(of(kFour, "stage: 3, reshard_after_forward: false", "parameters"), {"recompute=full"}),
    joined(of(kPipeline, "stage: 3, reshard_after_forward: 2", "parameters"),
           {"cluster.ranks=8", "parallel.data=4"}),
    of(kPipeline, "stage: 3", kDeep),
    joined(of(kPipeline, "stage: 3, reshard_after_forward: false", kDeep), {"schedule=gpipe"}),
    joined(of(kPipeline, "stage: 3", kBoth), {"schedule=interleaved", "parallel.virtual_stages=2"}),
    joined(of(kPipeline, "stage: 3", "parameters"), {"schedule=zb-h1", "recompute=full"}),
    joined(of(kPipeline, "stage: 3", kBoth), {"schedule=zb-v", "parallel.virtual_stages=2"}),
    joined(of(kPipeline, "stage: 3, units: ['*attention', '*.mlp']", kBoth),
           {"recompute=selective"}),
    joined(of(kTensor, "stage: 3", kBoth), {"recompute=full"}),
    joined(of(kTensor, "stage: 3", "parameters"),
           {"parallel.tensor_overlap=block", "training.microbatch=2"}),
    joined(of(kTwo, "stage: 3", kBoth), {"training.microbatch=[1, 3]"}),
    joined(of(kPipeline, "stage: 3", kDeep),
           {"partition={cuts: [1, 2], on: [0, 1, 0]}", "schedule=gpipe"}),
    joined(of(kPipeline, "stage: 3", kBoth),
           {"recompute=full", "offload={activations: true, horizon: 1}"})};

LoopbackRun run(const std::string& text, const Sets& layout, int steps = 3) {
  return run_loopback(text, layout, {.steps = steps});
}

bool fetches(const Program& program) {
  for (const Value& value : program.values) {
    const bool away = value.space != Space::kDevice && value.scope == Scope::kPersistent;
    if (away && value.memory != MemoryClass::kGradient) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("parameters and state that lie elsewhere train as one device does") {
  check_families({kPlainSgd, kClippedAdamW}, kLayouts, fetches);
}

TEST_CASE("what lies elsewhere goes with own shardings, unlike replicas, shared sequences") {
  const LoopbackRun one = run(parity_study("gpt", kClippedAdamW), {});
  const Sets own = {"cluster.ranks=8", "parallel.data=2", "parallel.tensor={tp0: 2, tp1: 2}",
                    kAtpSharding};
  const Sets axes = {"cluster.ranks=8", "parallel.data=2", "parallel.tensor={tp0: 2, tp1: 2}"};
  for (const Sets& layout : {own, axes}) {
    CAPTURE(layout);
    check_same(one, run(parity_study("gpt", kClippedAdamW), of(layout, "stage: 3", kBoth)), kFp64);
  }
  const Sets replicas = {"cluster.ranks=4", "partition={replicas: [1, 3]}",
                         "training.microbatch=4"};
  check_same(one,
             run(parity_study("gpt", kClippedAdamW), of(replicas, "stage: 1", "{optimizer: nvme}")),
             kFp64);
  for (const std::string& offload : {kBoth, kDeep}) {
    CAPTURE(offload);
    check_same(one, run(parity_study("gpt", kClippedAdamW), of(replicas, "stage: 3", offload)),
               kFp64);
  }

  const std::string training = "precision: fp64, dropout: 0, clip_norm: 0.01, lr: {peak: 0.01}";
  const LoopbackRun whole = run(parity_study("llama", training), {});
  const Sets shared = {"cluster.ranks=4", "parallel.data=2", "parallel.context=2"};
  for (const std::string& offload : {kBoth, kDeep}) {
    CAPTURE(offload);
    check_same(whole, run(parity_study("llama", training), of(shared, "stage: 3", offload)), kFp64);
  }
}

TEST_CASE("where parameters and state lie changes no bit") {
  for (const std::string precision : {"fp32", "bf16"}) {
    const std::string text = parity_study(
        "gpt", "precision: " + precision + ", dropout: 0, clip_norm: 0.1, lr: {peak: 0.01}");
    const LoopbackRun here = run(text, joined(kTwo, {"parallel.zero=3"}));
    for (const std::string& offload :
         {std::string("parameters"), kBoth, std::string("{parameters: nvme}"),
          std::string("{optimizer: nvme}"), kDeep}) {
      CAPTURE(precision, offload);
      const LoopbackRun away = run(text, of(kTwo, "stage: 3", offload));
      CHECK(away.losses == here.losses);
      CHECK(away.gradient_norms == here.gradient_norms);
      CHECK(away.gradients == here.gradients);
      CHECK(away.masters == here.weights);  // shards that were updated themselves
    }
  }
}

TEST_CASE("a step that overflows leaves weights elsewhere as they were") {
  const std::string text = parity_study(
      "gpt", "precision: fp16, dropout: 0, clip_norm: 1, lr: {peak: 0.01}, loss_scale: 1073741824");
  for (const std::string& offload : {std::string("parameters"), kBoth, kDeep}) {
    CAPTURE(offload);
    const Sets layout = of(kTwo, "stage: 3", offload);
    const LoopbackRun before = run(text, layout, 0), after = run(text, layout, 2);
    CHECK(after.weights == before.weights);
    CHECK(after.masters == before.masters);
  }
}

TEST_CASE("parameters elsewhere go over Gloo as in memory") {
  const std::string text = parity_study("gpt", kClippedAdamW);
  LoopbackOptions over_gloo;
  over_gloo.steps = 2;
  over_gloo.over_gloo = true;
  for (const Sets& layout : {of(kFour, "stage: 3", kBoth), of(kPipeline, "stage: 3", kDeep)}) {
    CAPTURE(layout);
    check_same(run(text, layout, 2), run_loopback(text, layout, over_gloo), kFp64);
  }
}

TEST_CASE("checkpoints cross between parameters on the device, the host and its drives") {
  check_goes_on(parity_study("gpt", kClippedAdamW), of(kFour, "stage: 3", kBoth),
                {joined(kFour, {"parallel.zero=1"}), of(kTwo, "stage: 3", kDeep),
                 of(kPipeline, "stage: 3", "parameters"), of(kOne, "stage: 3", kDeep),
                 joined(kTwo, {"parallel.zero={stage: 2, offload: optimizer}"})});
}

TEST_CASE("a rank whose parameters lie elsewhere holds what its Program says, here and there") {
  const std::string text =
      parity_study("gpt", "precision: bf16, dropout: 0, clip_norm: 1, lr: {peak: 0.01}");
  for (const std::string& offload : {std::string("parameters"), kBoth, kDeep}) {
    CAPTURE(offload);
    const WatchedMemory watched = watch_memory(text, of(kOne, "stage: 3", offload));
    // On a CPU both memories are this process's; what lies on drives is in files.
    CHECK(watched.most <= watched.peak.total + watched.peak.host);
    CHECK((watched.peak.nvme > 0) == (offload == kDeep));
  }
}

TEST_CASE("what lies on drives is in files of its bytes, and gone with the run") {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() / ("trainyard-drives-" + std::to_string(getpid()));
  fs::create_directories(folder);
  const char* const before = std::getenv("TMPDIR");
  const std::string restored = before == nullptr ? "" : before;
  setenv("TMPDIR", folder.c_str(), 1);
  Bytes in_files = 0;
  LoopbackOptions options;
  options.between_steps = [&](std::int64_t, RankTrainer&) {
    in_files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) in_files += static_cast<Bytes>(entry.file_size());
    }
  };
  const LoopbackRun ran =
      run_loopback(parity_study("gpt", kClippedAdamW), of(kOne, "stage: 3", kDeep), options);
  if (before == nullptr) {
    unsetenv("TMPDIR");
  } else {
    setenv("TMPDIR", restored.c_str(), 1);
  }
  CHECK(in_files == memory_peaks(ran.program, {})[0].nvme);
  CHECK(fs::is_empty(folder));
  fs::remove(folder);
}

TEST_CASE("what ranks left on drives goes, and nothing else") {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() / ("trainyard-left-" + std::to_string(getpid()));
  fs::create_directories(folder / "rank-0");
  fs::create_directories(folder / "rank-11");
  std::ofstream(folder / "rank-11/b0.master") << "state";
  std::ofstream(folder / "notes.txt") << "a user's";
  remove_drive_files(folder.string());
  CHECK(!fs::exists(folder / "rank-0"));
  CHECK(!fs::exists(folder / "rank-11"));
  CHECK(fs::exists(folder / "notes.txt"));
  fs::remove(folder / "notes.txt");
  remove_drive_files(folder.string());
  CHECK(!fs::exists(folder));
  remove_drive_files(folder.string());  // there is none
}

}  // namespace trainyard::host_parameters_test
