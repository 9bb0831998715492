// What holds for every study, whatever its numbers: each rank's period is accounted for, folding
// and other shortcuts do not change the answer, and the same inputs give the same bytes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "app/simulation.h"
#include "report/trace_json.h"
#include "tests/support/studies.h"
#include "tests/support/timing.h"

namespace trainyard::executor_laws_test {

namespace {

/// A small study; `cluster` continues "preset: dgx-a100-80g, ".
std::string study(const std::string& cluster, const std::string& parallel,
                  const std::string& rest = "") {
  return "model: {family: gpt, layers: 12, hidden: 256, heads: 8, vocab: 512, seq_len: 64}\n"
         "cluster: {preset: dgx-a100-80g, " +
         cluster + "}\nparallel: {" + parallel +
         "}\ntraining: {global_batch: 24, microbatch: 1}\n" + rest;
}

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

const std::vector<std::string> kStudies = {
    study("nodes: 1", "tensor: 2, pipeline: 2, data: 2"),
    study("nodes: 1", "tensor: 1, pipeline: 1, data: 1"),
    study("nodes: 1", "tensor: 1, pipeline: 1, data: 8, zero: 1"),
    study("nodes: 1", "tensor: 8, pipeline: 1, sequence_parallel: true"),
    study("nodes: 2", "tensor: 2, pipeline: 4, data: 2, sequence_parallel: true",
          "recompute: full\n"),
    study("nodes: 2", "tensor: 1, pipeline: 4, data: 3, zero: 1, placement: PDT",
          "schedule: gpipe\n"),
    study("nodes: 2", "tensor: 2, pipeline: 4, data: 2, virtual_stages: 3",
          "schedule: interleaved\n"),
    study("nodes: 2", "tensor: 2, pipeline: 3, data: 2", "framework: megatron-lm\n"),
    study("nodes: 1, speed: {1: 0.5, 6: 0.25}", "tensor: 2, pipeline: 2, data: 2"),
};

/// Sums of some ten thousand differences of times of several periods, in another order.
bool close(double a, double b, double scale) { return std::abs(a - b) <= 1e-10 * scale; }

/// What differs between the time classes of two ranks, in units of `scale`.
std::string difference(const TimeClasses& a, const TimeClasses& b, double scale) {
  std::string text;
  const auto compare = [&](const std::string& name, double x, double y) {
    if (!close(x, y, scale))
      text += name + ": " + std::to_string(x) + " and " + std::to_string(y) + "; ";
  };
  compare("compute", a.compute, b.compute);
  compare("optimizer", a.optimizer, b.optimizer);
  compare("host", a.host, b.host);
  compare("bubble", a.bubble, b.bubble);
  auto kinds = a.exposed;
  kinds.insert(b.exposed.begin(), b.exposed.end());
  for (const auto& [kind, seconds] : kinds) {
    const auto of = [&kind = kind](const TimeClasses& time) {
      return time.exposed.count(kind) ? time.exposed.at(kind) : 0;
    };
    compare(kind, of(a), of(b));
  }
  return text;
}

/// How many rows differ: their ops, or times by more than `scale` allows.
int different_rows(const std::vector<TraceRow>& a, const std::vector<TraceRow>& b, double scale) {
  if (a.size() != b.size()) return static_cast<int>(std::max(a.size(), b.size()));
  int out = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const TraceRow &x = a[i], &y = b[i];
    const bool same_op = x.step == y.step && x.segment == y.segment && x.mb == y.mb && x.op == y.op;
    out += !(same_op && close(x.issued, y.issued, scale) && close(x.ready, y.ready, scale) &&
             close(x.start, y.start, scale) && close(x.end, y.end, scale));
  }
  return out;
}

/// At once, with and without rows, against every op by itself.
void check_op_by_op(const Compiled& c) {
  RunOptions options;
  const Trace without_rows = run(c.program, c.costs, options);
  options.record_rows = true;
  const Trace at_once = run(c.program, c.costs, options);
  options.reuse = false;
  const Trace each = run(c.program, c.costs, options);
  CHECK(at_once.step_ends == without_rows.step_ends);  // to the last bit
  CHECK(close(at_once.period, each.period, each.period));
  // Where kernels slow down some ranks begin another step before the last one ends that counts.
  if (!c.costs.slowdown.any()) CHECK(at_once.num_events == each.num_events);
  REQUIRE(at_once.ranks.size() == each.ranks.size());
  for (std::size_t r = 0; r < each.ranks.size(); ++r) {
    CAPTURE(r);
    CHECK(difference(at_once.ranks[r].time, each.ranks[r].time, each.period) == "");
    CHECK(each.ranks[r].rows.size() > 100);
    CHECK(different_rows(at_once.ranks[r].rows, each.ranks[r].rows, each.step_ends.back()) == 0);
  }
}

}  // namespace

