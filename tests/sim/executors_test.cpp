// The executors with contention against the analytic one, and against themselves: where nothing
// contends they agree, contention never makes a step faster, and neither folding nor reuse changes
// an answer.
#include <catch2/catch.hpp>
#include <cmath>

#include "app/simulation.h"
#include "engine/exec/channels/lanes.h"
#include "sim/network_executor.h"
#include "tests/support/example_program.h"
#include "tests/support/random_plan.h"
#include "tests/support/studies.h"
#include "tests/support/study_outcome.h"
#include "tests/support/timing.h"

namespace trainyard::executors_test {

namespace {

Approx exactly(double value) { return Approx(value).epsilon(1e-9).margin(0); }

struct Compiled {
  Program program;
  Costs costs;
};

Compiled compile_text(const std::string& yaml) {
  const Prepared prepared = prepare_text(yaml);
  Compiled out;
  out.program = compiled_program(prepared);
  SourceLog log;
  out.costs =
      make_costs(out.program, prepared.hardware, prepared.software, prepared.study.cluster, log);
  return out;
}

/// A small study; `cluster` continues "preset: dgx-a100-80g, ".
std::string study(const std::string& cluster, const std::string& parallel,
                  const std::string& rest = "") {
  return "model: {family: gpt, layers: 12, hidden: 256, heads: 8, vocab: 512, seq_len: 64}\n"
         "cluster: {preset: dgx-a100-80g, " +
         cluster + "}\nparallel: {" + parallel +
         "}\ntraining: {global_batch: 24, microbatch: 1}\n" + rest;
}

Trace simulate(const Compiled& c, Fidelity fidelity, bool fold = true, bool reuse = true) {
  RunOptions options;
  options.fold = fold;
  options.reuse = reuse;
  const std::array<Job, 1> jobs = {Job{&c.program, 0}};
  return NetworkExecutor(fidelity).run(jobs, c.costs, options);
}

}  // namespace

TEST_CASE("analytic equals fluid and step where nothing contends") {
  // One group at a time: tensor parallelism alone, data parallelism alone, a pipeline over nodes
  // whose transfers never meet (one microbatch).
  const std::string yaml =
      GENERATE(study("nodes: 1", "tensor: 8, pipeline: 1, sequence_parallel: true"),
               study("nodes: 1", "tensor: 1, pipeline: 1, data: 8"),
               study("nodes: 2", "tensor: 8, pipeline: 1, data: 2"),
               study("nodes: 1", "tensor: 1, pipeline: 1"));
  CAPTURE(yaml);
  const Compiled c = compile_text(yaml);
  const Trace analytic = run(c.program, c.costs);
  for (const Fidelity fidelity : {Fidelity::kFluid, Fidelity::kStep}) {
    for (const bool reuse : {true, false}) {
      CAPTURE(static_cast<int>(fidelity), reuse);
      const Trace trace = simulate(c, fidelity, true, reuse);
      CHECK(trace.period == exactly(analytic.period));
      CHECK(trace.steady);
      CHECK(!trace.links.empty());
    }
  }
}

TEST_CASE("time classes add up to the period with contention too") {
  const std::string yaml =
      GENERATE(study("nodes: 2", "tensor: 2, pipeline: 4, data: 2, sequence_parallel: true"),
               study("nodes: 2", "tensor: 1, pipeline: 4, data: 4, zero: 1, placement: PDT"),
               study("nodes: 4, fabric: {kind: fat-tree, leaf: 1 nodes, oversubscription: 8}",
                     "tensor: 4, pipeline: 4, data: 2"));
  CAPTURE(yaml);
  const Compiled c = compile_text(yaml);
  const Trace trace = simulate(c, Fidelity::kFluid);
  const Trace analytic = run(c.program, c.costs);
  CHECK(trace.period >= analytic.period * (1 - 1e-9));
  for (const RankTrace& rank : trace.ranks)
    CHECK(std::abs(rank.time.total() - trace.period) <= 1e-9 * trace.period);
}

TEST_CASE("measured messages take what was measured, whatever else is on the way") {
  // ZeRO-1 gathers and transfers of four stages share an oversubscribed trunk.
  Compiled c =
      compile_text(study("nodes: 4, fabric: {kind: fat-tree, leaf: 1 nodes, oversubscription: 8}",
                         "tensor: 4, pipeline: 4, data: 2, zero: 1"));
  CHECK(simulate(c, Fidelity::kFluid).period > run(c.program, c.costs).period);  // they do meet
  c.costs.messages.assign(find_lanes(c.program).messages.size(), 50e-6);
  const Trace analytic = run(c.program, c.costs);
  for (const Fidelity fidelity : {Fidelity::kFluid, Fidelity::kStep}) {
    CAPTURE(static_cast<int>(fidelity));
    CHECK(simulate(c, fidelity).period == exactly(analytic.period));
  }
  // Longer by what is exposed of them, and at most by all.
  for (auto& seconds : c.costs.messages) seconds = 100e-6;
  CHECK(run(c.program, c.costs).period > analytic.period);
}

TEST_CASE("a straggler sets the pace of a pipeline") {
  // Stage 0 takes 1 s and stage 1 as long at full speed; three microbatches, transfers and launches
  // free: 1 + 3. On a device of half the speed stage 1 takes 2 s: 1 + 3 * 2.
  const Program program = verified(
      "program 2\nmesh pp=2:stages dp=1 tp=1\nmicrobatches 3\ntransfer 0 pp+1\ntransfer 1 "
      "pp-1\npool in:3\n"
      "value x uint8[3] mb activation\nvalue y uint8[3] mb buffer pool:in\nvalue z uint8[1] local "
      "activation\n"
      "segment 0F(m) stage:0 F\n  main gelu -> x[m]\nsegment 0SEND(m) stage:0 C\n  fwd send:0 "
      "x[m]\n"
      "segment 0FREE(m) stage:0 C\n  main free x[m]\nsegment 1RECV(m) stage:1 C\n  fwd recv:1 -> "
      "y[m]\n"
      "segment 1F(m) stage:1 F\n  main gelu y[m] -> z\n  main free z y[m]\n"
      "class pp:0\n  0F0 0SEND0 0F1 0SEND1 0F2 0SEND2 0FREE0 0FREE1 0FREE2\n"
      "class pp:1\n  1RECV0 1RECV1 1RECV2 1F0 1F1 1F2\nplacement pp:1 dp:2 tp:2\n");
  const double factor = GENERATE(1.0, 0.5);
  Compiled c{program, zero_costs(program, free_links(2, 1))};
  if (factor != 1) c.costs.cluster.speed = {{1, factor}};
  c.costs.ops[factor] = c.costs.ops[1.0];
  for (auto& [speed, segments] : c.costs.ops) {
    for (const SegmentId s : segments.keys()) {
      if (program.segments[s].phase == Phase::kForward) segments[s][0].kernel = 1 / speed;
    }
  }
  RunOptions options;
  options.max_steps = 1;
  const std::array<Job, 1> jobs = {Job{&c.program, 0}};
  for (const Fidelity fidelity : {Fidelity::kFluid, Fidelity::kStep}) {
    CHECK(NetworkExecutor(fidelity).run(jobs, c.costs, options).period == exactly(1 + 3 / factor));
  }
}

TEST_CASE("axes may have any name, and a group over two is one over their product") {
  const auto period = [](const std::string& text, Fidelity fidelity) {
    const Program program = verified(text);
    return simulate({program, zero_costs(program, slow_links(16))}, fidelity).period;
  };
  for (const Fidelity fidelity : {Fidelity::kFluid, Fidelity::kStep}) {
    CHECK(period(kExampleOnFourAxes, fidelity) == period(kExampleOnThreeAxes, fidelity));
  }
}

TEST_CASE("folding and reuse change no answer, over placements, remainder leaves and stragglers") {
  const std::string placement = GENERATE("DPT", "PDT", "TPD");
  const std::string cluster = GENERATE(
      "nodes: 3",                                                                // part-filled
      "nodes: 3, speed: {3: 0.6, 17: 0.9}",                                      // stragglers
      "nodes: 3, fabric: {kind: fat-tree, leaf: 2 nodes, oversubscription: 8}",  // a leaf half full
      "nodes: 3, nics: 2, fabric: {kind: fat-tree, leaf: 2 nodes, oversubscription: 4}");
  const std::string parallel =
      GENERATE("tensor: 2, pipeline: 3, data: 3", "tensor: 2, pipeline: 3, data: 4, zero: 1");
  CAPTURE(placement, cluster, parallel);
  const Compiled c = compile_text(study(cluster, parallel + ", placement: " + placement));
  const Trace folded = simulate(c, Fidelity::kFluid);
  const Trace unfolded = simulate(c, Fidelity::kFluid, false);
  const Trace op_by_op = simulate(c, Fidelity::kFluid, true, false);
  CHECK(unfolded.period == exactly(folded.period));
  CHECK(op_by_op.period == exactly(folded.period));
  REQUIRE(unfolded.ranks.size() == static_cast<std::size_t>(c.program.mesh.num_ranks()));
  for (const RankTrace& rank : folded.ranks) {
    const TimeClasses& same = unfolded.ranks[static_cast<std::size_t>(rank.rank)].time;
    CHECK(std::abs(rank.time.bubble - same.bubble) <= 1e-9 * folded.period);
    CHECK(std::abs(rank.time.exposed_total() - same.exposed_total()) <= 1e-9 * folded.period);
  }
}

TEST_CASE(
    "a run repeats bit for bit, folded or not, with rows or without, even where contention "
    "amplifies rounding") {
  // One of 5,000 random plans, that answers a change of the last digit most: kernels that take
  // microseconds, behind trunks that they share. What ran before it in this process must not
  // matter, nor what is written out.
  const std::string yaml =
      "model: {family: t5, layers: 8, hidden: 256, heads: 4, vocab: 32000, seq_len: 24, "
      "activation: geglu}\n"
      "cluster: {device: a100-sxm-40g, devices: 34, devices_per_node: 1, inter: {kind: ethernet, "
      "bandwidth: 2 GB/s, latency: 20 us},"
      " fabric: {kind: fat-tree, leaf: 4 nodes, oversubscription: 4.5}}\n"
      "parallel: {tensor: 4, pipeline: 8, data: 1, virtual_stages: 2, sequence_parallel: true, "
      "placement: TPD, scatter_gather: false}\n"
      "training: {global_batch: 128, microbatch: 4, precision: fp32}\nschedule: interleaved\n";
  const auto time = [&](const RunOptions& options, const std::string& latency) {
    const std::vector<std::string> sets = {"fidelity=fluid", "cluster.inter.latency=" + latency};
    return run_study(yaml, sets, options).simulation->summary.iteration_time;
  };
  const auto same_plan = [&](bool fold, bool rows) {
    RunOptions options;
    options.fold = fold;
    options.record_rows = rows;
    return time(options, "20 us");
  };
  const Seconds first = same_plan(true, false);
  CHECK(same_plan(true, false) == first);
  CHECK(same_plan(true, true) == first);
  CHECK(same_plan(false, false) == first);
  CHECK(same_plan(false, true) == first);
  // It does amplify.
  CHECK(std::abs(time({}, "20.0000000001 us") - first) > 1e-6 * first);
}

TEST_CASE(
    "what is recorded changes no time, not by a bit, over schedules, clusters and placements") {
  const std::string schedule = GENERATE("1f1b", "gpipe", "zb-h1", "zb-v, virtual_stages: 2",
                                        "interleaved, virtual_stages: 2");
  const std::string cluster =
      GENERATE("preset: pcie-8x-a100, nodes: 2", "preset: dgx-a100-80g, nodes: 2",
               "preset: dgx-a100-80g, nodes: 4, fabric: {kind: fat-tree, leaf: 1 nodes, "
               "oversubscription: 8}");
  const std::string tensor = GENERATE("1", "2, sequence_parallel: true");
  const std::size_t comma = schedule.find(',');
  const std::string stages = comma == std::string::npos ? "" : schedule.substr(comma);
  const std::string yaml =
      "model: {family: bert, layers: 8, hidden: 128, heads: 8, vocab: 512, seq_len: 64}\ncluster: "
      "{" +
      cluster + "}\nparallel: {tensor: " + tensor + ", pipeline: 4, zero: 1" + stages +
      "}\ntraining: {global_batch: 48, microbatch: 1}\nschedule: " + schedule.substr(0, comma) +
      "\n";
  CAPTURE(yaml);
  const Compiled c = compile_text(yaml);
  const std::array<Job, 1> jobs = {Job{&c.program, 0}};
  for (const Fidelity fidelity : {Fidelity::kFluid, Fidelity::kStep}) {
    for (const bool fold : {true, false}) {
      CAPTURE(static_cast<int>(fidelity), fold);
      RunOptions options;
      options.max_steps = 3;
      options.fold = fold;
      const Trace plain = NetworkExecutor(fidelity).run(jobs, c.costs, options);
      options.record_rows = true;
      for (const bool more_ranks : {false, true}) {
        if (more_ranks) options.trace_ranks = {1, 2, c.program.mesh.num_ranks() - 1};
        const Trace recorded = NetworkExecutor(fidelity).run(jobs, c.costs, options);
        CHECK(recorded.step_ends == plain.step_ends);
        CHECK(recorded.num_events == plain.num_events);
        for (std::size_t r = 0; r < plain.ranks.size(); ++r) {
          CHECK(recorded.ranks[r].time.compute == plain.ranks[r].time.compute);
          CHECK(recorded.ranks[r].time.bubble == plain.ranks[r].time.bubble);
          CHECK(recorded.ranks[r].time.exposed == plain.ranks[r].time.exposed);
        }
      }
    }
  }
}

TEST_CASE(
    "200 random plans: contention never helps, rows, folding and reuse change nothing, nobody is "
    "stuck") {
  constexpr std::uint64_t kFirstSeed = 20'261'122'000;
  int compared = 0, unfolded = 0, slower = 0;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + 200; ++seed) {
    const std::string yaml = random_study(seed);
    CAPTURE(seed, yaml);
    const Outcome analytic = run_study(yaml, {"fidelity=analytic"});
    if (!analytic.simulation) continue;
    const Outcome fluid = run_study(yaml, {"fidelity=fluid"});
    REQUIRE(fluid.simulation);
    REQUIRE(find_implausible(fluid) == "");
    RunOptions recorded;
    recorded.record_rows = true;
    CHECK(run_study(yaml, {"fidelity=fluid"}, recorded).simulation->summary.iteration_time ==
          fluid.simulation->summary.iteration_time);
    const Summary &a = analytic.simulation->summary, &b = fluid.simulation->summary;
    CHECK(b.iteration_time >= a.iteration_time * (1 - contention_slack(a)));
    slower += b.iteration_time > a.iteration_time * (1 + 1e-9);
    ++compared;
    if (b.num_ranks > 48 || b.num_events > 200'000) continue;
    RunOptions each;
    each.fold = false;
    CHECK(run_study(yaml, {"fidelity=fluid"}, each).simulation->summary.iteration_time ==
          exactly(b.iteration_time));
    RunOptions all;
    all.reuse = false;
    CHECK(run_study(yaml, {"fidelity=fluid"}, all).simulation->summary.iteration_time ==
          exactly(b.iteration_time));
    ++unfolded;
  }
  CHECK(compared > 120);
  CHECK(unfolded > 80);
  CHECK(slower > 10);
}

}  // namespace trainyard::executors_test
