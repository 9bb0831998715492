// parallel.tensor_method: map, from a study to its plan: never slower than the shardings that it
// tries, within its budget, and the same again from the resolved study.
#include "app/choose_splits.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "app/analytic_step.h"
#include "app/simulation.h"
#include "engine/program/program_text.h"
#include "study/study_writer.h"
#include "tests/support/studies.h"

namespace trainyard::choose_splits_test {

namespace {

using Sets = std::vector<std::string>;

const std::string kGpt =
    "model: {family: gpt, layers: 4, hidden: 1024, heads: 16, vocab: 8192, seq_len: 512}\n"
    "cluster: pcie-8x-a100\n"
    "parallel: {tensor: 8, tensor_method: map}\n"
    "training: {global_batch: 8, microbatch: 8, precision: bf16}\n";
const std::string kMegatron = "parallel.tensor_method=megatron";

/// Simulated, with links shared.
Seconds step(const Prepared& prepared) {
  const Program program = compiled_program(prepared);
  SourceLog sources;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, sources);
  const std::array<Job, 1> jobs = {Job{&program, 0}};
  RunOptions options;
  options.record_rows = false;
  return make_executor("fluid")->run(jobs, costs, options).period;
}

Bytes peak(const Prepared& prepared) {
  Bytes most = 0;
  for (const MemoryPeak& one : peaks_of(prepared, prepared.study, compiled_program(prepared)))
    most = std::max(most, one.total);
  return most;
}

std::string budget(Bytes bytes) {
  return "parallel.tensor_method={name: map, memory_budget: " + std::to_string(bytes) + " B}";
}

std::string fault(const Sets& sets) {
  try {
    prepare_text(kGpt, sets);
  } catch (const PlanError& error) {
    return error.what();
  }
  return "";
}

/// The smallest budget that works.
Bytes smallest(Sets sets) {
  sets.push_back(budget(1));
  const std::string text = fault(sets), works = "works is ";
  return std::stoll(text.substr(text.find(works) + works.size()));
}

}  // namespace

TEST_CASE("a mesh of links that do not divide the ranks is as square as it can be") {
  // Pairs of a bridge, of which three devices are no whole number.
  const Study odd =
      prepare_text(
          "model: {family: gpt, layers: 2, hidden: 192, heads: 12, vocab: 512, seq_len: 64}\n"
          "cluster: {device: a100-sxm-80g, nodes: 1, devices_per_node: 3, intra: nvlink-bridge}\n"
          "parallel: {tensor: 3, tensor_method: map}\n"
          "training: {global_batch: 8, microbatch: 1}\n")
          .study;
  CHECK(odd.parallel.tensor_mesh == std::vector<int>{3});
  CHECK_THAT(odd.origins.at("parallel.tensor_method.mesh").note,
             Catch::Contains("as square as it can be: units of 2 devices (bridged pair) do not "
                             "divide 3"));
}

TEST_CASE("map is no slower than Megatron, ATP on any mesh, or smp") {
  for (const std::string& model :
       {std::string("{family: gpt, layers: 4, hidden: 1024, heads: 16, vocab: 8192, seq_len: 512}"),
        std::string("{family: bert, layers: 4, hidden: 512, heads: 8, vocab: 8192, seq_len: 128}"),
        std::string("{family: llama, layers: 4, hidden: 1024, heads: 16, kv_heads: 8, ffn: 2816, "
                    "vocab: 8192, seq_len: 512}")}) {
    for (const std::string cluster : {"pcie-8x-a100", "dgx-a100-80g"}) {
      CAPTURE(model, cluster);
      const Sets sets = {"model=" + model, "cluster=" + cluster};
      const Seconds map = step(prepare_text(kGpt, sets));
      const auto under = [&](const std::string& method) {
        Sets with = sets;
        with.push_back(method);
        return step(prepare_text(kGpt, with));
      };
      CHECK(map <= under(kMegatron) * (1 + 1e-9));
      CHECK(map <= under("parallel={tensor: 8, sequence_parallel: true}") * (1 + 1e-9));
      for (const std::string mesh : {"[1, 8]", "[2, 4]", "[4, 2]"}) {
        CAPTURE(mesh);
        CHECK(map <= under("parallel.tensor_method={name: atp, mesh: " + mesh + "}") * (1 + 1e-9));
      }
      // Each rank's own samples: a group has the same eight.
      for (const std::string mode : {"memory", "speed"}) {
        CAPTURE(mode);
        Sets with = sets;
        with.push_back("parallel.tensor_method={name: smp, optimize: " + mode + "}");
        with.emplace_back("training.microbatch=1");
        CHECK(map <= step(prepare_text(kGpt, with)) * (1 + 1e-9));
      }
      CHECK(map <= under("parallel.tensor_method={name: smp, prescaled_batch: true}") * (1 + 1e-9));
    }
  }
}

