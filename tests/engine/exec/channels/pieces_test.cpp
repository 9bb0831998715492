// Collectives in pieces beside products: which products a Program has beside them, and what is left
// of a collective.
#include <catch2/catch.hpp>
#include <string>

#include "engine/exec/channels/lanes.h"
#include "tests/support/studies.h"
#include "tests/support/timing.h"

namespace trainyard::pieces_test {

namespace {

/// "gather 96x64", outputs x inputs of the product beside it; "dx " before input gradients.
std::string collectives_of(const Program& program, const std::string& name) {
  const Lanes lanes = find_lanes(program);
  std::string text;
  for (const SegmentId s : program.segments.keys()) {
    if (program.segments[s].name != name) continue;
    for (std::size_t k = 0; k < program.segments[s].ops.size(); ++k) {
      if (lanes.of_op[s][k] == kNoIndex) continue;
      const Message& message = lanes.messages[lanes.of_op[s][k]];
      if (message.kind != OpKind::kAllGather && message.kind != OpKind::kReduceScatter) continue;
      text += text.empty() ? "" : ", ";
      text += message.kind == OpKind::kAllGather ? "gather" : "scatter";
      if (message.product == kNoIndex) continue;
      const ProductBeside& product = lanes.products[message.product];
      CHECK(product.ranks == 2);
      CHECK(product.work.m == 32);
      text += product.work.part == OpPart::kInputGrad ? " dx " : " ";
      text += std::to_string(product.work.n) + "x" + std::to_string(product.work.k);
    }
  }
  return text;
}

/// A product between a gather and a reduction, `tensor` ranks on nodes of two.
Program between(int tensor) {
  const std::string t = std::to_string(tensor), rows = std::to_string(2 * tensor);
  return verified("program 2\nmesh pp=1:stages tp=" + t +
                  "\nmicrobatches 1\ngroup tp[tp]\n"
                  "value w bf16[2,2] persistent parameter\n"
                  "value x bf16[1,2,2] step activation\nvalue y bf16[1," +
                  rows + ",2] step activation\nvalue z bf16[1," + rows +
                  ",2] step activation\nvalue r bf16[1,2,2] step activation\n"
                  "segment 0STEP() stage:0 C\n  main zero -> x\n"
                  "  tp all_gather:tp{dim=1} x -> y\n  main linear y w -> z\n"
                  "  tp reduce_scatter:tp{dim=1} z -> r\n  main free x y z r\n"
                  "class pp:0\n  0STEP\nplacement pp:1 tp:1\n");
}

}  // namespace

TEST_CASE("a gather is beside the product that reads its rows, a reduction beside their maker") {
  const Program program = compiled_program(prepare_text(
      "model: {family: gpt, layers: 1, hidden: 64, heads: 4, ffn: 256, vocab: 128, seq_len: 32}\n"
      "cluster: {preset: dgx-h100, nodes: 1}\nframework: nemo\n"
      "parallel: {tensor: 2, data: 1, sequence_parallel: true}\n"
      "training: {global_batch: 1, microbatch: 1}\n"));
  // The embedding; qkv, proj, fc1, fc2; the head, of whose 128 words, padded to 128 x 2, a rank has
  // 128.
  CHECK(collectives_of(program, "0F") ==
        "scatter, gather 96x64, scatter 64x32, gather 128x64, scatter 64x128, gather 128x64");
  // What weights' gradients read is gathered whole.
  CHECK(collectives_of(program, "0B") ==
        "gather, scatter dx 64x128, gather dx 128x64, gather, scatter dx 64x128, gather dx 32x64, "
        "gather, scatter dx 64x96, gather");
}

TEST_CASE("beside a product of 20 s is left of a collective what it adds to it") {
  const Program program = between(2);
  REQUIRE(find_lanes(program).products.size() == 1);
  Costs costs = zero_costs(program, slow_links(2));
  cost_of(costs, program, "0STEP", 2).kernel = 20;
  // 1 s, and 8 of 16 bytes at 1 byte/s, twice.
  CHECK(run(program, costs).step_ends.at(0) == 9 + 20 + 9);
  // Rows of 12 s, there or copied within 9 s: 24 - 20. Outputs of 6 s, each reduced within 1 + 8 /
  // 4 s; the last begins at 24.
  costs.pieces = {{true, 2, 20, 12, 6}};
  CHECK(run(program, costs).step_ends.at(0) == 4 + 20 + 7);
  // Input gradients have their reductions whole, beside the weight's gradient.
  costs.pieces[ProductId(0)].forward = false;
  CHECK(run(program, costs).step_ends.at(0) == 4 + 20 + 9);
  // Symmetric memory: the copy of the first rows ends before the own ones are made, 24 - 20; then
  // 16 bytes are read, 8 written at 4 bytes/s.
  costs.piece_sum = 0.25;
  CHECK(run(program, costs).step_ends.at(0) == 4 + 20 + 4 + 6);
}

TEST_CASE("collectives between nodes go whole") {
  const Program program = between(4);
  Costs costs = zero_costs(program, slow_links(4));
  const Seconds whole = run(program, costs).step_ends.at(0);
  costs.pieces = {{true, 4, 20, 12, 6}};
  CHECK(run(program, costs).step_ends.at(0) == whole);
}

}  // namespace trainyard::pieces_test
