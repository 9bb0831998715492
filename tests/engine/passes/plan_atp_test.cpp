// Method atp: what is communicated follows the paper's Eq. 2, no product is repeated, and on N x 1
// ranks everything is Megatron's.
#include "engine/passes/plan_atp.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "engine/program/program_text.h"
#include "tests/support/studies.h"

namespace trainyard::plan_atp_test {

namespace {

// B = 2, S = 8, H = 32, N = 8 heads of 4, F = 128, V = 64.
const std::string kGpt =
    "model: {family: gpt, layers: 2, hidden: 32, heads: 8, vocab: 64, seq_len: 8}\n"
    "cluster: dgx-a100-80g\n"
    "parallel: {tensor: 8}\n"
    "training: {global_batch: 2, microbatch: 2, flash_attention: true, dropout: 0}\n";
constexpr std::int64_t kRows = 2 * 8, kHidden = 32;

std::vector<std::string> on_mesh(int d1, int d2) {
  return {"parallel.tensor_method={name: atp, mesh: [" + std::to_string(d1) + ", " +
          std::to_string(d2) + "]}"};
}

/// "F all_reduce tp1 linear" -> elements that a rank has of what layer 0 communicates so in a
/// forward (F) or a backward (B); of norms apart.
std::map<std::string, std::int64_t> volumes(const Program& program) {
  std::map<std::string, std::int64_t> out;
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      const std::string& module = program.modules[op.module];
      if (!module.starts_with("decoder.layers.0.") || !is_collective(op.kind)) continue;
      std::int64_t elements = 1;
      for (const Dim& dim : program.values[op.writes[0].value].dims) elements *= dim.bound;
      const bool norm = module.find(".norm_") != std::string::npos;
      out[(segment.name == "0F" ? "F " : "B ") + std::string(to_string(op.kind)) + " " +
          program.groups[op.group].name + (norm ? " norm" : "")] += elements;
    }
  }
  return out;
}

}  // namespace

TEST_CASE("all-reduces of the four products are the terms of Eq. 2, and the rest is apart") {
  for (const auto& [d1, d2] : {std::pair{4, 2}, {2, 4}, {1, 8}}) {
    CAPTURE(d1, d2);
    const auto of = volumes(compiled_program(prepare_text(kGpt, on_mesh(d1, d2))));
    // One axis of several ranks is all of tensor parallelism, and its group is called so.
    const std::string second = d1 > 1 ? "tp1" : "tp";
    std::map<std::string, std::int64_t> expected = {
        // f1 and f3: 3 h / d1 and 4 h / d1 along the second axis, f2 and f4: h / d2 along the
        // first.
        {"F all_reduce " + second, kRows * 7 * kHidden / d1},
        // Their gradients: what the row-first linears read, and what the column-first ones read.
        {"B all_reduce " + second, kRows * 5 * kHidden / d1},
        // What the core makes is gathered, and so is the gradient of query, key and value.
        {"F all_gather " + second, kRows * kHidden / d1},
        {"B all_gather " + second, kRows * 3 * kHidden / d1},
        // Sum, squares and count of each row, of two norms.
        {"F all_reduce " + second + " norm", kRows * 2 * 3},
        {"B all_reduce " + second + " norm", kRows * 2 * 3}};
    if (d1 > 1) {
      expected["F all_reduce tp0"] = kRows * 2 * kHidden / d2;
      expected["B all_reduce tp0"] = kRows * 2 * kHidden / d2;
    }
    CHECK(of == expected);
  }
}

TEST_CASE(
    "beside sequence parallelism sums along the first axis are scattered, operands gathered") {
  for (const auto& [d1, d2] : {std::pair{4, 2}, {2, 4}}) {
    CAPTURE(d1, d2);
    auto sets = on_mesh(d1, d2);
    sets.emplace_back("parallel.sequence_parallel=true");
    auto of = volumes(compiled_program(prepare_text(kGpt, sets)));
    // What is written: column-first linears read rows gathered along the first axis, h / d2 each,
    // in place of the backward's all-reduce (and once more for the gradient of their weights); the
    // sums of row-first ones are scattered over its d1 ranks. Along the second axis as without.
    CHECK(of["F all_gather tp0"] == kRows * 2 * kHidden / d2);
    CHECK(of["F reduce_scatter tp0"] == kRows * 2 * kHidden / d2 / d1);
    CHECK(of["B all_gather tp0"] == kRows * 4 * kHidden / d2);
    CHECK(of["B reduce_scatter tp0"] == kRows * 2 * kHidden / d2 / d1);
    CHECK(of["F all_reduce tp0"] == 0);
    CHECK(of["B all_reduce tp0"] == 0);
    CHECK(of["F all_reduce tp1"] == kRows * 7 * kHidden / d1);
    // Moments of a rank's own rows.
    CHECK(of["F all_reduce tp1 norm"] == kRows * 2 * 3 / d1);
  }
}

