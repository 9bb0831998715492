// A slice of a replicated tensor costs the copy that it is: its own part is read and written. One
// that is a view costs nothing.
#include <catch2/catch.hpp>
#include <string>

#include "engine/exec/op_work.h"
#include "tests/support/simulated.h"
#include "tests/support/studies.h"

namespace trainyard::slice_time_test {

namespace {

const std::string kStudy =
    "model: {family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 128, seq_len: 32}\n"
    "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
    "parallel: {data: 2, tensor: 2, pipeline: 2}\n"
    "training: {global_batch: 8, microbatch: 1, precision: bf16}\n";

struct Slices {
  int copies = 0, views = 0;
};

Slices check_slices(const Program& program) {
  Slices out;
  OpWork work_of(program);
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      if (op.kind != OpKind::kSlice) continue;
      const Value& part = program.values[op.writes[0].value];
      const KernelWork work = work_of(op);
      const bool view = part.alias.has_value();
      (view ? out.views : out.copies) += 1;
      CHECK(work.bytes == (view ? 0 : 2 * size_in_bytes(part)));
      CHECK((work.cls == KernelClass::kNone) == view);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("what a slice costs is the copy of its own part, and a view costs nothing") {
  const auto study = [](const std::string& sequence) {
    return "parallel.sequence_parallel=" + sequence;
  };
  // Sequence parallelism: each rank looks up the positions of its own part. Else stages send slices
  // of what they have.
  const Slices sequence = check_slices(compiled_program(prepare_text(kStudy, {study("true")})));
  CHECK(sequence.copies > 0);
  const Slices plain = check_slices(compiled_program(prepare_text(kStudy, {study("false")})));
  CHECK(plain.views > 0);

  const Simulated simulated = simulate_text(kStudy, false, {study("true"), "fidelity=analytic"});
  int timed = 0;
  for (const RankTrace& rank : simulated.result.trace.ranks) {
    for (const TraceRow& row : rank.rows) {
      const ProgramOp& op = simulated.result.program.segments[row.segment].ops[row.op];
      if (op.kind != OpKind::kSlice) continue;
      const bool view = simulated.result.program.values[op.writes[0].value].alias.has_value();
      CHECK((row.end > row.start) == !view);
      timed += view ? 0 : 1;
    }
  }
  CHECK(timed > 0);
}

}  // namespace trainyard::slice_time_test