TEST_CASE("time classes add up to the period on every rank") {
  for (const std::string& yaml : kStudies) {
    CAPTURE(yaml);
    const Compiled c = compile_text(yaml);
    const Trace trace = run(c.program, c.costs);
    CHECK(trace.steady);
    std::int64_t ranks = 0;
    for (const RankTrace& rank : trace.ranks) {
      CAPTURE(rank.rank);
      CHECK(std::abs(rank.time.total() - trace.period) <= 1e-9 * trace.period);
      CHECK(rank.time.compute > 0);
      for (double part : {rank.time.optimizer, rank.time.host, rank.time.bubble}) CHECK(part >= 0);
      ranks += rank.multiplicity;
    }
    CHECK(ranks == c.program.mesh.num_ranks());
  }
}

TEST_CASE("folded and unfolded agree to 11 digits, rank by rank") {
  const std::string placement = GENERATE("DPT", "PDT", "TPD");
  const std::string cluster =
      GENERATE("nodes: 3",                            // part-filled
               "nodes: 3, speed: {3: 0.6, 17: 0.9}",  // stragglers
               "nodes: 3, fabric: {kind: fat-tree, leaf: 2 nodes, oversubscription: 3}");
  const std::string parallel =
      GENERATE("tensor: 2, pipeline: 3, data: 3", "tensor: 2, pipeline: 3, data: 4, zero: 1");
  CAPTURE(placement, cluster, parallel);
  const Compiled c = compile_text(study(cluster, parallel + ", placement: " + placement));
  RunOptions options;
  const Trace folded = run(c.program, c.costs, options);
  options.fold = false;
  const Trace unfolded = run(c.program, c.costs, options);
  REQUIRE(unfolded.ranks.size() == static_cast<std::size_t>(c.program.mesh.num_ranks()));
  CHECK(close(folded.period, unfolded.period, unfolded.period));
  CHECK(folded.step_ends.size() == unfolded.step_ends.size());
  std::int64_t ranks = 0;
  TimeClasses sum_folded;
  TimeClasses sum_unfolded;
  const auto add = [](TimeClasses& to, const TimeClasses& part, double times) {
    to.compute += times * part.compute;
    to.optimizer += times * part.optimizer;
    to.host += times * part.host;
    to.bubble += times * part.bubble;
    for (const auto& [kind, seconds] : part.exposed) to.exposed[kind] += times * seconds;
  };
  for (const RankTrace& rank : folded.ranks) {
    const RankTrace& same = unfolded.ranks[static_cast<std::size_t>(rank.rank)];
    CHECK(same.rank == rank.rank);
    CHECK(difference(rank.time, same.time, unfolded.period) == "");
    CHECK(rank.executed_flop == same.executed_flop);
    add(sum_folded, rank.time, static_cast<double>(rank.multiplicity));
    ranks += rank.multiplicity;
  }
  for (const RankTrace& rank : unfolded.ranks) add(sum_unfolded, rank.time, 1);
  CHECK(ranks == c.program.mesh.num_ranks());
  CHECK(difference(sum_folded, sum_unfolded, static_cast<double>(ranks) * unfolded.period) == "");
}