TEST_CASE("an RMS norm has squares and counts alone, and gated MLPs twice their width") {
  const std::vector<std::string> llama = {
      "model={family: llama, layers: 2, hidden: 32, heads: 8, kv_heads: 8, ffn: 64, vocab: 64, "
      "seq_len: 8}"};
  auto sets = on_mesh(4, 2);
  sets.insert(sets.begin(), llama.begin(), llama.end());
  auto of = volumes(compiled_program(prepare_text(kGpt, sets)));
  CHECK(of["F all_reduce tp1 norm"] == kRows * 2 * 2);
  CHECK(of["F all_reduce tp1"] == kRows * (3 * kHidden + 2 * 64) / 4);
  CHECK(of["B all_reduce tp1"] == kRows * (kHidden + 64) / 4);
}

TEST_CASE("no product is repeated: each rank has 1/N of weights and heads") {
  const Graph whole = sharded_graph(prepare_text(kGpt, {"parallel.tensor=1", "parallel.data=1"}));
  for (const auto& [d1, d2] : {std::pair{4, 2}, {2, 4}, {1, 8}}) {
    const Graph graph = sharded_graph(prepare_text(kGpt, on_mesh(d1, d2)));
    std::map<std::string, std::int64_t> work, of_one;
    const auto add = [](const Graph& of, std::map<std::string, std::int64_t>& to) {
      for (const Op& op : of.ops) {
        const std::string& module = of.modules[op.module];
        if (op.kind == OpKind::kLinear)
          to[module] += num_elements(of.tensors[op.inputs[1]].shape) *
                        num_elements(of.tensors[op.inputs[0]].shape) /
                        of.tensors[op.inputs[1]].shape.back();
        if (op.kind == OpKind::kFlashAttention) to[module] += op.attrs->heads;
      }
    };
    add(whole, of_one);
    add(graph, work);
    REQUIRE(of_one.size() == 2 * 5 + 1);  // four products and a core a layer, and the LM head
    for (const auto& [module, one] : of_one) {
      CAPTURE(d1, d2, module);
      CHECK(work[module] * 8 == one);
    }
  }
}

TEST_CASE("on N x 1 ranks the Program is Megatron's") {
  const std::vector<std::string> models = {
      "{family: gpt, layers: 2, hidden: 32, heads: 8, vocab: 64, seq_len: 8}",
      "{family: bert, layers: 2, hidden: 32, heads: 8, vocab: 64, seq_len: 8}",
      "{family: llama, layers: 2, hidden: 32, heads: 8, ffn: 64, vocab: 64, seq_len: 8}",
      "{family: t5, layers: 1, decoder_layers: 1, hidden: 32, heads: 8, vocab: 64, seq_len: 8, "
      "decoder_seq_len: 8}"};
  for (const std::string& model : models) {
    std::vector<std::string> sets = {"model=" + model, "training.flash_attention=auto"};
    if (&model == &models.front()) sets.emplace_back("parallel.sequence_parallel=true");
    const Program megatron = compiled_program(prepare_text(kGpt, sets));
    for (const std::string& more : on_mesh(8, 1)) sets.push_back(more);
    const Program atp = compiled_program(prepare_text(kGpt, sets));
    CAPTURE(model);
    CHECK(to_text(atp) == to_text(megatron));
    CHECK(program_digest(atp) == program_digest(megatron));
  }
}

TEST_CASE("what a mesh does not divide is a reason") {
  // The study's checks say it at its line first; the planner does not rely on them.
  const Prepared prepared = prepare_text(kGpt);
  AtpPlan plan;
  plan.mesh.axes = {{"tp0", 2}, {"tp1", 3}};
  plan.mesh.names = {{"tp", {0, 1}}};
  plan.first = {0};
  plan.second = {1};
  const auto answer = plan_atp(prepared.model, plan);
  REQUIRE(std::holds_alternative<Infeasible>(answer));
  CHECK(std::get<Infeasible>(answer).reason ==
        "embedding.tokens.weight: tensor parallelism over 6 ranks does not divide its dim 0 of 64");
  CHECK(std::get<Infeasible>(answer).key == "parallel.tensor");
}

}  // namespace trainyard::plan_atp_test
