// Method smp: what is communicated is what SageMaker's paper counts, which modules are distributed
// follows its four rules, and with a prescaled batch its mode for speed is Megatron's.
#include "engine/passes/plan_smp.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/passes/smp_modules.h"
#include "engine/program/program_text.h"
#include "tests/engine/passes/layer_volumes.h"
#include "tests/support/studies.h"

namespace trainyard::plan_smp_test {

namespace {

// b = 2 of each of T = 4 ranks, S = 8, H = 32, N = 8 heads of 4, F = 128, V = 64.
const std::string kGpt =
    "model: {family: gpt, layers: 2, hidden: 32, heads: 8, vocab: 64, seq_len: 8}\n"
    "cluster: dgx-a100-80g\n"
    "parallel: {tensor: 4, data: 1, tensor_method: smp}\n"
    "training: {global_batch: 8, microbatch: 2, flash_attention: true, dropout: 0}\n";
constexpr std::int64_t kTokens = 4 * 2 * 8, kHidden = 32;
constexpr std::int64_t kOwn = kTokens / 4 * kHidden;  // of a rank, of what lies between layers

const std::string kSpeed = "parallel.tensor_method={name: smp, optimize: speed}";
const std::string kPrescaled = "parallel.tensor_method={name: smp, prescaled_batch: true}";

// Layers of 32: MLPs have 2 x 4 x 32^2 weights and 4 x 32 biases over 4 ranks, and a bias of 32
// that all have. Beside it lie 4 x 32^2 weights of attention with 4 x 32 biases, 2 norms of
// 2 x 32; before and behind layers (64 + 8) x 32 of embeddings and a norm of 2 x 32.
constexpr std::int64_t kSplit = 2 * (2 * 32 + 1) * 32;
constexpr std::int64_t kAlike = 2 * (32 + 4 * 32 * 32 + 4 * 32 + 4 * 32) + (64 + 8) * 32 + 2 * 32;

using Volumes = std::map<std::string, std::int64_t>;

Program program_of(const std::vector<std::string>& sets) {
  return compiled_program(prepare_text(kGpt, sets));
}

/// "decoder.layers.0" -> "transformer", or "3: it lies in ..."
std::map<std::string, std::string> modules_of(const std::string& model,
                                              const std::vector<std::string>& patterns) {
  const Prepared prepared = prepare_text(kGpt, {"model=" + model, "training.flash_attention=auto"});
  std::map<std::string, std::string> out;
  for (const SmpModule& module : smp_modules(prepared.model, patterns).modules) {
    out[module.path] = module.broken == 0 ? std::string(to_string(module.kind))
                                          : std::to_string(module.broken) + ": " + module.reason;
  }
  return out;
}

}  // namespace

TEST_CASE("optimized for memory a layer reduces four times and adds up two norms' moments") {
  const Volumes of = layer_volumes(program_of({}));
  CHECK(to_text(of) == to_text(Volumes{// q, k and v 3 H, attention's output H, the MLP's 4 H and H.
                                       {"F reduce_scatter tp", kTokens * 9 * kHidden},
                                       {"B all_gather tp", kTokens * 9 * kHidden},
                                       // Sums, squares and counts of two norms; their gradients,
                                       // which the paper does not count.
                                       {"F all_reduce tp norm", kTokens * 2 * 3},
                                       {"B all_reduce tp norm", kTokens * 2 * 3}}));
  // So where kernels add biases behind products: with GeLU, with dropout and the residual.
  const std::string fused = "framework={name: megatron-lm, version: 2021}";
  CHECK(to_text(layer_volumes(program_of({fused}))) == to_text(of));
}

TEST_CASE("optimized for speed a layer has Megatron's two all-reduces, over a group's samples") {
  const Volumes of = layer_volumes(program_of({kSpeed}));
  CHECK(to_text(of) == to_text(Volumes{{"F all_reduce tp", kTokens * 2 * kHidden},
                                       {"B all_reduce tp", kTokens * 2 * kHidden}}));
}

TEST_CASE("activations between ops are split over the group, in both directions of the batch") {
  const Program program = program_of({});
  int seen = 0;
  for (const Value& value : program.values) {
    if (value.name != "decoder.layers.0.add" && value.name != "decoder.layers.0.mlp.gelu") continue;
    ++seen;
    std::int64_t elements = 1;
    for (const Dim& dim : value.dims) elements *= dim.bound;
    CHECK(elements == kTokens * (value.name.ends_with("gelu") ? 4 : 1) * kHidden / 4);
  }
  CHECK(seen == 2);
}

TEST_CASE("a linear by itself exchanges inputs, and scatters samples as it sums up") {
  const Volumes of = layer_volumes(program_of({"parallel.tensor_modules=['*.fc1']"}));
  CHECK(to_text(of) == to_text(Volumes{{"F all_to_all tp", kOwn},
                                       {"F reduce_scatter tp", kTokens * 4 * kHidden},
                                       {"B all_gather tp", kTokens * 4 * kHidden},
                                       {"B all_to_all tp", kOwn}}));
}

TEST_CASE("an embedding by itself gathers ids, and exchanges what it found") {
  const std::vector<std::string> positions = {"parallel.tensor_modules=[embedding.positions]"};
  const Volumes of = layer_volumes(program_of(positions), "embedding.");
  CHECK(to_text(of) ==
        to_text(Volumes{
            {"F all_gather tp", kTokens}, {"F all_to_all tp", kOwn}, {"B all_to_all tp", kOwn}}));
  // With a prescaled batch of 2 ids are there, and features are gathered (section 7.3).
  const Volumes prescaled = layer_volumes(program_of({positions[0], kPrescaled}), "embedding.");
  CHECK(to_text(prescaled) == to_text(Volumes{{"F all_gather tp", 2 * 8 * kHidden}}));
}

TEST_CASE("of an MLP by itself samples are gathered once and given back once") {
  // Memory: features are exchanged on the way in, and the last sum is scattered by samples; speed:
  // samples are gathered, and once more for the backward, which does not keep them.
  const Volumes memory = layer_volumes(program_of({"parallel.tensor_modules=['*.mlp']"}));
  CHECK(to_text(memory) == to_text(Volumes{{"F all_to_all tp", kOwn},
                                           {"F reduce_scatter tp", kTokens * 5 * kHidden},
                                           {"B all_gather tp", kTokens * 5 * kHidden},
                                           {"B all_to_all tp", kOwn}}));
  const Volumes speed = layer_volumes(program_of({"parallel.tensor_modules=['*.mlp']", kSpeed}));
  CHECK(to_text(speed) == to_text(Volumes{{"F all_gather tp", kTokens * kHidden},
                                          {"F reduce_scatter tp", kTokens * kHidden},
                                          {"B all_gather tp", kTokens * 2 * kHidden},
                                          {"B reduce_scatter tp", kTokens * kHidden}}));
}

TEST_CASE("with a prescaled batch the mode for speed is Megatron's") {
  for (const std::string model :
       {"{family: gpt, layers: 2, hidden: 32, heads: 8, vocab: 64, seq_len: 8}",
        "{family: llama, layers: 2, hidden: 32, heads: 8, ffn: 64, vocab: 64, seq_len: 8}"}) {
    for (const std::string framework : {"trainyard", "{name: megatron-lm, version: 2021}"}) {
      CAPTURE(model, framework);
      const std::vector<std::string> sets = {"model=" + model, "training.flash_attention=auto",
                                             "framework=" + framework};
      auto smp = sets, megatron = sets;
      smp.push_back("parallel.tensor_method={name: smp, optimize: speed, prescaled_batch: true}");
      megatron.push_back("parallel.tensor_method=megatron");
      CHECK(program_digest(program_of(smp)) == program_digest(program_of(megatron)));
    }
  }
}

TEST_CASE("a global batch counts the samples of every rank of a tensor group") {
  CHECK(prepare_text(kGpt, {"training.global_batch=16"}).study.num_microbatches() == 2);
  CHECK(prepare_text(kGpt, {"training.global_batch=16", kPrescaled}).study.num_microbatches() == 8);
  CHECK(prepare_text(kGpt, {"training.global_batch=32", "parallel.data=2"})
            .study.num_microbatches() == 2);
}

TEST_CASE("modules are replaced by the four rules") {
  const std::string gpt = "{family: gpt, layers: 1, hidden: 32, heads: 8, vocab: 64, seq_len: 8}";
  const auto all = modules_of(gpt, {});
  CHECK(all.at("") == "transformer");
  CHECK(all.at("decoder.layers.0.mlp.fc1") == "3: it lies in the model, which is replaced");
  const auto mlp = modules_of(gpt, {"*.mlp", "lm_head", "*.norm_1"});
  CHECK(mlp.at("") == "2: parallel.tensor_modules does not choose it");
  CHECK(mlp.at("decoder.layers.0.mlp") == "transformer");
  CHECK(mlp.at("decoder.layers.0.mlp.fc1") ==
        "3: it lies in decoder.layers.0.mlp, which is replaced");
  CHECK(mlp.at("lm_head") == "4: it shares a weight with embedding.tokens");
  CHECK(mlp.at("decoder.layers.0.norm_1") ==
        "1: there is no distributed one: it has neither attention nor an MLP of a transformer");
  // A convolution is no part of a distributed transformer: what stands behind it is.
  const auto vit = modules_of(
      "{family: vit, layers: 1, hidden: 32, heads: 8, image_size: 32, patch_size: 8, classes: 8}",
      {});
  CHECK(vit.at("") == "1: there is no distributed one: embedding.patches is conv2d");
  CHECK(vit.at("encoder") == "transformer");
  CHECK(vit.at("embedding.positions") == "embedding");
  CHECK(vit.at("head") == "linear");
  const auto ncf = modules_of("{family: ncf, users: 64, items: 32, hidden: 8, layers: 2}",
                              {"*.users", "*.items"});
  CHECK(ncf.at("tower.users") == "embedding");
  CHECK(ncf.at("tower.layers.0") == "2: parallel.tensor_modules does not choose it");
}

TEST_CASE("ZeRO divides the state of what is not distributed over the tensor group, too") {
  // Whole parts of distributed parameters have owners among the replicas; what a group has alike
  // lies in shards, as with the others.
  const std::string kOwners = "{stage: 1, by: parameter}";
  struct Case {
    bool prescaled;
    int stages, data;
    std::string zero;
  };
  // The embedding's weight too, which the last of two stages has as well.
  const std::vector<Case> cases = {
      {false, 1, 2, "1"},     {true, 1, 2, "1"},
      {false, 2, 2, "1"},     {true, 2, 2, "1"},
      {false, 1, 2, "2"},     {false, 2, 2, "{stage: 2, reduce: each}"},
      {false, 1, 2, "3"},     {false, 2, 2, "{stage: 3, layout: per-parameter}"},
      {false, 2, 1, "1"},     {false, 2, 1, "{stage: 2, reduce: each}"},
      {false, 2, 1, "3"},     {true, 2, 2, "{stage: 2, reduce: each}"},
      {true, 1, 2, "3"},      {true, 2, 2, "{stage: 3, layout: per-parameter}"},
      {true, 2, 1, "1"},      {true, 2, 1, "{stage: 2, reduce: each}"},
      {true, 2, 1, "3"},      {true, 1, 4, "{stage: 3, replicate: 2}"},
      {false, 1, 2, kOwners}, {true, 2, 2, kOwners},
      {false, 2, 1, kOwners}};
  for (const auto& [prescaled, stages, data, zero] : cases) {
    std::vector<std::string> sets = {"training.global_batch=16",
                                     "parallel.tensor_modules=['*.mlp']", "parallel.zero=" + zero};
    if (prescaled) sets.push_back(kPrescaled);
    sets.push_back("parallel.data=" + std::to_string(data));
    sets.push_back("parallel.pipeline=" + std::to_string(stages));
    sets.push_back("cluster={preset: dgx-a100-80g, nodes: " + std::to_string(stages * data / 2) +
                   "}");
    const Program program = program_of(sets);
    std::map<std::string, const Value*> values;
    for (const Value& value : program.values) values[value.name] = &value;
    int distributed = 0, others = 0;
    for (int i = 0; values.contains("b" + std::to_string(i) + ".param"); ++i) {
      const std::string bucket = "b" + std::to_string(i);
      const Value& parameter = *values.at(bucket + ".param");
      const auto axes = spec_of(program, parameter).dims[0].parts[0].axes;
      const bool split = !axes.empty();  // over tp
      ++(split ? distributed : others);
      CAPTURE(prescaled, stages, data, zero, bucket, split);
      // The replicas of a group; times the four ranks of a tensor group, which all have it.
      const int replicas = zero.find("replicate") == std::string::npos ? data : data / 2;
      const bool owned = zero == kOwners && split;
      const std::int64_t parts = owned ? 1 : split ? replicas : 4 * replicas;
      CHECK((values.at(bucket + ".exp_avg")->owner >= 0) == (owned && data > 1));
      CHECK(values.at(bucket + ".exp_avg")->dims[0].bound * parts == parameter.dims[0].bound);
      if (zero.find('3') == std::string::npos) continue;
      CHECK(values.at(bucket + ".param_shard")->dims[0].bound * parts == parameter.dims[0].bound);
    }
    CHECK(distributed > 0);
    CHECK(others > 0);
  }
}

TEST_CASE("ranks with samples of their own are replicas of what they all have") {
  for (const std::string zero : {"0", "{stage: 0, reduce: each}"}) {
    const Program program =
        program_of({"parallel.data=2", "parallel.zero=" + zero, "training.global_batch=32",
                    "training.precision=fp32", "parallel.tensor_modules=['*.mlp']"});
    std::map<std::int64_t, std::int64_t> elements;  // that so many ranks add up, in each program
    for (const Segment& segment : program.segments) {
      for (const ProgramOp& op : segment.ops) {
        const Value& read = program.values[op.reads.empty() ? ValueId(0) : op.reads.front().value];
        if (op.kind != OpKind::kAllReduce || read.memory != MemoryClass::kGradient) continue;
        if (read.dims[0].bound == 1) continue;  // the loss, the norm
        elements[group_size(program.mesh, program.groups[op.group].axes)] += read.dims[0].bound;
      }
    }
    CAPTURE(zero);
    CHECK(elements == std::map<std::int64_t, std::int64_t>{{2, kSplit}, {8, kAlike}});
  }
}

TEST_CASE("of gradients that a tensor group has alike each rank reduces its slice") {
  const auto reductions = [](const std::vector<std::string>& more) {
    std::vector<std::string> sets = {"training.global_batch=16", "parallel.zero=1",
                                     "parallel.tensor_modules=['*.mlp']",
                                     "training.precision=fp32"};
    sets.insert(sets.end(), more.begin(), more.end());
    const Program program = program_of(sets);
    std::map<std::string, std::int64_t> elements;  // by collective and ranks, of what is whole
    for (const Segment& segment : program.segments) {
      for (const ProgramOp& op : segment.ops) {
        const bool scatters = op.kind == OpKind::kReduceScatter;
        if (op.stream != StreamId::kDp || (!scatters && op.kind != OpKind::kAllGather)) continue;
        const Value& whole =
            program.values[scatters ? op.reads.front().value : op.writes.front().value];
        const std::int64_t ranks = group_size(program.mesh, program.groups[op.group].axes);
        elements[std::string(to_string(op.kind)) + " " + std::to_string(ranks)] +=
            whole.dims[0].bound;
      }
    }
    return elements;
  };
  const std::vector<std::string> two = {kPrescaled, "parallel.data=2"};
  const auto of_two = reductions(two);
  CHECK(of_two.at("reduce_scatter 2") == kSplit + kAlike / 4);
  CHECK(of_two.at("all_gather 2") == kSplit);
  CHECK(of_two.at("all_gather 8") == kAlike);
  // One replica has nobody to add up with: its ranks' slices are the shards.
  const auto of_one = reductions({kPrescaled, "training.global_batch=8"});
  CHECK(of_one.size() == 1);
  CHECK(of_one.at("all_gather 4") == kAlike);
}

}  // namespace trainyard::plan_smp_test
