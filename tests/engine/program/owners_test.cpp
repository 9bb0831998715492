// ZeRO-1 by whole parameters: who owns what, what that leaves on a rank, and how long it takes.
#include "engine/program/owners.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "engine/cost/collective_time.h"
#include "engine/exec/analytic_executor.h"
#include "engine/exec/costs.h"
#include "engine/memory/memory.h"
#include "engine/partition/parameter_owners.h"
#include "engine/program/program_text.h"
#include "engine/program/verify.h"
#include "tests/support/studies.h"

namespace trainyard::owners_test {

namespace {

std::string study(const std::string& parallel, const std::string& training = "") {
  return "model: {family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 40, seq_len: 8}\n"
         "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {" +
         parallel + "}\ntraining: {global_batch: 8, dropout: 0" + training + "}\n";
}

const std::string kByParameter = ", zero: {stage: 1, by: parameter}";

std::int64_t elements(const Value& value) { return num_elements(value.dims); }

Trace simulate(const Prepared& prepared, const Program& program, bool fold) {
  SourceLog log;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
  RunOptions options;
  options.fold = fold;
  const Job job{&program, 0};
  return AnalyticExecutor().run({&job, 1}, costs, options);
}

}  // namespace

TEST_CASE("the largest parameter goes first, to the owner with least") {
  // 7 to 0, 5 to 1, 4 to 2; the first 3 to 2, which has 4 against 7 and 5, the second to 1, which
  // has 5 against 7 and 7.
  CHECK(balanced_owners({3, 7, 3, 5, 4}, 3) == std::vector<std::int32_t>{2, 0, 1, 1, 2});
  // Equal ones in order, to the lowest of equal owners.
  CHECK(balanced_owners({1, 1, 1, 1, 1}, 2) == std::vector<std::int32_t>{0, 1, 0, 1, 0});
  // What is decided counts first: owner 1 has 10 already.
  CHECK(balanced_owners({10, 4, 4, 4}, 2, {1, -1, -1, -1}) ==
        std::vector<std::int32_t>{1, 0, 0, 0});
  CHECK(balanced_owners({}, 4).empty());
  CHECK(balanced_owners({5}, 4) == std::vector<std::int32_t>{0});
}

TEST_CASE("each gradient goes to the owner of its parameter, whose update all get") {
  const Program program =
      compiled_program(prepare_text(study("pipeline: 1, data: 4" + kByParameter)));
  std::map<std::int32_t, std::int64_t> state;  // elements of first moments by owner
  std::int64_t parameters = 0;
  for (const Value& value : program.values) {
    if (value.name.ends_with(".exp_avg")) {
      REQUIRE(value.owner >= 0);
      state[value.owner] += elements(value);
    }
    if (value.memory == MemoryClass::kParameter && !value.alias) parameters += elements(value);
  }
  CHECK(state.size() == 4);
  std::int64_t all = 0, most = 0;
  for (const auto& [owner, size] : state) all += size, most = std::max(most, size);
  // Every parameter has one owner, no padding; the fullest has less than 4/3 of a fair share.
  CHECK(all == parameters);
  CHECK(3 * most * 4 <= 4 * parameters);
  std::map<std::int32_t, std::size_t> reduced, updated, sent;
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      if (op.kind == OpKind::kReduce) ++reduced[owner_of(program, op)];
      if (op.kind == OpKind::kAdamW) ++updated[owner_of(program, op)];
      if (op.kind == OpKind::kBroadcast) ++sent[owner_of(program, op)];
      CHECK(op.kind != OpKind::kReduceScatter);
    }
  }
  CHECK(reduced == updated);
  CHECK(sent == updated);
  CHECK(updated.size() == 4);
  CHECK(parse_program(to_text(program), "p.txt") == program);
}

TEST_CASE("weights that two stages share have one owner on both") {
  const Program program =
      compiled_program(prepare_text(study("pipeline: 2, data: 2" + kByParameter)));
  std::vector<std::int32_t> owners;
  for (const Segment& segment : program.segments) {
    if (segment.name.find("REDUCE_TIED") == std::string::npos) continue;
    owners.push_back(program.values[segment.ops[0].reads[0].value].owner);
  }
  REQUIRE(owners.size() == 2);
  CHECK(owners[0] == owners[1]);
}

