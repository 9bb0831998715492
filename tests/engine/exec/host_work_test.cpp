// What the host does beside issuing ops.
#include "engine/exec/host_work.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/studies.h"

namespace trainyard::host_work_test {

namespace {

struct RankWork {
  Seconds batch = 0;   // of its forward segments
  Seconds update = 0;  // of its update
};

/// By pipeline rank, with a batch of 3 s and a tensor of 1 s.
std::vector<RankWork> work_of(const std::string& parallel) {
  Prepared study = prepare_text(
      "model: {family: gpt, layers: 3, hidden: 64, heads: 4, vocab: 128, seq_len: 16}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
      "parallel: " +
      parallel +
      "\ntraining: {global_batch: 12, microbatch: 1, precision: fp16}\nframework: trainyard\n");
  study.software.batch_us = 3e6;
  study.software.tensor_update_us = 1e6;
  const Program program = compiled_program(study);
  SourceLog log;
  HostWork host(program, study.software, log);
  std::vector<RankWork> out(static_cast<std::size_t>(study.study.parallel.pipeline));
  for (const Segment& segment : program.segments) {
    // The name begins with the rank.
    const auto rank = static_cast<std::int32_t>(std::stoi(segment.name));
    host.enter(segment, rank);
    RankWork& sum = out[static_cast<std::size_t>(rank)];
    for (const ProgramOp& op : segment.ops)
      (segment.phase == Phase::kUpdate ? sum.update : sum.batch) += host.before(op);
  }
  return out;
}

}  // namespace

TEST_CASE("a stage that reads tokens or labels waits for its batch once") {
  // Tokens, positions and labels of a single rank are of one batch.
  CHECK(work_of("{data: 1}")[0].batch == 3);
  const std::vector<RankWork> stages = work_of("{pipeline: 3, data: 1}");
  CHECK(stages[0].batch == 3);
  CHECK(stages[1].batch == 0);
  CHECK(stages[2].batch == 3);
}

TEST_CASE("the host goes through all parameters of a rank before it updates one") {
  // A layer has 12: weight and bias of two norms and four products. Beside them are tokens and
  // positions in front, a norm of two behind; the last rank has a copy of the tokens' embedding.
  CHECK(work_of("{data: 1}")[0].update == 3 * 12 + 4);
  const std::vector<RankWork> stages = work_of("{pipeline: 3, data: 1}");
  CHECK(stages[0].update == 12 + 2);
  CHECK(stages[1].update == 12);
  CHECK(stages[2].update == 12 + 3);
}

TEST_CASE("a rank that has a part of the state goes through a part of the parameters") {
  // Four ranks share each bucket: 10 of 40, and as much as a bucket's last part is short of a
  // whole.
  const Seconds quarter = work_of("{data: 4, zero: 1}")[0].update;
  CHECK(quarter >= 10);
  CHECK(quarter < 10 + 3);
}

TEST_CASE("a framework that says nothing of it has no such work") {
  Prepared study = prepare_text(
      "model: {family: gpt, layers: 1, hidden: 64, heads: 4, vocab: 128, seq_len: 16}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {data: 1}\n"
      "training: {global_batch: 2, microbatch: 1}\nframework: trainyard\n");
  const Program program = compiled_program(study);
  SourceLog log;
  HostWork host(program, study.software, log);
  for (const Segment& segment : program.segments) {
    host.enter(segment, 0);
    for (const ProgramOp& op : segment.ops) CHECK(host.before(op) == 0);
  }
}

}  // namespace trainyard::host_work_test
