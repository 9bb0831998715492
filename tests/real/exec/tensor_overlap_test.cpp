// Chunks of a microbatch that take turns train as the whole does on one device: gradients, losses
// and dropout masks, whatever they are combined with.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::tensor_overlap_test {

namespace {

const std::string kSgd =
    "precision: fp64, optimizer: sgd, clip_norm: 0, lr: {peak: 0.05}, weight_decay: 0";

std::string study(const std::string& family) {
  return parity_study(family, kSgd + ", dropout: " + (family == "llama" ? "0" : "0.1"));
}

Sets halved(const std::string& overlap) {
  return {"training.microbatch=2", "parallel.tensor=2", "parallel.tensor_overlap=" + overlap};
}

Sets chunked(const std::string& scope, int chunks, int microbatch) {
  return {"training.microbatch=" + std::to_string(microbatch), "parallel.tensor=2",
          "parallel.tensor_overlap={scope: " + scope + ", chunks: " + std::to_string(chunks) + "}"};
}

}  // namespace

TEST_CASE("halves of a microbatch train as one device does, in every family, recomputed or kept") {
  for (const std::string family : {"gpt", "llama", "bert", "bert-next", "t5"}) {
    const LoopbackRun one = run_loopback(study(family), {}, {.steps = 2});
    for (const std::string overlap : {"block", "across-blocks"}) {
      for (const std::string sequence : {"false", "true"}) {
        for (const std::string recompute :
             {"none", "selective", "full", "{method: full, unit: sublayer}",
              "{method: group, strategy: group_3}"}) {
          CAPTURE(family, overlap, sequence, recompute);
          const Sets sets =
              joined(halved(overlap), {"cluster.ranks=2", "parallel.sequence_parallel=" + sequence,
                                       "recompute=" + recompute});
          check_same(one, run_loopback(study(family), sets, {.steps = 2}), kFp64);
        }
      }
    }
  }
}

TEST_CASE("more chunks than two train as one device does, with their masks") {
  for (const std::string family : {"gpt", "llama", "bert", "t5"}) {
    const LoopbackRun one = run_loopback(study(family), {}, {.steps = 2});
    for (const std::string scope : {"linear", "block", "across-blocks"}) {
      for (const std::string sequence : {"false", "true"}) {
        for (const std::string recompute : {"none", "selective", "full"}) {
          CAPTURE(family, scope, sequence, recompute);
          const Sets sets = joined(chunked(scope, 4, 4),
                                   {"cluster.ranks=2", "parallel.sequence_parallel=" + sequence,
                                    "recompute=" + recompute});
          check_same(one, run_loopback(study(family), sets, {.steps = 2}), kFp64);
        }
      }
    }
  }
}

TEST_CASE("chunks inside a product train as one device does, cut by rows where samples do not") {
  for (const std::string family : {"gpt", "llama", "bert-next"}) {
    const LoopbackRun one = run_loopback(study(family), {}, {.steps = 2});
    // One sample of 8 positions; two samples, whose 16 rows 4 chunks divide.
    for (const auto& [chunks, microbatch] : {std::pair{2, 1}, {4, 2}, {2, 2}}) {
      // A residual that is added at once is put together again of samples, or of one's rows.
      if (family == "llama" && microbatch == 2 && chunks == 4) continue;
      for (const std::string recompute :
           {"none", "selective", "full", "{method: full, unit: sublayer}",
            "{method: group, strategy: group_3}"}) {
        CAPTURE(family, chunks, microbatch, recompute);
        const Sets sets = joined(chunked("linear", chunks, microbatch),
                                 {"cluster.ranks=2", "recompute=" + recompute});
        check_same(one, run_loopback(study(family), sets, {.steps = 2}), kFp64);
      }
    }
  }
}

TEST_CASE("chunks inside a product train as one device does beside replicas") {
  // Without biases the residual is added chunk by chunk, and gradients of chunks are put together.
  for (const std::string family : {"gpt", "llama"}) {
    const LoopbackRun one = run_loopback(study(family), {}, {.steps = 2});
    for (const std::string zero : {"0", "3"}) {
      for (const std::string recompute : {"none", "full"}) {
        CAPTURE(family, zero, recompute);
        const Sets sets =
            joined(chunked("linear", 2, 2), {"cluster.ranks=4", "parallel.data=2",
                                             "parallel.zero=" + zero, "recompute=" + recompute});
        check_same(one, run_loopback(study(family), sets, {.steps = 2}), kFp64);
      }
    }
  }
}

TEST_CASE("chunks inside a product train as one device does under every schedule") {
  const LoopbackRun one = run_loopback(study("gpt"), {}, {.steps = 2});
  for (const std::string schedule : {"1f1b", "zb-h1", "dualpipe-v", "interleaved"}) {
    CAPTURE(schedule);
    Sets sets = joined(chunked("linear", 2, 2),
                       {"cluster.ranks=4", "parallel.pipeline=2", "schedule=" + schedule});
    if (schedule == "interleaved") sets.emplace_back("parallel.virtual_stages=2");
    check_same(one, run_loopback(study("gpt"), sets, {.steps = 2}), kFp64);
  }
}

TEST_CASE("halves of a microbatch train as one device does under every schedule") {
  for (const std::string family : {"gpt", "t5"}) {
    const LoopbackRun one = run_loopback(study(family), {}, {.steps = 2});
    for (const std::string overlap : {"block", "across-blocks"}) {
      for (const std::string schedule :
           {"1f1b", "gpipe", "zb-h1", "zb-v", "dualpipe-v", "interleaved"}) {
        CAPTURE(family, overlap, schedule);
        Sets sets = joined(halved(overlap), {"cluster.ranks=4", "parallel.pipeline=2",
                                             "recompute=full", "schedule=" + schedule});
        if (schedule == "interleaved") sets.emplace_back("parallel.virtual_stages=2");
        check_same(one, run_loopback(study(family), sets, {.steps = 2}), kFp64);
      }
    }
  }
}

TEST_CASE("halves of a microbatch are recomputed early and train as one device does") {
  // 4 microbatches, the least that the critical path schedule takes.
  for (const std::string overlap : {"block", "across-blocks"}) {
    for (const std::string schedule : {"scp", "pre-recompute", "last-no-recompute"}) {
      for (const std::string recompute : {"full", "{method: stage-aware, first: 0.4}"}) {
        CAPTURE(overlap, schedule, recompute);
        const Sets sets =
            joined(halved(overlap), {"cluster.ranks=8", "parallel.pipeline=4",
                                     "recompute=" + recompute, "schedule=" + schedule});
        check_same(run_loopback(study("gpt"), {}, {.steps = 2}),
                   run_loopback(study("gpt"), sets, {.steps = 2}), kFp64);
      }
    }
  }
}

TEST_CASE("halves of a microbatch reduce over Gloo as one device trains, on eight ranks") {
  const LoopbackRun one = run_loopback(study("gpt"), {}, {.steps = 2});
  for (const std::string overlap : {"block", "across-blocks"}) {
    CAPTURE(overlap);
    LoopbackOptions over_gloo;
    over_gloo.steps = 2;
    over_gloo.over_gloo = true;
    const Sets sets =
        joined(halved(overlap), {"cluster.ranks=8", "parallel.pipeline=2", "parallel.data=2",
                                 "parallel.zero=1", "recompute=full"});
    check_same(one, run_loopback(study("gpt"), sets, over_gloo), kFp64);
  }
}

}  // namespace trainyard::tensor_overlap_test