TEST_CASE("a rank has the state of what it owns, and the one that owns most counts") {
  const Program program =
      compiled_program(prepare_text(study("pipeline: 1, data: 4" + kByParameter)));
  std::map<std::int32_t, Bytes> state;
  for (const Value& value : program.values) {
    if (value.memory == MemoryClass::kOptimizerState) state[value.owner] += size_in_bytes(value);
  }
  Bytes most = 0;
  for (const auto& [owner, bytes] : state) most = std::max(most, bytes);
  CHECK(memory_peaks(program, {})[0].optimizer_state == most);
  // By shard every rank has a quarter, here up to padding; by parameter the fullest has no less.
  const Program shards = compiled_program(prepare_text(study("pipeline: 1, data: 4, zero: 1")));
  const Program whole = compiled_program(prepare_text(study("pipeline: 1, data: 4")));
  CHECK(memory_peaks(shards, {})[0].optimizer_state <= most);
  CHECK(most < memory_peaks(whole, {})[0].optimizer_state / 2);
}

TEST_CASE("a reduce takes as long as a broadcast, a pipelined chain") {
  // (n - 2 + c) (alpha + S / (c B)) with n = 4, alpha = 1 us, S = 8 MB, B = 1 GB/s: c = 126 is the
  // first with c (c + 1) >= 2 x 8 ms / 1 us; 128 x (1 us + 8 ms / 126).
  const double expected = 128 * (1e-6 + 8e-3 / 126);
  Cluster cluster;
  cluster.devices_per_node = 4;
  cluster.intra.kind = "nvswitch";
  cluster.intra.bandwidth = 1e9;
  cluster.intra.collective.latency = 1e-6;
  SourceLog log;
  const GroupLayout group{4, 1, 4, 1, 4};
  CHECK(collective_time(OpKind::kReduce, 8'000'000, group, cluster, log) == Approx(expected));
  CHECK(collective_time(OpKind::kBroadcast, 8'000'000, group, cluster, log) == Approx(expected));
}

TEST_CASE("ranks that own unlike parameters are not folded, and folding changes nothing") {
  for (const std::string parallel :
       {"pipeline: 1, data: 4", "pipeline: 2, data: 4", "tensor: 2, pipeline: 2, data: 2"}) {
    for (const std::string clip : {", clip_norm: 0", ""}) {
      CAPTURE(parallel, clip);
      const Prepared prepared = prepare_text(study(parallel + kByParameter, clip));
      const Program program = compiled_program(prepared);
      const Trace folded = simulate(prepared, program, true),
                  unfolded = simulate(prepared, program, false);
      CHECK(folded.period == Approx(unfolded.period).epsilon(1e-12));
      // Tensor ranks are alike, replicas are not.
      CHECK(
          folded.ranks.size() ==
          static_cast<std::size_t>(num_pipeline_ranks(program.mesh) *
                                   group_size(program.mesh, program.groups[program.owners].axes)));
    }
  }
}

TEST_CASE("the update of a rank takes the time of what it owns") {
  Prepared prepared = prepare_text(study("pipeline: 1, data: 2" + kByParameter));
  prepared.hardware.slowdown = {};  // updates alone, whatever is gathered beside them
  const Program program = compiled_program(prepared);
  SourceLog log;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
  std::vector<double> expected(2, 0);
  for (const Call& call : program.body[0].calls) {
    const Segment& segment = program.segments[call.segment];
    if (segment.phase != Phase::kUpdate) continue;
    for (std::size_t k = 0; k < segment.ops.size(); ++k) {
      const std::int32_t owner = owner_of(program, segment.ops[k]);
      const double time = costs.ops.at(1.0)[call.segment][k].kernel;
      for (std::int32_t replica = 0; replica < 2; ++replica) {
        if (owner < 0 || owner == replica) expected[static_cast<std::size_t>(replica)] += time;
      }
    }
  }
  const Trace trace = simulate(prepared, program, true);
  REQUIRE(trace.ranks.size() == 2);
  CHECK(expected[0] > 0);
  for (std::size_t r = 0; r < 2; ++r) CHECK(trace.ranks[r].time.optimizer == Approx(expected[r]));
}

TEST_CASE("a Program whose owners make no sense is refused") {
  const Program good = compiled_program(prepare_text(study("pipeline: 1, data: 2" + kByParameter)));
  REQUIRE(!find_violation(good));
  const auto find = [](Program& program, const std::string& suffix) -> Value& {
    return *std::find_if(program.values.begin(), program.values.end(),
                         [&](const Value& value) { return value.name.ends_with(suffix); });
  };
  Program beyond = good;
  find(beyond, ".exp_avg").owner = 2;
  CHECK(find_violation(beyond)->find("its owner is no member of the owners") != std::string::npos);
  Program two = good;
  Program same = good;
  find(two, ".exp_avg").owner = static_cast<std::int16_t>(1 - find(same, ".exp_avg").owner);
  CHECK(find_violation(two)->find("touches values of two owners") != std::string::npos);
  Program rootless = good;
  find(rootless, ".dp_sum").owner = -1;
  CHECK(find_violation(rootless)->find("has no root among the owners") != std::string::npos);
}

}  // namespace trainyard::owners_test
