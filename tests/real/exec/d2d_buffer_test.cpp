// Transfers through buffers and by hosts bring what was sent: Programs of GPU clusters, run here
// with the CPU's kernels, train to the bit as those without buffers.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "report/transfer_summary.h"
#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::d2d_buffer_test {

namespace {

const std::string kTraining =
    "precision: fp32, dropout: 0.1, optimizer: sgd, clip_norm: 0, lr: {peak: 0.05}, weight_decay: "
    "0, kernels: cpu, flash_attention: false";

std::string study(const std::string& family) { return parity_study(family, kTraining); }

/// GPUs whose pipeline transfers stay in a node of NVLink, cross nodes with RDMA, or have neither.
std::string cluster(int ranks, int per_node, const std::string& intra, const std::string& inter) {
  std::string text =
      "cluster={device: a100-sxm-80g, devices_per_node: " + std::to_string(per_node) +
      ", devices: " + std::to_string(ranks) + ", host: {memory: 100 GB/s}";
  if (per_node > 1) text += ", intra: {kind: " + intra + ", bandwidth: 20 GB/s}";
  if (ranks > per_node) text += ", inter: {kind: " + inter + ", bandwidth: 10 GB/s}";
  return text + "}";
}

/// Tensors that went either way on any boundary.
struct Ways {
  std::int64_t direct = 0, by_host = 0;
};

Ways ways(const Program& program) {
  Ways out;
  for (const RankClass& list : program.body) {
    for (const Call& call : list.calls) {
      for (const ProgramOp& op : program.segments[call.segment].ops) {
        if (op.kind != OpKind::kRecv) continue;
        ++(moved_value(program, op).space == Space::kHost ? out.by_host : out.direct);
      }
    }
  }
  return out;
}

bool has_op(const Program& program, OpKind kind) {
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      if (op.kind == kind) return true;
    }
  }
  return false;
}

void check_equal(const LoopbackRun& plain, const LoopbackRun& buffered) {
  CHECK(!has_op(plain.program, OpKind::kDeviceCopy));
  CHECK(buffered.losses == plain.losses);
  CHECK(buffered.gradients == plain.gradients);
  CHECK(buffered.weights == plain.weights);
}

}  // namespace

TEST_CASE(
    "a run whose transfers take any way is the same to the bit, and trains as one device does") {
  const std::vector<Sets> layouts = {
      {"parallel.pipeline=2"},
      {"parallel.pipeline=4", "schedule=gpipe"},
      {"parallel.pipeline=2", "parallel.tensor=2", "parallel.sequence_parallel=true"},
      {"parallel.pipeline=2", "parallel.data=2", "parallel.zero=1", "training.microbatch=2"}};
  for (const std::string family : {"gpt", "t5"}) {
    const LoopbackRun one = run_loopback(study(family), {}, {.steps = 2});
    for (const Sets& layout : layouts) {
      const int ranks = layout.size() == 1 ? 2 : 4;
      Ways seen;
      const LoopbackRun plain = run_loopback(
          study(family), joined({cluster(ranks, 4, "nvswitch", "")}, layout), {.steps = 2});
      check_same(one, plain, kFp32);
      for (const std::string& where :
           {cluster(ranks, 4, "nvswitch", ""), cluster(ranks, 1, "", "infiniband"),
            cluster(ranks, 4, "pcie", ""), cluster(ranks, 1, "", "ethernet")}) {
        for (const std::string buffer : {"100 B", "1 KiB", "3 KiB", "1 MiB"}) {
          CAPTURE(family, layout, where, buffer);
          const LoopbackRun run = run_loopback(
              study(family), joined(joined({where}, layout), {"parallel.d2d_buffer=" + buffer}),
              {.steps = 2});
          check_equal(plain, run);
          seen.direct += ways(run.program).direct;
          seen.by_host += ways(run.program).by_host;
        }
      }
      CHECK(seen.direct > 0);
      CHECK(seen.by_host > 0);
    }
  }
}

