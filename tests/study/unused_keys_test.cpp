// Keys that say something of a group of one rank, or of positions that the model has not: each is
// warned of, and a study as it is resolved is not.
#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "study/study_writer.h"
#include "tests/support/studies.h"

namespace trainyard::unused_keys_test {

namespace {

using Sets = std::vector<std::string>;

const std::string kStudy =
    "model: {family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 64, seq_len: 16}\n"
    "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
    "parallel: {tensor: 2, pipeline: 2, data: 2}\n"
    "training: {global_batch: 8}\n";

/// Warnings that a key is not used, of the study and of what it resolves to, which say the same.
Sets unused(const Sets& sets) {
  const auto of = [](const std::string& text, const Sets& options) {
    Sets found;
    for (const std::string& warning : prepare_text(text, options).study.warnings) {
      if (warning.find(" is not used: ") != std::string::npos) found.push_back(warning);
    }
    return found;
  };
  Sets found = of(kStudy, sets);
  CHECK(of(resolved_study_text(prepare_text(kStudy, sets).study), {}) == found);
  return found;
}

}  // namespace

TEST_CASE("what ranks of a group share is not used where the group is one rank") {
  CHECK(unused({}).empty());
  CHECK(unused({"parallel.tensor=1", "parallel.pipeline=1", "parallel.data=1"}).empty());
  CHECK(unused({"parallel.sequence_parallel=true"}).empty());
  CHECK(
      unused({"parallel.sequence_parallel=true", "parallel.tensor=1"}) ==
      Sets{"parallel.sequence_parallel is not used: tensor is 1, and no rank shares its sequences "
           "with others"});
  // There the key says of which year the framework is.
  CHECK(unused({"parallel.sequence_parallel=true", "parallel.tensor=1", "framework=megatron-lm",
                "training.flash_attention=false"})
            .empty());
  CHECK(unused({"parallel.tensor_modules=['*.mlp']"}).empty());
  CHECK(unused({"parallel.tensor_modules=['*.mlp']", "parallel.tensor=1"}) ==
        Sets{"parallel.tensor_modules is not used: tensor is 1, and no module is split"});
  // The default of trainyard is true.
  CHECK(unused({"parallel.scatter_gather=true", "parallel.pipeline=1"}).empty());
  CHECK(unused({"parallel.scatter_gather=false"}).empty());
  CHECK(unused({"parallel.scatter_gather=false", "parallel.pipeline=1"}) ==
        Sets{"parallel.scatter_gather is not used: pipeline is 1, and nothing is sent between "
             "stages"});
  CHECK(unused({"parallel.scatter_gather=false", "parallel.tensor=1"}) ==
        Sets{"parallel.scatter_gather is not used: tensor is 1, and what is sent is whole"});
}

TEST_CASE("how a method splits layers is not used where none is split") {
  const std::string unused_at = " is not used: tensor is 1, and no layer is split";
  const auto said = [](const std::string& name, const std::string& option) {
    return "parallel.tensor_method={name: " + name + ", " + option + "}";
  };
  for (const auto& [name, key, value] : std::vector<std::array<std::string, 3>>{
           {"auto", "table", "{\"*.mlp.fc1\": {dim: 0, collective: none}}"},
           {"smp", "optimize", "speed"},
           {"smp", "prescaled_batch", "true"},
           {"map", "memory_budget", "1 GiB"}}) {
    CAPTURE(name, key);
    const std::string option = said(name, key + ": " + value);
    CHECK(unused({option}).empty());
    CHECK(unused({option, "parallel.tensor=1"}) ==
          Sets{"parallel.tensor_method." + key + unused_at});
    CHECK(unused({"parallel.tensor_method=" + name, "parallel.tensor=1"}).empty());
  }
  // Not in study.resolved.yaml, which has the mesh that was chosen by it.
  const std::string measured = said("atp", "measured: {1x2: [0, 4.95]}");
  CHECK(prepare_text(kStudy, {measured, "parallel.tensor=1", "parallel.data=4"}).study.warnings ==
        Sets{"parallel.tensor_method.measured" + unused_at});
}

TEST_CASE("how ranks share sequences is not used where none do") {
  for (const std::string key : {"method: ulysses", "balance: none", "method: ring"}) {
    CAPTURE(key);
    const auto warnings = [&](int degree) {
      const std::string map =
          "parallel.context={degree: " + std::to_string(degree) + ", " + key + "}";
      return prepare_text(kStudy, {map, "parallel.data=1"}).study.warnings;
    };
    CHECK(warnings(2).empty());
    const std::string name = key.substr(0, key.find(':'));
    CHECK(warnings(1).front() ==
          "parallel.context." + name + " is not used: degree is 1, and no ranks share a sequence");
  }
  CHECK(unused({"parallel.context=1"}).empty());
}

TEST_CASE("what the network does with devices' memory is of transfers between devices") {
  const std::string cluster = "cluster={preset: dgx-a100-80g, nodes: 1, rdma: off}";
  const Sets not_used = {
      "cluster.rdma is not used: it says whether transfers of a pipeline with "
      "parallel.d2d_buffer pass the hosts, and there are none"};
  CHECK(prepare_text(kStudy, {cluster}).study.warnings == not_used);
  CHECK(prepare_text(kStudy, {cluster, "parallel.d2d_buffer=1 GiB"}).study.warnings.empty());
  // A cluster that is written out says all of it.
  CHECK(unused({}).empty());
}

TEST_CASE("ranks that are left idle are counted with those that share a sequence") {
  CHECK(prepare_text(kStudy, {"parallel={pipeline: 2, context: 2}", "partition={replicas: [1, 2]}",
                              "training.microbatch=2"})
            .study.warnings ==
        Sets{"replicas(1 + 2) * cp(2) * tp(1) = 6 ranks leave 2 of 8 devices idle"});
}

TEST_CASE("nothing is divided among one replica") {
  for (const std::string zero : {"1", "2", "3"}) {
    CHECK(unused({"parallel.zero=" + zero}).empty());
    CHECK(unused({"parallel.zero=" + zero, "parallel.data=1"}) ==
          Sets{"parallel.zero.stage is not used: there is one replica, which has nobody to divide "
               "with"});
    // Ranks that share a sequence divide, too, and what the host has it has of one rank.
    CHECK(unused({"parallel.zero=" + zero, "parallel.data=1", "parallel.context=2"}).empty());
    CHECK(unused({"parallel.zero={stage: " + zero + ", offload: optimizer}", "parallel.data=1"})
              .empty());
  }
}

TEST_CASE("angles are of rotary positions") {
  CHECK(unused({"model.rope_base=500000", "model.positions=rotary"}).empty());
  CHECK(unused({"model.rope_base=500000"}) ==
        Sets{"model.rope_base is not used: model.positions are not rotary, and nothing is turned"});
}

TEST_CASE("angles are scaled by a factor, and in part where its positions are said") {
  const std::string rotary = "model.positions=rotary", factor = "model.rope_factor=8";
  const std::string original = "model.rope_original=8192", low = "model.rope_low=2";
  const std::string none = " is not used: rope_factor is 1, and no angle is smaller";
  CHECK(unused({rotary, factor, original, low}).empty());
  CHECK(unused({rotary, original, low}) ==
        Sets{"model.rope_original" + none, "model.rope_low" + none});
  CHECK(unused({rotary, "model.rope_high=8"}) == Sets{"model.rope_high" + none});
  CHECK(unused({rotary, factor, low, "model.rope_high=8"}) ==
        Sets{"model.rope_low is not used: rope_original is 0, and all angles are smaller",
             "model.rope_high is not used: rope_original is 0, and all angles are smaller"});
}

TEST_CASE("a window as long as a sequence leaves nothing out") {
  CHECK(unused({"model.attention_window=15"}).empty());
  CHECK(unused({"model.attention_window=0"}).empty());
  for (const std::string window : {"16", "100"})
    CHECK(unused({"model.attention_window=" + window}) ==
          Sets{"model.attention_window is not used: it has " + window +
               " tokens, and a sequence 16"});
}

TEST_CASE("positions without a table are to blame for its rows, where a study says them") {
  const auto fault = [](const Sets& sets) -> std::string {
    try {
      prepare_text(kStudy, sets);
      return "none";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  CHECK(fault({"model.max_positions=16", "model.positions=alibi"}) ==
        "--set model.positions=alibi: model.positions: only learned positions have a table, and "
        "model.max_positions is 16; write learned, or model.max_positions: 0, too");
  CHECK(fault({"model.positions=alibi"}) == "none");
}

TEST_CASE(
    "a type that the devices do not multiply is a plan that cannot run, of 8 bits and of 16") {
  for (const std::string precision : {"bf16", "fp8"}) {
    CAPTURE(precision);
    const Sets sets = {"cluster={preset: dgx-1v, nodes: 1}", "training.precision=" + precision};
    const auto run = [&] {
      const Prepared prepared = prepare_text(kStudy, sets);
      PassLog log;
      const auto compiled = compile(prepared.model, prepared.study, prepared.software, log);
      if (const auto* reason = std::get_if<Infeasible>(&compiled))
        throw plan_error(prepared.study, *reason);
    };
    CHECK_THROWS_AS(run(), PlanError);
    CHECK_THROWS_WITH(run(), Catch::Contains("training.precision: the plan cannot run: ") &&
                                 Catch::Contains("v100-sxm-") &&
                                 Catch::Contains("--set training.precision=" + precision));
  }
}

}  // namespace trainyard::unused_keys_test
