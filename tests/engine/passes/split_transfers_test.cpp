// What replicas of unlike numbers send each other, whole and cut over their tensor groups.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "engine/program/program.h"
#include "tests/support/studies.h"

namespace trainyard::split_transfers_test {

namespace {

struct Sent {
  std::int64_t sends = 0, elements = 0, slices = 0, gathers = 0;
};

/// In all segments, each once.
Sent sent(const std::string& scatter) {
  const Program program = compiled_program(
      prepare_text("model: {family: gpt, layers: 4, hidden: 64, heads: 8, vocab: 64, seq_len: 32}\n"
                   "cluster: {preset: dgx-h100, nodes: 1}\n"
                   "parallel: {tensor: 2, scatter_gather: " +
                   scatter +
                   "}\n"
                   "training: {global_batch: 8, microbatch: 4}\n"
                   "partition: {replicas: [1, 3]}\n"));
  Sent out;
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      const bool by_features = program.attrs[op.attrs].dim == 2;
      if (op.kind == OpKind::kSlice && by_features) ++out.slices;
      if (op.kind == OpKind::kAllGather && by_features) ++out.gathers;
      if (op.kind != OpKind::kSend) continue;
      const Dims& dims = program.values[op.reads[0].value].dims;
      if (dims.size() < 3) continue;
      ++out.sends;
      out.elements += num_elements(dims);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("rows that unlike replicas send are cut over the tensor group where a study says so") {
  const Sent whole = sent("false"), cut = sent("true");
  // [4, 32, 64] in pieces of 2, 1 and 1 sequences: forward by the one replica's list, backward by
  // three, for replicas that take turns have lists of their own. Each rank of two sends half.
  CHECK(whole.sends == 3 + 3);
  CHECK(whole.elements == (4 + 4) * 32 * 64);
  CHECK(whole.slices == 0);
  CHECK(cut.sends == whole.sends);
  CHECK(2 * cut.elements == whole.elements);
  // Forward and backward, on each side: a slice and what gathers it, for each number of sequences
  // that a replica has: 4, and 2 and 1.
  CHECK(cut.slices == 3);
  CHECK(cut.gathers == 3);
}

}  // namespace trainyard::split_transfers_test