TEST_CASE(
    "transfers take their ways under every schedule, with offload, pairs and unequal "
    "microbatches") {
  const std::vector<Sets> plans = {
      {"schedule=interleaved", "parallel.virtual_stages=2"},
      {"schedule=interleaved-zb1p", "parallel.virtual_stages=2"},
      {"schedule=zb-h1"},
      {"schedule=zb-v", "parallel.virtual_stages=2"},
      {"schedule=dualpipe-v", "parallel.virtual_stages=2", "recompute=full",
       "offload={activations: true, horizon: 1}"},
      {"schedule=scp", "recompute=full", "offload={activations: true, horizon: 1}"},
      {"schedule=last-no-recompute", "recompute=full"},
      {"training.microbatch=[2, 1, 4, 1]"},
      {"schedule=zb-v", "parallel.virtual_stages=2", "training.microbatch=[2, 2, 1, 3]"}};
  for (const Sets& plan : plans) {
    const Sets two = joined({"parallel.pipeline=2"}, plan);
    const LoopbackRun plain =
        run_loopback(study("gpt"), joined({cluster(2, 2, "nvswitch", "")}, two), {.steps = 2});
    for (const std::string& where :
         {cluster(2, 2, "nvswitch", ""), cluster(2, 1, "", "infiniband")}) {
      for (const std::string buffer : {"4 KiB", "100 B"}) {
        CAPTURE(plan, where, buffer);
        const LoopbackRun run = run_loopback(
            study("gpt"), joined(joined({where}, two), {"parallel.d2d_buffer=" + buffer}),
            {.steps = 2});
        check_equal(plain, run);
        const Ways taken = ways(run.program);
        CHECK((buffer == "100 B" ? taken.direct == 0 && taken.by_host > 0 : taken.direct > 0));
      }
    }
  }
}

TEST_CASE("transfers take their ways between stages that lie anywhere, and between modules") {
  const std::string nested =
      "assign: {\"*layers.1\": 1, \"*layers.1.mlp\": 0, \"*layers.0.mlp\": 1}}";
  const std::vector<Sets> plans = {
      {"partition={cuts: [1, 3], on: [0, 1, 0]}", "schedule=1f1b"},
      {"partition={cuts: [1, 2, 3], on: [1, 3, 0, 2]}", "schedule=gpipe"},
      {"parallel.pipeline=2", "schedule=gpipe", "partition={method: smp, " + nested},
      {"parallel.pipeline=2", "schedule=opportunistic",
       "partition={method: smp, routing: direct, " + nested},
      {"parallel.pipeline=3", "schedule=gpipe", "partition={method: smp, routing: parent}"},
      {"parallel.pipeline=4", "schedule=gpipe", "partition={method: smp, routing: direct}",
       "recompute=full", "training.microbatch=[2, 1, 1, 3, 1]"}};
  for (const std::string family : {"gpt", "t5"}) {
    for (const Sets& plan : plans) {
      const bool on_four = plan.front().find("3, 0, 2") != std::string::npos ||
                           plan.front() == "parallel.pipeline=4";
      const int ranks = on_four ? 4 : plan.front() == "parallel.pipeline=3" ? 3 : 2;
      const LoopbackRun plain = run_loopback(
          study(family), joined({cluster(ranks, 4, "nvswitch", "")}, plan), {.steps = 2});
      Ways seen;
      for (const std::string& where :
           {cluster(ranks, 4, "nvswitch", ""), cluster(ranks, 1, "", "infiniband"),
            cluster(ranks, 1, "", "ethernet")}) {
        for (const std::string buffer : {"100 B", "1 KiB", "1 MiB"}) {
          CAPTURE(family, plan, where, buffer);
          const LoopbackRun run = run_loopback(
              study(family), joined(joined({where}, plan), {"parallel.d2d_buffer=" + buffer}),
              {.steps = 2});
          // The opportunistic order follows times, and gradients add up in another one.
          if (plan[1] == "schedule=opportunistic")
            check_same(plain, run, kFp32);
          else
            check_equal(plain, run);
          seen.direct += ways(run.program).direct;
          seen.by_host += ways(run.program).by_host;
        }
      }
      CHECK(seen.direct > 0);
      CHECK(seen.by_host > 0);
    }
  }
}

TEST_CASE("transfers by hosts and through buffers go over Gloo as in memory") {
  const Sets sets = {cluster(2, 2, "nvswitch", ""), "parallel.pipeline=2",
                     "parallel.d2d_buffer=1 KiB"};
  LoopbackOptions over_gloo;
  over_gloo.steps = 2;
  over_gloo.over_gloo = true;
  const LoopbackRun here = run_loopback(study("gpt"), sets, {.steps = 2});
  const LoopbackRun there = run_loopback(study("gpt"), sets, over_gloo);
  CHECK(ways(here.program).direct > 0);
  CHECK(ways(here.program).by_host > 0);
  CHECK(there.losses == here.losses);
  CHECK(there.gradients == here.gradients);
}

TEST_CASE("on CPUs a buffer for transfers changes nothing") {
  const Sets two = {"cluster.ranks=2", "parallel.pipeline=2"};
  const LoopbackRun plain = run_loopback(study("gpt"), two, {});
  const LoopbackRun buffered =
      run_loopback(study("gpt"), joined(two, {"parallel.d2d_buffer=1 MiB"}), {});
  CHECK(buffered.program == plain.program);
}

}  // namespace trainyard::d2d_buffer_test