TEST_CASE("replicas that lie alike are simulated once") {
  const auto classes = [](const std::string& cluster, const std::string& parallel) {
    const Compiled c = compile_text(study(cluster, parallel));
    std::vector<std::int64_t> multiplicities;
    for (const RankTrace& rank : run(c.program, c.costs).ranks)
      multiplicities.push_back(rank.multiplicity);
    return multiplicities;
  };
  using Multiplicities = std::vector<std::int64_t>;
  // Every replica fills a node: one class per pipeline rank, of 3 replicas of 2.
  CHECK(classes("nodes: 3", "tensor: 2, pipeline: 4, data: 3") == Multiplicities{6, 6, 6, 6});
  // Every stage fills a node: likewise, of 4 replicas of 2.
  CHECK(classes("nodes: 3", "tensor: 2, pipeline: 3, data: 4, placement: PDT") ==
        Multiplicities{8, 8, 8});
  // Device 9 is slow: the second of a pair on stage 0 of replica 1. Its column of replicas waits
  // for it in the reductions, its pair in the forward, and so does whoever meets those: of two
  // replicas left, each pair is like the other's.
  CHECK(classes("nodes: 3, speed: {9: 0.5}", "tensor: 2, pipeline: 4, data: 3") ==
        Multiplicities{2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("timing runs of kernels and bodies at once gives what timing each op gives, row by row") {
  for (const std::string& yaml : kStudies) {
    CAPTURE(yaml);
    check_op_by_op(compile_text(yaml));
  }
}

TEST_CASE("a body's first gather waits for the gather before it, though main has") {
  // Nothing is gathered ahead: the embedding, on main, waits for the root unit's gather, and the
  // first layer's gather begins a body.
  check_op_by_op(compile_text(
      "model: {family: llama, layers: 2, hidden: 64, heads: 4, vocab: 50, seq_len: 128, kv_heads: "
      "1}\ncluster: {device: h100-pcie-80g, devices: 2, devices_per_node: 3, p2p: off, host: "
      "{memory: 64 GB/s}, intra: {kind: pcie, bandwidth: 28 GB/s, latency: 4 us}}\n"
      "parallel: {data: 2, zero: {stage: 3, reduce_dtype: bf16, prefetch: 0}}\n"
      "training: {global_batch: 8, microbatch: 2, precision: fp32, optimizer: sgd, "
      "flash_attention: true}\nschedule: gpipe\n"));
}

TEST_CASE("ranks with unlike lists are timed op by op where they meet") {
  // Scales of FP8 are agreed on by replicas of two and of three ranks, whose microbatches of 8 and
  // of 7 sequences are cut into other pieces: stretches of one list end elsewhere in another.
  check_op_by_op(compile_text(
      "model: {family: gpt, layers: 4, hidden: 256, heads: 4, vocab: 1000, seq_len: 128}\n"
      "cluster: {preset: dgx-h100, nodes: 1}\n"
      "training: {global_batch: 15, microbatch: [8, 7], precision: fp8}\n"
      "partition: {cuts: [2], replicas: [2, 3]}\n"
      "schedule: zb-h1\nrecompute: {method: full, ends: true}\n"));
}

TEST_CASE("bodies wait for collectives before them, where halves or pairs take turns") {
  // Large enough that devices, not hosts, set the pace; a kernel of one half may then be ready
  // before the collective of the other, which its body begins with, and waits for an earlier one.
  const std::string base =
      "model: {family: gpt, layers: 16, hidden: 1024, heads: 16, vocab: 51200, seq_len: 1024}\n"
      "cluster: {preset: dgx-h100, nodes: 1}\ntraining: {global_batch: 16, microbatch: 2}\n";
  for (const std::string& rest :
       {std::string("parallel: {tensor: 2, pipeline: 4, data: 1, sequence_parallel: true, "
                    "tensor_overlap: across-blocks}\n"),
        std::string("parallel: {tensor: 2, pipeline: 4, data: 1, sequence_parallel: true, "
                    "virtual_stages: 2}\nschedule: dualpipe-v\n"),
        std::string("parallel: {tensor: 4, data: 1, sequence_parallel: true, tensor_overlap: "
                    "block}\nrecompute: full\n"
                    "offload: {activations: true, horizon: 1}\n")}) {
    CAPTURE(rest);
    check_op_by_op(compile_text(base + rest));
  }
}

TEST_CASE("the same study gives the same bytes twice") {
  const std::string fidelity = GENERATE("analytic", "fluid");
  const auto answer = [&] {
    RunOptions options;
    options.record_rows = true;
    const auto simulated =
        simulate(prepare_text(kStudies.front(), {"fidelity=" + fidelity}), options);
    const auto& result = std::get<Simulation>(simulated);
    std::string text = summary_json(result.summary, 0);
    write_trace_json(make_timeline(result.program, result.trace, {}),
                     [&](std::string_view piece) { text += piece; });
    return text;
  };
  const std::string first = answer();
  CHECK(first.size() > 10'000);
  CHECK(answer() == first);
}

}  // namespace trainyard::executor_laws_test
