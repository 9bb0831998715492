// What torchtitan copies around the collectives of a sequence that is split over the tensor group,
// and which of them are beside a product.
#include "engine/passes/copy_moved_dims.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/exec/channels/lanes.h"
#include "tests/support/studies.h"

namespace trainyard::copy_moved_dims_test {

namespace {

using Sets = std::vector<std::string>;

Program compiled(const std::string& framework, const Sets& sets = {}) {
  Sets all = {"framework=" + framework};
  all.insert(all.end(), sets.begin(), sets.end());
  return compiled_program(prepare_text(
      "model: {family: llama, layers: 1, hidden: 64, heads: 4, ffn: 96, vocab: 128, seq_len: 32}\n"
      "cluster: {gpu: h100-sxm-80g, gpus: 2, gpus_per_node: 8, intra: nvswitch}\n"
      "parallel: {tensor: 2, sequence_parallel: true}\n"
      "training: {global_batch: 2, microbatch: 2}\nrecompute: none\n",
      all));
}

const Segment& segment(const Program& program, const std::string& name) {
  const auto at = std::find_if(program.segments.begin(), program.segments.end(),
                               [&](const Segment& it) { return it.name == name; });
  REQUIRE(at != program.segments.end());
  return *at;
}

/// Gathers and reductions of the tensor group along the sequence, with the copies between them and
/// who else reads or makes the value: "all_gather transpose", "transpose reduce_scatter".
std::string moves_of(const Program& program, const std::string& name) {
  std::string text;
  const auto& ops = segment(program, name).ops;
  const auto other = [&](ValueId value, bool writes) -> const ProgramOp* {
    for (const ProgramOp& op : ops) {
      for (const Operand& operand : writes ? op.writes : op.reads) {
        if (operand.value == value && op.kind == OpKind::kTranspose) return &op;
      }
    }
    return nullptr;
  };
  for (const ProgramOp& op : ops) {
    if (op.stream != StreamId::kTp || program.attrs[op.attrs].dim != 1) continue;
    const bool gathers = op.kind == OpKind::kAllGather;
    const ValueId moved = gathers ? op.writes[0].value : op.reads[0].value;
    const bool copied = other(moved, !gathers) != nullptr;
    text += text.empty() ? "" : " ";
    text += gathers ? copied ? "gather+copy" : "gather" : copied ? "copy+scatter" : "scatter";
  }
  return text;
}

std::size_t beside_products(const Program& program, OpKind kind) {
  std::size_t found = 0;
  for (const Message& message : find_lanes(program).messages)
    found += message.kind == kind && message.product != kNoIndex ? 1 : 0;
  return found;
}

}  // namespace

TEST_CASE("a sequence is put in order behind a gather, and cut before a reduction") {
  // The embedding's reduction; of the layer two gathers and two reductions; the head's gather.
  CHECK(moves_of(compiled("trainyard"), "0F") == "scatter gather scatter gather scatter gather");
  const Program program = compiled("{name: torchtitan, version: compiled}");
  CHECK(moves_of(program, "0F") ==
        "copy+scatter gather+copy copy+scatter gather+copy copy+scatter gather+copy");
  CHECK(moves_of(program, "0B") ==
        "copy+scatter gather+copy copy+scatter gather+copy copy+scatter gather+copy");
}

TEST_CASE("asynchronous tensor parallelism fuses what has one product beside it") {
  // Gradients of q, k and v, of gate and up, are sums: their reductions are copied and exposed. The
  // embedding's reduction and its gradient's gather have no product.
  const Program program =
      compiled("{name: torchtitan, version: compiled}", {"training.async_tp=true"});
  CHECK(moves_of(program, "0F") == "copy+scatter gather scatter gather scatter gather");
  CHECK(moves_of(program, "0B") ==
        "copy+scatter gather copy+scatter gather copy+scatter gather+copy");
  CHECK(beside_products(program, OpKind::kAllGather) > 0);
  // Copied ones are beside a copy.
  const Program copied = compiled("{name: torchtitan, version: compiled}");
  CHECK(beside_products(copied, OpKind::kAllGather) == 0);
  CHECK(beside_products(copied, OpKind::kReduceScatter) == 0);
  CHECK(beside_products(compiled("trainyard"), OpKind::kReduceScatter) > 0);
}

}  // namespace trainyard::copy_moved_dims_test
