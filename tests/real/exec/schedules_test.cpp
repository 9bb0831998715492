// Every schedule that splits the backward, turns in a V or recomputes early trains as one device
// does, alone and beside tensor and data parallelism, and holds the memory that its Program says.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "tests/real/exec/watched_memory.h"
#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::schedules_test {

namespace {

std::string replaced(std::string text,
                     const std::vector<std::pair<std::string, std::string>>& pairs) {
  for (const auto& [from, to] : pairs) {
    if (const auto at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
  }
  return text;
}

/// 8 layers, so that a V on 4 ranks has one for each stage.
std::string study(const std::string& family, const std::string& training) {
  return replaced(parity_study(family, training),
                  {{"layers: 4", "layers: 8"},
                   {"{family: t5, layers: 2", "{family: t5, layers: 4"},
                   {"decoder_layers: 2", "decoder_layers: 4"}});
}

/// 16 layers and 16 microbatches: two stages on each of 8 ranks, and as many microbatches as pairs
/// in a V need.
std::string long_study(const std::string& training) {
  return replaced(parity_study("gpt", training),
                  {{"layers: 4", "layers: 16"}, {"global_batch: 8", "global_batch: 16"}});
}

/// The options of a schedule; those that say when to recompute have something to recompute.
Sets sets_of(const std::string& schedule) {
  Sets sets = {"schedule=" + schedule};
  if (schedule.starts_with("interleaved")) sets.emplace_back("parallel.virtual_stages=2");
  if (schedule == "scp" || schedule.find("recompute") != std::string::npos)
    sets.emplace_back("recompute=full");
  return sets;
}

const std::vector<std::string> kSchedules = {
    "zb-h1", "interleaved-zb1p", "zb-v", "dualpipe-v", "scp", "pre-recompute", "last-no-recompute"};

const std::string kSgd = "optimizer: sgd, clip_norm: 0, lr: {peak: 0.05}, weight_decay: 0";

}  // namespace

TEST_CASE("every schedule trains as one device does on two and four pipeline ranks") {
  for (const std::string precision : {"fp64", "fp32"}) {
    const std::string text = study("gpt", "precision: " + precision + ", dropout: 0.1, " + kSgd);
    const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
    for (const std::string& schedule : kSchedules) {
      for (const std::string ranks : {"2", "4"}) {
        CAPTURE(precision, schedule, ranks);
        const Sets sets =
            joined({"cluster.ranks=" + ranks, "parallel.pipeline=" + ranks}, sets_of(schedule));
        check_same(one, run_loopback(text, sets, {.steps = 2}),
                   precision == "fp64" ? kFp64 : kFp32);
      }
    }
  }
}

TEST_CASE("every schedule trains as one device does on eight pipeline ranks") {
  const std::string text = long_study("precision: fp64, dropout: 0.1, " + kSgd);
  const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
  std::vector<std::string> schedules = {"gpipe", "1f1b",  "interleaved",
                                        "zb-1p", "zb-2p", "opportunistic"};
  schedules.insert(schedules.end(), kSchedules.begin(), kSchedules.end());
  for (const std::string& schedule : schedules) {
    CAPTURE(schedule);
    const Sets sets = joined({"cluster.ranks=8", "parallel.pipeline=8"}, sets_of(schedule));
    check_same(one, run_loopback(text, sets, {.steps = 2}), kFp64);
  }
}

TEST_CASE("every schedule trains as one device does beside tensor and data parallelism") {
  const std::map<std::string, Sets> beside = {
      {"tensor",
       {"cluster.ranks=4", "parallel.pipeline=2", "parallel.tensor=2",
        "parallel.sequence_parallel=true"}},
      {"data",
       {"cluster.ranks=4", "parallel.pipeline=2", "parallel.data=2", "parallel.zero=1",
        "training.bucket_elements=3000"}}};
  for (const std::string family : {"gpt", "llama", "bert-next", "t5"}) {
    const std::string text = study(family, "precision: fp64, dropout: 0, " + kSgd);
    const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
    for (const std::string& schedule : kSchedules) {
      for (const auto& [what, sets] : beside) {
        CAPTURE(family, schedule, what);
        check_same(one, run_loopback(text, joined(sets, sets_of(schedule)), {.steps = 2}), kFp64);
      }
    }
  }
}

TEST_CASE("a split backward recomputes in its first half and trains as one device does") {
  const std::string text = study("t5", "precision: fp64, dropout: 0.1, " + kSgd);
  const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
  for (const std::string recompute : {"selective", "full"}) {
    for (const std::string schedule : {"zb-h1", "zb-v"}) {
      CAPTURE(recompute, schedule);
      const Sets sets = joined(
          {"cluster.ranks=8", "parallel.pipeline=4", "parallel.tensor=2", "recompute=" + recompute},
          sets_of(schedule));
      check_same(one, run_loopback(text, sets, {.steps = 2}), kFp64);
    }
  }
}

TEST_CASE("stage-aware recompute and groups train as one device does in every kind of schedule") {
  // A share of 0.4 recomputes some layers of some stages in each of these; early recompute (scp,
  // pre-recompute), halves (zb-h1), several stages of a rank (interleaved, zb-v).
  for (const std::string family : {"gpt", "t5"}) {
    const std::string text = study(family, "precision: fp64, dropout: 0.1, " + kSgd);
    const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
    for (const std::string recompute :
         {"{method: stage-aware, first: 0.4}", "{method: group, strategy: contiguous}",
          "{method: group, strategy: group_2}"}) {
      for (const std::string schedule :
           {"1f1b", "scp", "pre-recompute", "zb-h1", "interleaved", "zb-v"}) {
        CAPTURE(family, recompute, schedule);
        const Sets sets = joined(sets_of(schedule), {"cluster.ranks=2", "parallel.pipeline=2",
                                                     "recompute=" + recompute});
        check_same(one, run_loopback(text, sets, {.steps = 2}), kFp64);
      }
      CAPTURE(family, recompute);
      check_same(one,
                 run_loopback(
                     text,
                     {"cluster.ranks=8", "parallel.pipeline=4", "parallel.tensor=2",
                      "parallel.sequence_parallel=true", "schedule=scp", "recompute=" + recompute},
                     {.steps = 2}),
                 kFp64);
    }
  }
}

TEST_CASE("stage-aware recompute and groups in fp32 train as the same plan without recompute") {
  const std::string text = study("gpt", "precision: fp32, dropout: 0.1, " + kSgd);
  const Sets plan = {"cluster.ranks=4", "parallel.pipeline=4"};
  const LoopbackRun kept = run_loopback(text, plan, {.steps = 2});
  for (const std::string recompute :
       {"{method: stage-aware, first: 0.4}", "{method: group, strategy: contiguous}"}) {
    CAPTURE(recompute);
    check_same(kept, run_loopback(text, joined(plan, {"recompute=" + recompute}), {.steps = 2}),
               kFp32);
  }
}

TEST_CASE("split backwards, pairs and turns run over Gloo as in memory") {
  const std::string text = study("gpt", "precision: fp64, dropout: 0, " + kSgd);
  for (const std::string schedule : {"zb-v", "dualpipe-v", "scp"}) {
    CAPTURE(schedule);
    const Sets sets = joined({"cluster.ranks=4", "parallel.pipeline=4"}, sets_of(schedule));
    LoopbackOptions over_gloo;
    over_gloo.steps = 2;
    over_gloo.over_gloo = true;
    check_same(run_loopback(text, sets, {.steps = 2}), run_loopback(text, sets, over_gloo), kFp64);
  }
}

TEST_CASE("a rank that splits its backward and turns in a V holds what its Program says is alive") {
  // One rank with both stages of a V, so that no transfer is in the way.
  for (const std::string recompute : {"none", "full", "{method: group, strategy: group_2}"}) {
    const std::string text = study("gpt", "precision: fp32");
    const WatchedMemory watched = watch_memory(text, {"schedule=zb-v", "recompute=" + recompute});
    CHECK(watched.most <= watched.peak.total);
    // The peak is inside a call, between calls the most is near.
    CHECK(watched.most > watched.peak.total / 2);
  }
}

}  // namespace trainyard::schedules_test
