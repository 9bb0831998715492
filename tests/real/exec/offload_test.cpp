// What waits on the host comes back as it was: runs with offloading are those without, bit by bit,
// and hold what their Programs say.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "tests/real/exec/watched_memory.h"
#include "tests/real/layouts.h"
#include "tests/real/loopback_run.h"

namespace trainyard::offload_test {

namespace {

std::string study(const std::string& family) {
  return parity_study(family,
                      "precision: fp32, dropout: 0.1, optimizer: sgd, clip_norm: 0, lr: {peak: "
                      "0.05}, weight_decay: 0");
}

Sets with(Sets sets, const std::string& more) {
  sets.push_back(more);
  return sets;
}

bool copies_anything(const Program& program) {
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      if (op.kind == OpKind::kCopy) return true;
    }
  }
  return false;
}

void check_equal(const LoopbackRun& kept, const LoopbackRun& away) {
  CHECK(copies_anything(away.program));
  CHECK(away.losses == kept.losses);
  CHECK(away.gradients == kept.gradients);
  CHECK(away.weights == kept.weights);
}

}  // namespace

TEST_CASE("a run that offloads is the same to the bit on one rank and on several") {
  const std::vector<Sets> layouts = {
      {"schedule=gpipe"},
      {"cluster.ranks=2", "parallel.pipeline=2"},
      {"cluster.ranks=4", "parallel.pipeline=4", "schedule=gpipe"},
      {"cluster.ranks=4", "parallel.pipeline=2", "parallel.tensor=2",
       "parallel.sequence_parallel=true"},
      {"cluster.ranks=4", "parallel.pipeline=2", "parallel.data=2", "parallel.zero=1"}};
  for (const std::string family : {"gpt", "t5"}) {
    for (const Sets& layout : layouts) {
      for (const std::string recompute : {"selective", "full", "{method: full, unit: sublayer}",
                                          "{method: group, strategy: group_2}"}) {
        const Sets base = with(layout, "recompute=" + recompute);
        const LoopbackRun kept = run_loopback(study(family), base, {.steps = 2});
        for (const std::string horizon : {"0", "2"}) {
          CAPTURE(family, layout, recompute, horizon);
          check_equal(kept, run_loopback(
                                study(family),
                                with(base, "offload={activations: true, horizon: " + horizon + "}"),
                                {.steps = 2}));
        }
      }
    }
  }
}

TEST_CASE("a run that offloads is the same to the bit under every schedule") {
  for (const std::string schedule :
       {"interleaved", "zb-h1", "zb-v", "dualpipe-v", "scp", "last-no-recompute"}) {
    const bool interleaved = schedule == "interleaved";
    const Sets base = {
        "cluster.ranks=2", "parallel.pipeline=2", "recompute=full", "schedule=" + schedule,
        "parallel.virtual_stages=" +
            std::string(interleaved || schedule == "zb-v" || schedule == "dualpipe-v" ? "2" : "1")};
    const LoopbackRun kept = run_loopback(study("gpt"), base, {.steps = 2});
    CAPTURE(schedule);
    check_equal(kept,
                run_loopback(study("gpt"), with(base, "offload={activations: true, horizon: 1}"),
                             {.steps = 2}));
  }
}

TEST_CASE("a rank that offloads holds what its Program says is alive, here and on the host") {
  const WatchedMemory watched =
      watch_memory(study("gpt"),
                   {"schedule=gpipe", "recompute=full", "offload={activations: true, horizon: 1}"});
  CHECK(watched.peak.host > 0);
  CHECK(watched.most <= watched.peak.total + watched.peak.host);
}

}  // namespace trainyard::offload_test