TEST_CASE("the mesh of another method's sharding is the plan's where that is faster") {
  // ATP's IC1 in small: nothing is near anything, and of four samples eight ranks have none each.
  const Sets sets = {
      "model={family: gpt, layers: 2, hidden: 2048, heads: 16, vocab: 8192, seq_len: 1024}",
      "cluster={preset: pcie-8x-a100-no-p2p, device: a100-sxm-80g}", "training.global_batch=4",
      "training.microbatch=4"};
  const Prepared free = prepare_text(kGpt, sets);
  CHECK(free.study.parallel.tensor_mesh == std::vector<int>{4, 2});
  const auto with = [&](const std::string& one) {
    Sets more = sets;
    more.push_back(one);
    return prepare_text(kGpt, more);
  };
  // One that the study says stays, whatever it costs.
  const Prepared said = with("parallel.tensor_method={name: map, mesh: [2, 4]}");
  CHECK(said.study.parallel.tensor_mesh == std::vector<int>{2, 4});
  CHECK(step(free) < step(said));
  CHECK(step(free) <= step(with("parallel.tensor_method={name: atp, mesh: [4, 2]}")) * (1 + 1e-9));
  const Prepared again = prepare_text(resolved_study_text(free.study));
  CHECK(program_digest(compiled_program(again)) == program_digest(compiled_program(free)));
}

TEST_CASE("the resolved study has the plan, with its mesh, and the same digest") {
  const Prepared chosen = prepare_text(kGpt);
  CHECK(chosen.study.parallel.tensor_mesh == std::vector<int>{2, 4});
  CHECK(!chosen.study.planned.empty());
  const std::string text = resolved_study_text(chosen.study);
  const Prepared again = prepare_text(text);
  CHECK(again.study.parallel == chosen.study.parallel);
  CHECK(again.study.planned.empty());
  CHECK(program_digest(compiled_program(again)) == program_digest(compiled_program(chosen)));
}

TEST_CASE("resolved studies say nothing of the axes of replicas, however many there are") {
  for (const std::string zero : {"{stage: 1}", "{stage: 3, replicate: 2}"}) {
    CAPTURE(zero);
    const Prepared chosen =
        prepare_text(kGpt, {"parallel={tensor: 2, data: 4, zero: " + zero + ", tensor_method: map}",
                            "training.global_batch=16", "training.microbatch=1"});
    for (const GivenSharding& one : chosen.study.parallel.tensor_ops) {
      for (const auto& [name, spec] : one.specs) CHECK_THAT(spec, !Catch::Contains("dp"));
    }
    const Prepared again = prepare_text(resolved_study_text(chosen.study));
    CHECK(program_digest(compiled_program(again)) == program_digest(compiled_program(chosen)));
  }
}

TEST_CASE("what map chooses keeps its budget, and a smaller one costs time") {
  const Prepared free = prepare_text(kGpt);
  const Bytes most = peak(free);
  const Prepared tight = prepare_text(kGpt, {budget(most * 9 / 10)});
  CHECK(peak(tight) <= most * 9 / 10);
  CHECK(step(tight) >= step(free) * (1 - 1e-9));
}

TEST_CASE("more memory makes no plan slower") {
  // Grouped queries: the program's answer to all of the memory was 8 % slower than one to less. Of
  // two ranks: a plan within 0.4 MB less was 38 % faster than the answer to the budget itself.
  const Sets grouped = {
      "model={family: llama, layers: 4, hidden: 1024, heads: 16, kv_heads: 8, ffn: 2816, vocab: "
      "8192, seq_len: 512}"};
  const Sets two = {
      "model={family: gpt, layers: 2, hidden: 512, heads: 4, vocab: 8192, seq_len: "
      "512}",
      "cluster={preset: pcie-8x-a100, nodes: 2}", "parallel={tensor: 2, tensor_method: map}",
      "training={global_batch: 32, microbatch: 2, precision: bf16}"};
  for (const Sets& model : {Sets{}, grouped, two}) {
    const auto within = [&](Bytes bytes) {
      Sets sets = model;
      sets.push_back(bytes == 0 ? "parallel.tensor_method=map" : budget(bytes));
      return prepare_text(kGpt, sets);
    };
    const Bytes least = smallest(model), all = peak(within(0));
    REQUIRE(all > least);
    constexpr int kBudgets = 12;
    Seconds best = std::numeric_limits<Seconds>::infinity();
    for (int n = 0; n <= kBudgets; ++n) {
      const Bytes bytes = least + (all - least) * n / kBudgets;
      CAPTURE(model, bytes);
      const Prepared found = within(bytes);
      CHECK(peak(found) <= bytes);
      CHECK(step(found) <= best);
      best = step(found);
    }
    CHECK(step(within(0)) <= best);
  }
}

