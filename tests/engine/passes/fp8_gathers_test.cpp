// Weights gathered in 8 bits: which they are, how many bytes move, how often ranks look for the
// largest elements, and that nothing is cast behind a gather.
#include "engine/passes/fp8_gathers.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "engine/program/program_text.h"
#include "tests/support/studies.h"

namespace trainyard::fp8_gathers_test {

namespace {

using Sets = std::vector<std::string>;

const std::string kLlama =
    "model: {family: llama, layers: 2, hidden: 64, heads: 4, ffn: 96, vocab: 128, seq_len: 32}\n"
    "cluster: {gpu: b200, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
    "parallel: {data: 4}\n"
    "training: {global_batch: 8, microbatch: 1, precision: fp8}\n";
// A layer has q, k, v; the output; gate and up; down. Beside them two norms.
constexpr std::int64_t kWeights = 3 * 64 * 64 + 64 * 64 + 2 * 96 * 64 + 64 * 96;
constexpr std::int64_t kNorms = 2 * 64;
// Embedding and head, and the last norm.
constexpr std::int64_t kRoot = 2 * 128 * 64 + 64;

Program compiled(const std::string& zero, const Sets& sets = {}) {
  Sets all = {"parallel.zero={stage: 3, " + zero + "}"};
  all.insert(all.end(), sets.begin(), sets.end());
  return compiled_program(prepare_text(kLlama, all));
}

/// Calls visit(op) for each op that the first rank runs in a step.
template <typename Visit>
void for_ops(const Program& program, const Visit& visit) {
  for (const Call& call : program.body[0].calls) {
    std::vector<SegmentId> run = {call.segment};
    for (const auto& [at, inner] : call.inside) run.push_back(inner);
    for (const SegmentId id : run) {
      for (const ProgramOp& op : program.segments[id].ops) visit(op);
    }
  }
}

/// Elements that all-gathers make, by their type.
std::map<DType, std::int64_t> gathered(const Program& program) {
  std::map<DType, std::int64_t> elements;
  for_ops(program, [&](const ProgramOp& op) {
    if (op.kind != OpKind::kAllGather) return;
    const Value& made = program.values[op.writes[0].value];
    elements[made.dtype] += num_elements(made.dims);
  });
  return elements;
}

/// Groups and numbers of the reductions of weights' largest elements.
std::multimap<std::string, std::int64_t> reductions(const Program& program) {
  std::multimap<std::string, std::int64_t> out;
  for_ops(program, [&](const ProgramOp& op) {
    if (op.kind != OpKind::kAllReduce || !program.attrs[op.attrs].maximum) return;
    const Value& own = program.values[op.reads[0].value];
    if (own.name.find("amaxes") == std::string::npos) return;
    out.emplace(program.groups[op.group].name, num_elements(own.dims));
  });
  return out;
}

bool is_weight(const Program& program, const Operand& operand) {
  return program.values[operand.value].name.find(".weight") != std::string::npos;
}

}  // namespace

TEST_CASE("weights of FP8 products are gathered in 8 bits, which halves their bytes") {
  // 2 microbatches, in which each of 2 layers is gathered for the forward and for the backward;
  // what belongs to no layer stays from the one to the other.
  constexpr std::int64_t kTimes = 2 * 2 * 2;
  for (const std::string more :
       {"", ", precompute_scales: true", ", layout: per-parameter", ", prefetch: 0"}) {
    CAPTURE(more);
    CHECK(gathered(compiled("gather_dtype: fp8" + more)) ==
          std::map<DType, std::int64_t>{{DType::kE4m3, kTimes * kWeights},
                                        {DType::kBf16, kTimes * kNorms + 2 * kRoot}});
    CHECK(gathered(compiled("gather_dtype: bf16" + more)) ==
          std::map<DType, std::int64_t>{{DType::kBf16, kTimes * (kWeights + kNorms) + 2 * kRoot}});
  }
  // Kept for the backward of the one microbatch that there is, or for a step of two.
  const std::string kept = "gather_dtype: fp8, reshard_after_forward: false";
  CHECK(gathered(compiled(kept)).at(DType::kE4m3) == 2 * 2 * kWeights);
  CHECK(gathered(compiled(kept, {"schedule=gpipe"})).at(DType::kE4m3) == 2 * kWeights);
}

TEST_CASE("largest elements of weights are reduced for each gather, or once a step") {
  using Reductions = std::multimap<std::string, std::int64_t>;
  // A unit has 4 weights; 2 units, for the forward and the backward of 2 microbatches.
  const Reductions each = reductions(compiled("gather_dtype: fp8"));
  CHECK(each.size() == 8);
  CHECK(std::all_of(each.begin(), each.end(), [](const auto& one) {
    return one == std::pair<const std::string, std::int64_t>("dp", 4);
  }));
  CHECK(reductions(compiled("gather_dtype: fp8, precompute_scales: true")) ==
        Reductions{{"dp", 8}});
  // Each pipeline rank those of its layer.
  CHECK(reductions(compiled("gather_dtype: fp8, precompute_scales: true",
                            {"parallel.pipeline=2"})) == Reductions{{"dp", 4}});
  // Ranks that hold parts: of two groups of replicas the ranks of one; of a tensor-parallel group
  // all.
  CHECK(reductions(compiled("gather_dtype: fp8, precompute_scales: true, replicate: 2")) ==
        Reductions{{"dp1", 8}});
  const Program tensor =
      compiled("gather_dtype: fp8, precompute_scales: true", {"parallel.tensor=2"});
  const Reductions of_all = reductions(tensor);
  REQUIRE(of_all.size() == 1);
  const auto group = std::find_if(tensor.groups.begin(), tensor.groups.end(), [&](const Group& it) {
    return it.name == of_all.begin()->first;
  });
  CHECK(group_size(tensor.mesh, group->axes) == 4 * 2);
  CHECK(reductions(compiled("gather_dtype: bf16")).empty());
}

TEST_CASE("products read what has been gathered, and no weight is cast behind a gather") {
  for (const std::string gpu : {"b200", "h100-sxm-80g"}) {
    CAPTURE(gpu);
    const Program program = compiled("gather_dtype: fp8", {"cluster.gpu=" + gpu});
    int products = 0, turned = 0, casts = 0;
    for_ops(program, [&](const ProgramOp& op) {
      if (op.kind == OpKind::kTranspose && is_weight(program, op.reads[0])) ++turned;
      if (op.kind == OpKind::kQuantize && op.group == kNoIndex)
        casts += is_weight(program, op.reads[0]) ? 1 : 0;
      const bool product = op.kind == OpKind::kLinear && op.part != OpPart::kWeightGrad &&
                           program.values[op.reads[1].value].dtype == DType::kE4m3;
      if (!product) return;
      ++products;
      CHECK(is_weight(program, op.reads[1]));
      const Value& scale = program.values[op.reads.back().value];
      CHECK(scale.name.find(".weight.scale") != std::string::npos);
      CHECK(num_elements(scale.dims) == 1);
    });
    // 4 weights of 2 layers, forward and backward, in 2 microbatches. Hopper's products of the
    // backward read the other layout.
    CHECK(products == 4 * 2 * 2 * 2);
    CHECK(turned == (gpu == "b200" ? 0 : 4 * 2 * 2));
    CHECK(casts == 0);
  }
}

TEST_CASE("what is gathered in 8 bits takes half the memory while it is there") {
  // One layer and the ends; of bf16 2 bytes an element.
  const auto gathered_at_peak = [](const std::string& type) {
    const Program program = compiled("gather_dtype: " + type + ", prefetch: 0");
    return memory_peaks(program, {})[0].gathered_parameters;
  };
  CHECK(gathered_at_peak("bf16") == 2 * (kWeights + kNorms + kRoot));
  CHECK(gathered_at_peak("fp8") == kWeights + 2 * (kNorms + kRoot));
}

TEST_CASE("Programs that gather in 8 bits are sound") {
  const Sets layouts[] = {
      {"parallel.data=8"},
      {"parallel.data=4", "parallel.tensor=2", "parallel.sequence_parallel=true"},
      {"parallel.data=4", "parallel.pipeline=2", "schedule=zb-h1", "recompute=full"},
      {"parallel.data=2", "parallel.pipeline=2", "parallel.virtual_stages=2", "model.layers=4",
       "schedule=interleaved"},
      {"parallel.data=2", "parallel.context=2", "recompute=selective"},
      {"parallel.data=4", "framework={name: torchtitan, version: compiled}"},
      {"parallel.data=2", "training.microbatch=[1, 2, 1]", "training.global_batch=8"},
      {"parallel.data=4", "recompute=full", "offload={activations: true}"}};
  const std::string zero =
      GENERATE("", ", precompute_scales: true", ", layout: per-parameter, prefetch: 3",
               ", reshard_after_forward: false", ", replicate: 2, prefetch: 0",
               ", reshard_after_forward: false, layout: per-parameter, reduce: last",
               ", offload: optimizer, precompute_scales: true");
  for (const Sets& layout : layouts) {
    for (const char* gpu : {"b200", "h100-sxm-80g"}) {
      if (zero.find("replicate") != std::string::npos && layout[0] == "parallel.data=2") continue;
      Sets sets = layout;
      sets.push_back(std::string("cluster.gpu=") + gpu);
      CAPTURE(zero, gpu, layout);
      const Program program = compiled("gather_dtype: fp8" + zero, sets);  // verified by compile()
      CHECK(parse_program(to_text(program), "program.txt") == program);
    }
  }
}

}  // namespace trainyard::fp8_gathers_test
