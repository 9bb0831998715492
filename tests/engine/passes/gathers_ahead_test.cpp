// What a call begins with, the call before it gathers: where, how long that stays, and what hides.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "engine/program/program_text.h"
#include "tests/support/simulated.h"
#include "tests/support/unit_events.h"

namespace trainyard::gathers_ahead_test {

TEST_CASE("a call gathers what the next one begins with") {
  // The backward begins with the layer that the forward ends with: no sooner than it is freed.
  const Program program = compiled("tensor: 1, pipeline: 1, data: 4, zero: 3");
  CHECK(events(program, "0F+0GATHER_B") == Events{"gather b3", "gather b2", "layer 0", "free b3",
                                                  "gather b1", "layer 1", "free b2", "layer 2",
                                                  "free b1", "gather b1"});
  CHECK(segment(program, "0F+0GATHER_B").slots == 1);
  CHECK(segment(program, "0B+0GATHER_F").slots == 2);
  std::vector<std::string> calls;
  for (const Call& call : program.body[0].calls)
    calls.push_back(program.segments[call.segment].name);
  std::vector<std::string> expected = {"0ZERO", "0GATHER_F"};
  for (int i = 0; i < 7; ++i) {
    expected.emplace_back("0F+0GATHER_B");
    expected.emplace_back("0B+0GATHER_F");
  }
  expected.insert(expected.end(), {"0F+0GATHER_B", "0B"});
  calls.resize(expected.size());
  CHECK(calls == expected);
  CHECK(parse_program(to_text(program), "program.txt") == program);

  // A stage of layers 0 and 1, b1 and b0: while the one computes the other is gathered for the next
  // forward, and for a backward once it has gone.
  const Program pipeline = compiled("tensor: 1, pipeline: 2, data: 4, zero: 3",
                                    "partition: {method: uniform, uneven: true}\n");
  CHECK(events(pipeline, "0F+0GATHER_F") ==
        Events{"gather b0", "layer 0", "free b1", "gather b1", "layer 1", "free b0"});
  CHECK(events(pipeline, "0F+0GATHER_B") ==
        Events{"gather b0", "layer 0", "free b1", "layer 1", "free b0", "gather b0"});
  CHECK(parse_program(to_text(pipeline), "program.txt") == pipeline);

  // Without what the call before gathers there is nothing to read.
  Program forgets = program;
  for (Call& call : forgets.body[0].calls) {
    if (forgets.segments[call.segment].name != "0B+0GATHER_F") continue;
    call.segment = number_of(program, "0B");
    call.mb[1] = -1;
    break;
  }
  const auto violation = find_violation(forgets);
  REQUIRE(violation.has_value());
  CHECK(violation->find("is used before it is written") != std::string::npos);
}

TEST_CASE("what has been gathered ahead counts so until it is read") {
  // At the end of a forward the next microbatch's first layer is there, and nothing else but the
  // ends, which stay for the step.
  const Program program = compiled("tensor: 1, pipeline: 2, data: 4, zero: 3",
                                   "partition: {method: uniform, uneven: true}\n");
  Bytes before = 0, behind = 0, ahead = 0;
  follow_memory(program, {}, [&](std::size_t list, const MemoryStep& step) {
    if (list > 0 || step.segment == kNoIndex) return;
    const std::string& name = program.segments[step.segment].name;
    if (name == "0GATHER") before = step.after[MemoryClass::kParameter];
    if (name == "0GATHER_F") ahead = step.prefetched;
    if (name == "0F+0GATHER_F") behind = step.after[MemoryClass::kParameter];
  });
  CHECK(behind - before == 2 * kLayer);
  // Before the first forward: the ends, of which the final norm is the other stage's, and a layer.
  CHECK(ahead == 2 * (kRoot - 2 * 32 + kLayer));
}

TEST_CASE("gathers hide behind whatever the call before computes") {
  // Stages of four layers that compute longer than a layer is gathered. The last stage, which waits
  // for nobody, waits for the first layer of the step and for the one with which the backwards
  // begin, however many microbatches there are; without, for each layer of each.
  const auto exposed = [](int microbatches, const std::string& prefetch) {
    const Simulated run = simulate_text(
        "model: {family: gpt, layers: 8, hidden: 1024, heads: 16, vocab: 2048, seq_len: 2048}\n"
        "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {tensor: 1, pipeline: 2, data: 4, "
        "zero: {stage: 3, reduce: last, prefetch: " +
            prefetch + "}}\ntraining: {global_batch: " + std::to_string(16 * microbatches) +
            ", microbatch: 4, dropout: 0, precision: bf16}\nschedule: gpipe\nfidelity: analytic\n",
        true);
    const auto& ranks = run.result.trace.ranks;
    const auto last = std::find_if(ranks.begin(), ranks.end(),
                                   [](const RankTrace& rank) { return rank.list == 1; });
    REQUIRE(last != ranks.end());
    return last->time.exposed.at("all_gather:dp");
  };
  const Seconds few = exposed(4, "1");
  CHECK(exposed(8, "1") == Approx(few).epsilon(1e-6));
  CHECK(exposed(8, "0") == Approx(2 * exposed(4, "0")).epsilon(0.02));
  CHECK(exposed(4, "0") > 10 * few);
}

}  // namespace trainyard::gathers_ahead_test
