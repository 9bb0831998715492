// Ops that do nothing on a rank: which they are, and that simulated traces have no row of them.
#include "engine/program/no_ops.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "app/simulation.h"
#include "engine/program/rank_places.h"
#include "tests/support/studies.h"

namespace trainyard::no_ops_test {

namespace {

const std::string kStudy =
    "model: {family: gpt, layers: 2, hidden: 8, heads: 2, vocab: 16, seq_len: 4}\n"
    "cluster: {preset: local, ranks: 1}\ntraining: {global_batch: 4, microbatch: 1, precision: "
    "fp32}\n";

struct Found {
  std::int64_t nothing = 0;      // instructions of all ranks that do nothing
  std::int64_t collectives = 0;  // among them
  std::int64_t rows_of_them = 0;
  std::int64_t rows = 0;
};

Found find(const std::vector<std::string>& sets) {
  const Prepared prepared = prepare_text(kStudy, sets);
  const Program program = compiled_program(prepared);
  Found out;
  RunOptions options;
  options.fold = false;
  options.record_rows = true;
  for (std::int64_t rank = 0; rank < program.mesh.num_ranks(); ++rank)
    options.trace_ranks.push_back(rank);
  const auto answer = simulate(prepared, options);
  for (const RankTrace& rank : std::get<Simulation>(answer).trace.ranks) {
    const auto op_at = [&](SegmentId segment, std::uint32_t op) -> const ProgramOp& {
      return program.segments[segment].ops[op];
    };
    for (const Call& call : program.body[rank.list].calls) {
      for (std::uint32_t k = 0; k < program.segments[call.segment].ops.size(); ++k) {
        const ProgramOp& op = op_at(call.segment, k);
        if (!does_nothing(program, op, rank.rank)) continue;
        ++out.nothing;
        if (has_no_peers(program, op, pipeline_rank(program, rank.rank))) ++out.collectives;
      }
    }
    for (const TraceRow& row : rank.rows) {
      ++out.rows;
      if (does_nothing(program, op_at(row.segment, row.op), rank.rank)) ++out.rows_of_them;
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a collective of one rank does nothing, and has no row") {
  // The sum of the gradient norm's squares over all stages and tensor ranks: here one.
  const Found one = find({});
  CHECK(one.nothing == 1);
  CHECK(one.collectives == 1);
  CHECK(one.rows > 0);
  CHECK(one.rows_of_them == 0);
  // Each of two replicas has a norm of its own.
  CHECK(find({"cluster.ranks=2", "parallel.data=2"}).collectives == 2);
  // Stages and tensor ranks add theirs up.
  CHECK(find({"cluster.ranks=2", "parallel.pipeline=2"}).nothing == 0);
  CHECK(find({"cluster.ranks=2", "parallel.tensor=2"}).nothing == 0);
}

TEST_CASE("a kernel that belongs to another replica has no row") {
  const Found owners =
      find({"cluster.ranks=2", "parallel.data=2", "parallel.zero={stage: 1, by: parameter}",
            "training.bucket_elements=400"});
  CHECK(owners.nothing > owners.collectives);
  CHECK(owners.rows_of_them == 0);
}

}  // namespace trainyard::no_ops_test
