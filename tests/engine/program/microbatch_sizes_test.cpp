// Microbatches of unequal size: each takes the time and the memory of its own sequences.
#include "engine/plan/microbatch_sizes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/exec/analytic_executor.h"
#include "engine/exec/costs.h"
#include "engine/memory/memory.h"
#include "engine/program/program_text.h"
#include "report/summary.h"
#include "tests/support/studies.h"

namespace trainyard::microbatch_sizes_test {

namespace {

std::string study(const std::string& microbatch, int batch,
                  const std::string& parallel = "pipeline: 1, data: 1",
                  const std::string& schedule = "gpipe") {
  return "model: {family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 40, seq_len: 16}\n"
         "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {" +
         parallel + "}\ntraining: {global_batch: " + std::to_string(batch) +
         ", microbatch: " + microbatch + ", dropout: 0}\nschedule: " + schedule + "\n";
}

Trace simulate(const Prepared& prepared, const Program& program) {
  SourceLog log;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
  const Job job{&program, 0};
  return AnalyticExecutor().run({&job, 1}, costs, {});
}

double compute_time(const std::string& microbatch, int batch) {
  const Prepared prepared = prepare_text(study(microbatch, batch));
  return simulate(prepared, compiled_program(prepared)).ranks[0].time.compute;
}

Bytes activations(const std::string& microbatch, int batch) {
  return memory_peaks(compiled_program(prepare_text(study(microbatch, batch))), {})[0].activations;
}

}  // namespace

TEST_CASE("sizes are named once, the largest first, and samples are counted by microbatch") {
  Plan plan;
  TrainingConfig& training = plan.training;
  training.microbatches = {2, 3, 1, 3};
  training.global_batch = 18;  // two replicas of 9
  plan.parallel.data = 2;
  CHECK(microbatch_sizes(training) == std::vector<std::int64_t>{3, 2, 1});
  CHECK(size_of_microbatches(training) == std::vector<std::size_t>{1, 0, 2, 0});
  CHECK(samples_before(plan, 0, 0) == std::vector<std::int64_t>{0, 2, 5, 6});
  CHECK(samples_before(plan, 0, 1) == std::vector<std::int64_t>{9, 11, 14, 15});
  training.microbatches.clear();
  training.microbatch = 4;
  CHECK(microbatch_sizes(training) == std::vector<std::int64_t>{4});
  CHECK(size_of_microbatches(training).empty());
  training.global_batch = 24;
  CHECK(samples_before(plan, 0, 0) == std::vector<std::int64_t>{0, 4, 8});
  // Three microbatches of eight sequences, split among all replicas: 0-3 3-6 6-8 on the second
  // rank.
  training.microbatch = 8;
  plan.parallel.pipeline = 2;
  plan.parallel.data = 3;
  plan.partition.replicas = plan.parallel.replicas = {1, 3};
  CHECK(samples_before(plan, 0, 0) == std::vector<std::int64_t>{0, 8, 16});
  CHECK(samples_before(plan, 1, 2) == std::vector<std::int64_t>{6, 14, 22});
}

TEST_CASE("every size has its own segments, and the list names them in the order of the study") {
  const Program program =
      compiled_program(prepare_text(study("[2, 3, 3]", 8, "pipeline: 2, data: 1", "1f1b")));
  std::vector<std::string> forwards;
  for (const Call& call : program.body[0].calls) {
    const Segment& segment = program.segments[call.segment];
    if (segment.phase == Phase::kForward)
      forwards.push_back(segment.name + "#" + std::to_string(call.mb[0]));
  }
  CHECK(forwards == std::vector<std::string>{"0F@2seq#0", "0F@3seq#1", "0F@3seq#2"});
  for (const Segment& segment : program.segments) {
    const bool of_two = segment.name.ends_with("@2seq"), of_three = segment.name.ends_with("@3seq");
    CHECK((segment.slots == 0) == !(of_two || of_three));
    for (const ProgramOp& op : segment.ops) {
      if (op.kind != OpKind::kSend) continue;
      // A layer's output: sequences x tokens x hidden.
      const Value& sent = program.values[op.reads[0].value];
      CHECK(num_elements(sent.dims) == (of_two ? 2 : 3) * 16 * 64);
    }
  }
  // Receives of both sizes share their pool's slots.
  CHECK(std::count_if(program.pools.begin(), program.pools.end(),
                      [](const Pool& pool) { return pool.name.starts_with("recv."); }) == 2);
  CHECK(parse_program(to_text(program), "p.txt") == program);
}

TEST_CASE("equal sizes in a list are one size, and their order is in the digest") {
  const auto digest = [](const std::string& microbatch) {
    return program_digest(compiled_program(prepare_text(study(microbatch, 8))));
  };
  CHECK(digest("[2, 2, 2, 2]") == digest("2"));
  CHECK(digest("[2, 3, 3]") != digest("[3, 2, 3]"));
}

TEST_CASE("each microbatch takes the time of its own size") {
  // With x(b) the time of a microbatch of b sequences and z that of what comes once a step: [2]
  // takes x(2) + z, [2, 2] 2 x(2) + z, [3, 3] 2 x(3) + z, so [2, 3, 3] takes [3, 3] + [2, 2] - [2].
  const double expected =
      compute_time("[3, 3]", 6) + compute_time("[2, 2]", 4) - compute_time("[2]", 2);
  CHECK(compute_time("[2, 3, 3]", 8) == Approx(expected).epsilon(1e-9));
}

TEST_CASE("each microbatch takes the memory of its own size") {
  // gpipe keeps all microbatches until the first backward, which is the first one's: one more of 3
  // sequences adds what one keeps, and of a last one with 2 sequences a third of that is not there.
  const Bytes kept = activations("[3, 3, 3, 3]", 12) - activations("[3, 3, 3]", 9);
  CHECK(kept > 0);
  CHECK(activations("[3, 3, 3]", 9) - activations("[3, 3, 2]", 8) == kept / 3);
}

TEST_CASE("all schedules compile with unequal microbatches, and every FLOP is counted once") {
  for (const std::string schedule : {"gpipe", "1f1b", "interleaved", "zb-h1", "interleaved-zb1p",
                                     "zb-v", "dualpipe-v", "scp", "opportunistic"}) {
    CAPTURE(schedule);
    const std::string virtual_stages =
        schedule.starts_with("interleaved") ? ", virtual_stages: 2" : "";
    const bool recomputes = schedule == "scp";
    const Prepared prepared =
        prepare_text(study("[1, 2, 3, 2]", 16, "pipeline: 2, data: 2" + virtual_stages, schedule),
                     {recomputes ? "recompute=full" : "recompute=none"});
    const Program program = compiled_program(prepared);
    CHECK(program.num_microbatches == 4);
    double executed = 0;
    for (const RankTrace& rank : simulate(prepared, program).ranks) {
      executed += rank.executed_flop * static_cast<double>(rank.multiplicity);
    }
    const double model = model_flop_per_step(prepared.study, prepared.model);
    if (!recomputes) CHECK(executed == Approx(model).epsilon(0.2));
    CHECK(model ==
          Approx(model_flop_per_step(prepare_text(study("1", 16, "pipeline: 2, data: 2")).study,
                                     prepare_text(study("1", 16, "pipeline: 2, data: 2")).model)));
  }
}

TEST_CASE("a list that is not the global batch is refused with what would be") {
  CHECK_THROWS_WITH(
      prepare_text(study("[2, 3, 3]", 9)),
      Catch::Contains(
          "training.microbatch: lists 8 sequences, and data(1) replicas of them are 8, not "
          "training.global_batch 9; 9 sequences are"));
  CHECK_THROWS_WITH(prepare_text(study("[2, 3]", 9, "pipeline: 1, data: 2")),
                    Catch::Contains("; global_batch 10 is"));
  CHECK_THROWS_WITH(prepare_text(study("[2, 0]", 2)), Catch::Contains("training.microbatch"));
  CHECK_THROWS_WITH(prepare_text(study("[]", 2)),
                    Catch::Contains("expected at least one microbatch"));
  CHECK_THROWS_WITH(
      prepare_text(study("[4, 4]", 8, "pipeline: 4, data: 1", "scp"), {"recompute=full"}),
      Catch::Contains("a list of 4 in training.microbatch does"));
}

}  // namespace trainyard::microbatch_sizes_test
