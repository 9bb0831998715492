// Ranks that share sequences train as one device does: the same losses and gradients, by each
// method, alone and beside the other ways to divide a training.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "real/kernels/workspace.h"
#include "tests/real/dropped.h"
#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::exec_context_test {

namespace {

const std::string kTraining = "precision: fp64, dropout: 0, clip_norm: 0.01, lr: {peak: 0.01}";

std::string context(int degree, const std::string& method) {
  return "parallel.context={degree: " + std::to_string(degree) + ", method: " + method + "}";
}

std::string ranks(int number) { return "cluster.ranks=" + std::to_string(number); }

/// Whether microbatches run such an op.
bool runs(const Program& program, OpKind kind) {
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      if (op.kind == kind && segment.slots > 0) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("sequences shared by 2, 4 and 8 ranks train as one device does") {
  struct Trial {
    std::string method;
    OpKind moves;
  };
  for (const std::string family : {"gpt", "llama"}) {
    const std::string text = parity_study(family, kTraining);
    const Sets longer = {"model.seq_len=32", "training.global_batch=3"};
    const LoopbackRun one = run_loopback(text, longer, {.steps = 3});
    for (const Trial& trial : {Trial{"ring", OpKind::kRingShift},
                               {"all-gather", OpKind::kAllGather},
                               {"ulysses", OpKind::kAllToAll}}) {
      for (const int degree : {2, 4, 8}) {
        if (trial.method == "ulysses" && degree > 4) continue;  // 4 key-value heads
        CAPTURE(family, trial.method, degree);
        const LoopbackRun many =
            run_loopback(text, joined(longer, {ranks(degree), context(degree, trial.method)}),
                         {.steps = 3, .over_gloo = degree == 4});
        CHECK(runs(many.program, trial.moves));
        check_same(one, many, kFp64);
      }
    }
  }
}

TEST_CASE("sequences are shared beside every other way to divide a training") {
  const std::vector<Sets> features = {
      {ranks(4), "parallel.data=2"},
      {ranks(4), "parallel.data=2", "parallel.zero=1"},
      {ranks(2), "parallel.zero=1"},
      {ranks(4), "parallel.tensor=2"},
      {ranks(4), "parallel.tensor=2", "parallel.sequence_parallel=true"},
      {ranks(8), "parallel.tensor=2", "parallel.sequence_parallel=true", "parallel.data=2",
       "parallel.zero=1"},
      {ranks(2), "recompute=full"},
      {ranks(2), "recompute=selective"},
      {ranks(4), "parallel.tensor=2", "parallel.sequence_parallel=true", "recompute=full"},
      {ranks(2), "recompute=full", "offload={activations: true, horizon: 1}"},
      {ranks(2), "training.microbatch=2"},
      {ranks(2), "training.microbatch=[2, 1, 1]"},
      {ranks(4), "parallel.pipeline=2", "schedule=gpipe"},
      {ranks(4), "parallel.pipeline=2", "schedule=1f1b", "recompute=group"},
      {ranks(8), "parallel.pipeline=2", "parallel.tensor=2", "schedule=1f1b"},
      {ranks(8), "parallel.pipeline=2", "parallel.tensor=2", "schedule=zb-h1",
       "parallel.sequence_parallel=true"},
      {ranks(4), "parallel.pipeline=2", "schedule={method: zb-h1, post_validation: true}"},
      {ranks(4), "parallel.pipeline=2", "parallel.virtual_stages=2", "schedule=interleaved"},
      {ranks(4), "parallel.pipeline=2", "schedule=zb-v"},
      {ranks(4), "parallel.pipeline=2", "schedule=dualpipe-v"},
      {ranks(4), "parallel.pipeline=2", "recompute={method: stage-aware, first: 0.5}"}};
  for (const std::string family : {"gpt", "llama"}) {
    const std::string text = parity_study(family, kTraining);
    // Two for each of two stages, or of two replicas.
    const Sets four = {"training.global_batch=4"};
    const LoopbackRun one = run_loopback(text, four, {.steps = 2});
    for (const std::string method : {"ring", "all-gather", "ulysses"}) {
      for (const Sets& feature : features) {
        CAPTURE(family, method, feature);
        const LoopbackRun many =
            run_loopback(text, joined(joined(four, feature), {context(2, method)}), {.steps = 2});
        check_same(one, many, kFp64);
      }
    }
  }
}

TEST_CASE("what is dropped out follows the position in the sequence, whoever has it") {
  const std::string text = parity_study("gpt", "precision: fp64, dropout: 0.1");
  const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
  for (const Sets& sets :
       {Sets{ranks(2)}, Sets{ranks(4), "parallel.tensor=2", "parallel.sequence_parallel=true"}}) {
    CAPTURE(sets);
    check_same(one, run_loopback(text, joined(sets, {context(2, "ulysses")}), {.steps = 2}), kFp64);
  }
}

TEST_CASE("a mask follows tokens of both ends of a sequence") {
  const std::vector<double> whole = dropped_ones({.shape = {2, 8, 6}});
  // Tokens 1 and 2 of a sequence, and 5 and 6.
  const std::vector<double> both = dropped_ones({.shape = {2, 4, 6},
                                                 .start = {0, 1, 0},
                                                 .whole = {2, 8, 6},
                                                 .first_run = 2,
                                                 .second_start = 5});
  for (std::size_t sample = 0; sample < 2; ++sample) {
    for (std::size_t token = 0; token < 4; ++token) {
      const std::size_t at = token < 2 ? 1 + token : 5 + token - 2;
      for (std::size_t k = 0; k < 6; ++k)
        CHECK(both[(sample * 4 + token) * 6 + k] == whole[(sample * 8 + at) * 6 + k]);
    }
  }
}

TEST_CASE("blocks of attention allocate no more than they declare") {
  for (const std::string precision : {"fp32", "bf16", "fp64"}) {
    for (const std::string method : {"ring", "all-gather"}) {
      CAPTURE(precision, method);
      int blocks = 0;
      LoopbackOptions options;
      options.watch_ops = [&](const Program& program, const ProgramOp& op, std::int64_t seen) {
        if (op.kind != OpKind::kBlockAttention) return;
        ++blocks;
        CAPTURE(op_name(op.kind, op.part));
        CHECK(seen <= workspace_bytes(program, op, 1));
      };
      run_loopback(
          "model: {family: llama, layers: 1, hidden: 192, heads: 4, kv_heads: 2, ffn: 400, vocab: "
          "1000, seq_len: 192}\ncluster: {preset: local, ranks: 4}\ntraining: {global_batch: 4, "
          "microbatch: 4, precision: " +
              precision + "}\ndata: {path: synthetic}\n",
          {context(4, method)}, options);
      CHECK(blocks == (method == "ring" ? 4 : 1) * 4 * 2);
    }
  }
}

TEST_CASE("checkpoints are read by ranks that share sequences, and the other way round") {
  check_goes_on(parity_study("llama", kTraining),
                {ranks(4), "parallel.data=2", context(2, "ring"), "parallel.zero=1"},
                {{ranks(1)}, {ranks(4), "parallel.tensor=2", context(2, "all-gather")}});
}

}  // namespace trainyard::exec_context_test