TEST_CASE("a budget that nothing keeps is refused with the smallest that works, which does") {
  CHECK_THAT(fault({budget(Bytes{1} << 20)}),
             Catch::Contains("parallel.tensor_method.memory_budget: the plan cannot run: no "
                             "splits of ops fit 1.000 MiB a device; the smallest budget that "
                             "works is "));
  // With eight ranks, what is asked for less than what was found so far takes less once more.
  const Sets eight = {
      "model={family: gpt, layers: 4, hidden: 1024, heads: 4, vocab: 1000, "
      "seq_len: 512}",
      "cluster={preset: dgx-h100, nodes: 2}",
      "training={global_batch: 32, microbatch: 8, precision: bf16}"};
  for (const Sets& model : {Sets{}, eight}) {
    const Bytes least = smallest(model);
    Sets with = model, less = model;
    with.push_back(budget(least));
    less.push_back(budget(least - 1));
    CHECK(peak(prepare_text(kGpt, with)) == least);
    CHECK_THAT(fault(less), Catch::Contains("works is " + std::to_string(least)));
  }
}

TEST_CASE("with rotor, the smallest budget that was found to work does") {
  const std::string rotor = "recompute=rotor";
  const std::string text = fault({budget(Bytes{1} << 20), rotor});
  const std::string found = "the smallest budget that was found to work is ";
  CHECK_THAT(text, Catch::Contains("no splits of ops and no recomputation fit 1.000 MiB") &&
                       Catch::Contains(found));
  const Bytes least = std::stoll(text.substr(text.find(found) + found.size()));
  CHECK(least < smallest({}));  // recomputation takes less
  CHECK(peak(prepare_text(kGpt, {budget(least), rotor})) <= least);
}

TEST_CASE("with rotor more memory makes no plan slower either") {
  for (const std::string& ranks : {std::string("{tensor: 4, data: 2, zero: 3, tensor_method: map}"),
                                   std::string("{tensor: 4, pipeline: 2, tensor_method: map}")}) {
    const auto within = [&](const std::string& bytes) {
      return prepare_text(kGpt, {"parallel=" + ranks,
                                 "training={global_batch: 16, microbatch: 4, "
                                 "precision: bf16}",
                                 "recompute={method: rotor, memory_budget: " + bytes + "}"});
    };
    const Bytes most = peak(within("80 GiB"));
    constexpr int kBudgets = 10;
    Seconds best = std::numeric_limits<Seconds>::infinity();
    for (int n = 0; n <= kBudgets; ++n) {
      // 0.6 % apart.
      const Bytes bytes = most - most * (kBudgets - n) * 6 / 1000;
      CAPTURE(ranks, bytes);
      const Prepared found = within(std::to_string(bytes) + " B");
      CHECK(peak(found) <= bytes);
      CHECK(step(found) <= best * (1 + 1e-9));
      best = step(found);
    }
  }
}

TEST_CASE("links that nest make the mesh, and the batch goes over the outermost") {
  // Two sockets with 1 GB/s between them, four bridged devices... of which a ring inside
  // reaches 20.
  const Sets sets = {
      "cluster={preset: nvlink-pairs-8x-a100, host: {sockets: 2, memory: 204.8 GB/s, link: 1 "
      "GB/s}}",
      "training.global_batch=16", "training.microbatch=16"};
  const Prepared prepared = prepare_text(kGpt, sets);
  CHECK(prepared.study.parallel.tensor_mesh == std::vector<int>{2, 2, 2});
  CHECK(step(prepared) < step(prepare_text(kGpt, {sets[0], sets[1], sets[2], kMegatron})));
}

