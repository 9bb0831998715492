// A sharding of the user's own over two tensor axes trains as one device does, beside every feature
// that it may be combined with, and its checkpoints are read by other layouts and the other way
// round.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::own_sharding_test {

namespace {

const std::string kAxes = "parallel.tensor={tp0: 2, tp1: 2}";
/// Whether microbatches move something over that axis alone.
bool moves_over(const Program& program, const std::string& axis) {
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      const bool here = op.group != kNoIndex && program.groups[op.group].name == axis;
      if (here && segment.slots > 0) return true;
    }
  }
  return false;
}

const std::string kTraining = "precision: fp64, dropout: 0.1, clip_norm: 0.01, lr: {peak: 0.01}";

}  // namespace

TEST_CASE("several tensor axes, and a sharding over them, train as one device does") {
  const std::vector<Sets> features = {
      {},
      {"recompute=full"},
      {"recompute=selective", "parallel.sequence_parallel=true"},
      {"recompute=full", "offload={activations: true, horizon: 1}"},
      {"training.microbatch=2", "parallel.tensor_overlap=block"},
      {"training.microbatch=2", "parallel.tensor_overlap=across-blocks"},
      {"training.microbatch=[2, 1, 1, 3, 1]"},
      {"cluster.ranks=8", "parallel.data=2", "parallel.zero=1"},
      {"cluster.ranks=8", "parallel.data=2", "parallel.zero={stage: 1, by: parameter}"},
      {"cluster.ranks=8", "parallel.pipeline=2", "schedule=gpipe"},
      {"cluster.ranks=8", "parallel.pipeline=2", "schedule=1f1b", "recompute=group"},
      {"cluster.ranks=8", "parallel.pipeline=2", "schedule={method: zb-h1, post_validation: true}"},
      {"cluster.ranks=8", "parallel.pipeline=2", "schedule=zb-h1"},
      {"cluster.ranks=8", "parallel.pipeline=2", "parallel.virtual_stages=2",
       "schedule=interleaved"},
      {"cluster.ranks=8", "parallel.pipeline=2", "schedule=zb-v"},
      {"cluster.ranks=8", "parallel.pipeline=2", "schedule=dualpipe-v"},
      {"cluster.ranks=8", "parallel.pipeline=2", "recompute={method: stage-aware, first: 0.5}"}};
  struct Trial {
    std::string family;
    bool own;
  };
  for (const Trial& trial : {Trial{"gpt", true}, Trial{"gpt", false}, Trial{"bert", true}}) {
    const std::string text = parity_study(trial.family, kTraining);
    const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
    for (const Sets& feature : features) {
      CAPTURE(trial.family, trial.own, feature);
      Sets sets = joined({"cluster.ranks=4", kAxes}, feature);
      if (trial.own) sets.push_back(kAtpSharding);
      const LoopbackRun many = run_loopback(text, sets, {.steps = 2});
      CHECK(moves_over(many.program, "tp0") == trial.own);
      CHECK(moves_over(many.program, "tp1") == trial.own);
      check_same(one, many, kFp64);
    }
  }
}

TEST_CASE("a run under a sharding of the user's own goes on from other layouts, and they from it") {
  const Sets own = {"cluster.ranks=4", kAxes, kAtpSharding};
  const std::vector<Sets> layouts = {
      {},
      own,
      {"cluster.ranks=4", "parallel.tensor=4", "parallel.sequence_parallel=true"},
      {"cluster.ranks=4", "parallel.tensor=2", "parallel.pipeline=2"},
      {"cluster.ranks=4", "parallel.data=4", "parallel.zero=1"},
      {"cluster.ranks=4", "parallel.data=4", "parallel.zero={stage: 1, by: parameter}"},
      joined(own, {"cluster.ranks=8", "parallel.data=2", "parallel.zero=1"})};
  check_goes_on(parity_study("gpt", kTraining), own, layouts);
}

}  // namespace trainyard::own_sharding_test