TEST_CASE("map goes with pipelines, replicas and ZeRO") {
  for (const Sets& sets :
       {Sets{"parallel={tensor: 4, pipeline: 2, tensor_method: map}", "training.microbatch=4"},
        Sets{"parallel={tensor: 2, pipeline: 2, data: 2, tensor_method: map}",
             "training.microbatch=2", "schedule=zb-h1"},
        Sets{"parallel={tensor: 4, data: 2, zero: 1, tensor_method: map}", "training.microbatch=4",
             "recompute=full"},
        Sets{"parallel={tensor: 4, data: 2, zero: 3, tensor_method: map}",
             "training.microbatch=4"}}) {
    CAPTURE(sets);
    const Prepared prepared = prepare_text(kGpt, sets);
    Sets megatron = sets;
    megatron.push_back(kMegatron);
    CHECK(step(prepared) <= step(prepare_text(kGpt, megatron)) * (1 + 1e-9));
  }
}

TEST_CASE("map splits a model one of whose ops takes a part of a dim") {
  // The index of that dim is called whole, as what lists say of ops that nothing splits.
  const Prepared chosen =
      prepare_text("model: {onnx: " TRAINYARD_SOURCE_DIR
                   "/tests/golden/onnx/writes-script.onnx, loss: cross_entropy}\n"
                   "cluster: dgx-a100-80g\nparallel: {tensor: 2, tensor_method: map}\n"
                   "training: {global_batch: 8, microbatch: 2}\n");
  CHECK(!chosen.study.parallel.tensor_ops.empty());
  const Prepared again = prepare_text(resolved_study_text(chosen.study));
  CHECK(program_digest(compiled_program(again)) == program_digest(compiled_program(chosen)));
}

TEST_CASE("a sharding of the study's own stays, and map chooses for the other ops") {
  // Outputs over one axis, inputs over the other, which map chooses nowhere here.
  const Sets sets = {"parallel.tensor_method={name: map, mesh: [2, 4]}",
                     "sharding={'*.mlp.fc1': {strategy: {o: tp0, i: tp1}}}"};
  const Prepared chosen = prepare_text(kGpt, sets), free = prepare_text(kGpt, {sets[0]});
  CHECK(step(chosen) >= step(free));
  const auto says = [&](const std::string& line) {
    const auto& lines = chosen.study.planned;
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  };
  CHECK(says("  decoder.layers.*.mlp.fc1.linear  as the study's sharding says"));
  // No slower than the same sharding on Megatron's, which is one of those that are tried.
  const Prepared megatron = prepare_text(kGpt, {"parallel={tensor: {tp0: 2, tp1: 4}}", sets[1]});
  CHECK(step(chosen) <= step(megatron) * (1 + 1e-9));
  const Prepared again = prepare_text(resolved_study_text(chosen.study));
  CHECK(program_digest(compiled_program(again)) == program_digest(compiled_program(chosen)));
}

TEST_CASE("one rank has nothing to choose") {
  const Prepared one = prepare_text(
      kGpt, {"parallel={tensor: 1, data: 8, tensor_method: map}", "training.microbatch=1"});
  CHECK(one.study.parallel.tensor_ops.empty());
  CHECK(program_digest(compiled_program(one)) ==
        program_digest(compiled_program(
            prepare_text(kGpt, {"parallel={tensor: 1, data: 8}", "training.microbatch=1"}))));
}

TEST_CASE("with fp8 no split is too fine for products in 8 bits") {
  // 1424 = 89 x 16: no part of the MLP's inner features is a multiple of 16, and eight ranks have
  // one sample. Attention's 512 are, over eight ranks too.
  const auto with = [](const std::string& precision) {
    return prepare_text(
        kGpt, {"model={family: llama, layers: 2, hidden: 512, heads: 8, ffn: 1424, vocab: 8192, "
               "seq_len: 512}",
               "cluster=dgx-h100",
               "training={global_batch: 1, microbatch: 1, precision: " + precision + "}"});
  };
  const auto splits = [](const Prepared& prepared, const std::string& part) {
    const auto& ops = prepared.study.parallel.tensor_ops;
    return std::any_of(ops.begin(), ops.end(), [&](const GivenSharding& op) {
      return op.modules.find(part) != std::string::npos && !op.strategy.empty();
    });
  };
  const Prepared bf16 = with("bf16"), fp8 = with("fp8");
  CHECK(splits(bf16, "mlp.down"));
  CHECK(splits(fp8, "attention"));
  const Program program = compiled_program(fp8);  // it is not refused
  CHECK(program_digest(compiled_program(prepare_text(resolved_study_text(fp8.study)))) ==
        program_digest(program));
}

}  // namespace trainyard::choose_splits_test
