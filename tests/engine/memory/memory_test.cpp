// Peaks derived by hand: on Programs of a few values, then on tiny studies, where the bytes per
// parameter, per microbatch in flight and per receive slot can be counted.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/memory/memory_moves.h"
#include "tests/engine/memory/tiny_program.h"
#include "tests/support/studies.h"

namespace trainyard::memory_test {

namespace {

// s = 32, h = 64, a = 4 heads, V = 96: s b h = 2048 elements for one sequence.
constexpr Bytes kSbh = 2048;

std::string gpt(int layers, const std::string& parallel, int batch) {
  return "model: {family: gpt, layers: " + std::to_string(layers) +
         ", hidden: 64, heads: 4, vocab: 96, seq_len: 32}\n"
         "cluster: dgx-a100-80g\nparallel: " +
         parallel + "\n" + "training: {global_batch: " + std::to_string(batch) +
         ", precision: bf16, dropout: 0, flash_attention: true}\n";
}

std::vector<MemoryPeak> peaks(const std::string& yaml, const std::vector<std::string>& sets = {}) {
  return memory_peaks(compiled_program(prepare_text(yaml, sets)), {});
}

/// What a stage of one layer, neither first nor last, keeps of a microbatch in the arena: the 32 s
/// b h bytes of tests/engine/graph/laws_test.cpp without the layer's input (2 s b h), which lies in
/// the receive pool; two norms' mean and 1/deviation, and a log-sum-exp per row and head, in fp32.
constexpr Bytes kSavedByMiddleStage = 30 * kSbh + 2 * (2 * 4 * 32) + 4 * 4 * 32;

}  // namespace

TEST_CASE("an arena value takes its storage from its first write to its free") {
  TinyProgram tiny;
  const ValueId saved = tiny.add("saved", 10, Scope::kMicrobatch);
  const ValueId scratch = tiny.add("scratch", 4, Scope::kLocal);
  const ValueId gradient = tiny.add("gradient", 6, Scope::kLocal);
  const SegmentId forward =
      tiny.segment("0F", {op({}, {saved}), op({saved}, {scratch}), free_of({scratch})});
  const SegmentId backward =
      tiny.segment("0B", {op({saved}, {gradient}), free_of({saved, gradient})});
  // F0: 10, 14, 10. F1: 20, 24, 20. B0: 26, 10. B1: 16, 0.
  tiny.list({{forward, 0}, {forward, 1}, {backward, 0}, {backward, 1}});
  // F0: 10, 14, 10. B0: 16, 0. The same again.
  tiny.list({{forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}});
  const auto peak = memory_peaks(tiny.program, {});
  CHECK(peak[0].total == 26);
  CHECK(peak[0].activations == 26);
  CHECK(peak[0].instant == "0B0 op 0");
  CHECK(peak[1].total == 16);
}

TEST_CASE("every op that changes something is a move, beside what its call found") {
  TinyProgram tiny;
  const ValueId saved = tiny.add("saved", 10, Scope::kMicrobatch);
  const ValueId scratch = tiny.add("scratch", 4, Scope::kLocal);
  const SegmentId forward = tiny.segment(
      "0F", {op({}, {saved}), op({saved}, {scratch}), op({saved}, {}), free_of({scratch})});
  const SegmentId backward = tiny.segment("0B", {op({saved}, {}), free_of({saved})});
  tiny.list({{forward, 0}, {forward, 1}, {backward, 0}, {backward, 1}});
  std::vector<std::vector<Bytes>> levels;  // of each call: as it begins, then after each move
  follow_memory_moves(tiny.program, {},
                      [&](std::size_t, const MemoryStep& step, const CallMoves& call) {
                        std::vector<Bytes>& of = levels.emplace_back(1, sum(call.found));
                        for (const MemoryMove& move : call.moves)
                          of.push_back(sum(call.found) + sum(move.bytes));
                        CHECK(of.back() == sum(step.after));
                        CHECK(*std::max_element(of.begin(), of.end()) == sum(step.at_peak));
                      });
  CHECK(levels ==
        std::vector<std::vector<Bytes>>{{0}, {0, 10, 14, 10}, {10, 20, 24, 20}, {20, 10}, {10, 0}});
}

TEST_CASE("the parts are those of one instant, that of the largest total") {
  TinyProgram tiny;
  const ValueId gradient = tiny.add("gradient", 7, Scope::kStep, MemoryClass::kGradient);
  const ValueId early = tiny.add("early", 20, Scope::kMicrobatch);
  const ValueId late = tiny.add("late", 15, Scope::kMicrobatch);
  const SegmentId first = tiny.segment("0F", {op({}, {early}), free_of({early})});
  const SegmentId second =
      tiny.segment("0B", {op({}, {gradient, late}), free_of({gradient, late})});
  // 20 activations; then 7 gradients and 15 activations: 22 in all, although 20 > 15.
  tiny.list({{first, 0}, {second, 0}});
  const auto peak = memory_peaks(tiny.program, {});
  CHECK(peak[0].total == 22);
  CHECK(peak[0].gradients == 7);
  CHECK(peak[0].activations == 15);
  // Where activations take twice their bytes: 40, then 7 and 30.
  const auto twice = memory_peaks(tiny.program, {.activation_factor = 2});
  CHECK(twice[0].total == 40);
  CHECK(twice[0].gradients == 0);
}

TEST_CASE("a view costs nothing, and its write brings the whole storage to life") {
  TinyProgram tiny;
  const ValueId packed = tiny.add("packed", 12, Scope::kMicrobatch);
  const ValueId part = tiny.view("part", packed, 4);
  const ValueId other = tiny.view("other", packed, 8);
  tiny.list({{tiny.segment("0F", {op({}, {part}), op({}, {other}), op({}, {packed})}), 0},
             {tiny.segment("0B", {op({packed}, {}), free_of({packed})}), 0}});
  const auto peak = memory_peaks(tiny.program, {});
  CHECK(peak[0].total == 12);
  CHECK(peak[0].instant == "0F0 op 0");
}

TEST_CASE("persistent values and all slots of the pools stand all the time") {
  TinyProgram tiny;
  tiny.program.pools.push_back({"recv", 3, Space::kDevice});
  const ValueId weight = tiny.add("weight", 100, Scope::kPersistent, MemoryClass::kParameter);
  const ValueId moment = tiny.add("moment", 50, Scope::kPersistent, MemoryClass::kOptimizerState);
  const ValueId view = tiny.view("view", weight, 30);
  const ValueId small = tiny.add("small", 5, Scope::kMicrobatch);
  const ValueId large = tiny.add("large", 8, Scope::kMicrobatch);
  const ValueId other_rank =
      tiny.add("other rank's", 1000, Scope::kPersistent, MemoryClass::kParameter);
  tiny.program.values[small].pool = PoolId(0);
  tiny.program.values[large].pool = PoolId(0);
  tiny.list({{tiny.segment("0F", {op({weight, view}, {small, large}), op({moment}, {})}), 0}});
  tiny.list({{tiny.segment("1F", {op({other_rank}, {})}), 0}});
  const auto peak = memory_peaks(tiny.program, {.buffers = 9, .gradients_per_parameter = 2});
  CHECK(peak[0].parameters == 100);  // the view is in it
  CHECK(peak[0].optimizer_state == 50);
  CHECK(peak[0].buffers ==
        3 * 8 + 9);  // slots are as large as the largest; and what the caller adds
  CHECK(peak[0].gradients == 2 * 100);  // two bytes for each of the 100 parameters
  CHECK(peak[0].activations == 0);
  CHECK(peak[0].instant == "start of the step");
  CHECK(peak[1].total == 1000 + 2 * 1000 + 9);
}

TEST_CASE(
    "copies of gradients that an update makes live while it does, beside the blocks that "
    "activations leave") {
  TinyProgram tiny;
  const ValueId weight = tiny.add("weight", 100, Scope::kPersistent, MemoryClass::kParameter);
  const ValueId gradient = tiny.add("gradient", 100, Scope::kPersistent, MemoryClass::kGradient);
  const ValueId shard = tiny.view("shard", gradient, 40);  // of which this rank updates 40
  const ValueId kept = tiny.add("kept", 150, Scope::kMicrobatch);
  const SegmentId forward = tiny.segment("0F", {op({weight}, {kept})});
  const SegmentId backward = tiny.segment("0B", {op({kept}, {gradient}), free_of({kept})});
  ProgramOp adamw = op({shard}, {weight});
  adamw.kind = OpKind::kAdamW;
  const SegmentId update = tiny.segment("0UPDATE", {adamw});
  tiny.program.segments.back().phase = Phase::kUpdate;
  tiny.list({{forward, 0}, {backward, 0}, {update, -1}});

  // 200 stand, 150 are activations; 4 bytes for each of the 40 that are updated: 350 before the
  // update, 360 in it.
  const MemoryPeak large = memory_peaks(tiny.program, {.step_copy = 4})[0];
  CHECK(large.total == 200 + 4 * 40);
  CHECK(large.gradients == 100 + 4 * 40);
  CHECK(large.instant == "0UPDATE op 0");
  CHECK(large.cached == 150);  // what the activations have left

  const MemoryPeak small = memory_peaks(tiny.program, {.step_copy = 2})[0];
  CHECK(small.total == 200 + 150);
  CHECK(small.instant == "0F0 op 0");
  CHECK(small.cached == 2 * 40);  // and what the update will

  const MemoryPeak more =
      memory_peaks(tiny.program, {.step_copy = 2, .cached = 7, .cached_per_parameter = 3})[0];
  CHECK(more.total == 350);
  CHECK(more.cached == 2 * 40 + 7 + 3 * 100);
  CHECK(cached_within(more, 1000) == 387);
  CHECK(cached_within(more, 351) == 1);  // given back where the device is full
  CHECK(cached_within(more, 300) == 0);
}

TEST_CASE(
    "a plan may fit where its largest total is within the known error of the capacity, on either "
    "side") {
  const auto of = [](Bytes total) {
    std::vector<MemoryPeak> peaks(2);
    peaks[0].total = 10;
    peaks[1].total = total;
    return may_fit(peaks, 1000, 0.075);
  };
  CHECK_FALSE(of(924));
  CHECK(of(925));
  CHECK(of(1000));
  CHECK(of(1075));
  CHECK_FALSE(of(1076));
}

TEST_CASE("bytes per parameter: 18 in bf16 with fp32 gradients and Adam") {
  // P = V h + s h + L (12 h^2 + 13 h) + 2 h
  constexpr Bytes kParameters = 96 * 64 + 32 * 64 + 2 * (12 * 64 * 64 + 13 * 64) + 2 * 64;
  struct Case {
    std::vector<std::string> sets;
    Bytes parameter, gradient, state;
  };
  const auto c = GENERATE(values<Case>({
      {{}, 2, 4, 12},  // working copy; fp32 gradient; fp32 master weight and two moments
      {{"training.optimizer=sgd"}, 2, 4, 4},
      {{"training.precision=fp32"}, 4, 4, 8},  // no master copy
      {{"training.precision=fp16", "training.grad_dtype=fp16"}, 2, 2, 12},
  }));
  CAPTURE(c.sets);
  const auto peak = peaks(gpt(2, "{data: 1}", 1), c.sets);
  REQUIRE(peak.size() == 1);
  CHECK(peak[0].parameters == c.parameter * kParameters);
  CHECK(peak[0].gradients == c.gradient * kParameters);
  CHECK(peak[0].optimizer_state == c.state * kParameters);
}

TEST_CASE("tensor parallelism divides all but norms, output biases and positions") {
  // A layer: 12 h^2 and the biases of qkv and fc1, 3 h + 4 h, are split; 6 h are not.
  constexpr std::int64_t kT = 4;
  constexpr Bytes kParameters =
      (96 * 64 + 2 * (12 * 64 * 64 + 7 * 64)) / kT + 32 * 64 + 2 * 6 * 64 + 2 * 64;
  const auto peak = peaks(gpt(2, "{tensor: 4, data: 1}", 1));
  CHECK(peak[0].parameters == 2 * kParameters);
  CHECK(peak[0].gradients == 4 * kParameters);
  CHECK(peak[0].optimizer_state == 12 * kParameters);
}

TEST_CASE("a vocabulary padded for the tensor degree is held whole") {
  // 97 rows are padded to 99 = 3 x 33 (3 heads and ffn 192 divide too).
  const auto peak = peaks(gpt(2, "{tensor: 3, data: 1}", 1),
                          {"model.hidden=48", "model.heads=3", "model.vocab=97"});
  constexpr Bytes kParameters =
      33 * 48 + 2 * (12 * 48 * 48 + 7 * 48) / 3 + 32 * 48 + 2 * 6 * 48 + 2 * 48;
  CHECK(peak[0].parameters == 2 * kParameters);
}

TEST_CASE("ZeRO-1 divides the optimizer's state by the data-parallel degree, rounded up") {
  constexpr Bytes kParameters =
      96 * 64 + 32 * 64 + 2 * (12 * 64 * 64 + 13 * 64) + 2 * 64;  // 108288
  const auto whole = peaks(gpt(2, "{data: 7}", 7));
  const auto sharded = peaks(gpt(2, "{data: 7, zero: 1}", 7));
  CHECK(whole[0].optimizer_state == 12 * kParameters);
  // One bucket; 108288 = 7 x 15469 + 5: padded by 2 to 7 shards of 15470.
  static_assert(kParameters == 7 * 15469 + 5);
  CHECK(sharded[0].optimizer_state == 12 * 15470);
  CHECK(sharded[0].parameters == 2 * 7 * 15470);
  CHECK(sharded[0].gradients == 4 * 7 * 15470);
  // On one replica there is nothing to divide.
  CHECK(peaks(gpt(2, "{data: 1, zero: 1}", 1))[0].optimizer_state == 12 * kParameters);
}

TEST_CASE("tied embeddings are held by both ends of the pipeline") {
  const auto peak = peaks(gpt(2, "{pipeline: 2, data: 1}", 2));
  constexpr Bytes kLayer = 12 * 64 * 64 + 13 * 64;
  CHECK(peak[0].parameters == 2 * (96 * 64 + 32 * 64 + kLayer));
  CHECK(peak[1].parameters == 2 * (96 * 64 + kLayer + 2 * 64));
}

TEST_CASE("1F1B: a stage holds as many microbatches as stages remain, GPipe all of them") {
  // Stages 1 and 2 of 4 are alike: one layer each. 1F1B keeps min(m, p - s) microbatches, 3 and 2;
  // what else is alive at the peak is the same, so the peaks differ by one microbatch's bytes.
  const auto one = peaks(gpt(4, "{pipeline: 4, data: 1}", 8));
  CHECK(one[1].activations - one[2].activations == kSavedByMiddleStage);
  // More microbatches change nothing.
  const auto more = peaks(gpt(4, "{pipeline: 4, data: 1}", 64));
  for (std::size_t rank = 0; rank < 4; ++rank) CHECK(more[rank].total == one[rank].total);

  const auto all = peaks(gpt(4, "{pipeline: 4, data: 1}", 8), {"schedule=gpipe"});
  CHECK(all[1].activations == all[2].activations);
  CHECK(all[1].activations - one[1].activations == (8 - 3) * kSavedByMiddleStage);
  const auto nine = peaks(gpt(4, "{pipeline: 4, data: 1}", 9), {"schedule=gpipe"});
  CHECK(nine[1].activations - all[1].activations == kSavedByMiddleStage);
}

TEST_CASE("receive pools: one slot more than microbatches in flight, each a stage's input") {
  // 1F1B, 4 stages, 8 microbatches: stage 1 holds the inputs of 3 microbatches, and the fourth is
  // received beside the action before its forward. A gradient is received behind the send of the
  // one before, when that one's slot is free again: one slot. Stage 0 sends none, and in its
  // cooldown receives one action ahead: two.
  const auto peak = peaks(gpt(4, "{pipeline: 4, data: 1}", 8));
  constexpr Bytes kSlot = 2 * kSbh;
  CHECK(peak[1].buffers == (3 + 1 + 1) * kSlot);
  CHECK(peak[2].buffers == (2 + 1 + 1) * kSlot);
  CHECK(peak[3].buffers == (1 + 1) * kSlot);  // the last stage's gradients come from its own loss
  CHECK(peak[0].buffers == 2 * kSlot);        // the first loads its data
  // Scattered over two tensor ranks, a slot is half the tensor.
  const auto scattered = peaks(gpt(4, "{pipeline: 4, tensor: 2, data: 1}", 8));
  CHECK(scattered[0].buffers == 2 * kSlot / 2);
}

TEST_CASE(
    "full recompute keeps of a middle stage's microbatch nothing but its input, in the pool") {
  const auto plain = peaks(gpt(4, "{pipeline: 4, data: 1}", 8));
  const auto full = peaks(gpt(4, "{pipeline: 4, data: 1}", 8), {"recompute=full"});
  CHECK(full[1].activations == full[2].activations);
  CHECK(full[1].buffers == plain[1].buffers);
  // The layer being recomputed is alive once: 1F1B's 3 in flight cost 2 less.
  CHECK(plain[1].activations - full[1].activations == 2 * kSavedByMiddleStage);
}

TEST_CASE("the parts add up to the total, on every rank of every plan") {
  const auto sets = GENERATE(
      values<std::vector<std::string>>({{},
                                        {"recompute=full"},
                                        {"parallel.zero=1", "parallel.data=2"},
                                        {"schedule=gpipe"},
                                        {"parallel.tensor=2", "parallel.sequence_parallel=true"},
                                        {"framework=megatron-lm"}}));
  for (const MemoryPeak& peak :
       memory_peaks(compiled_program(prepare_text(gpt(4, "{pipeline: 2, data: 1}", 8), sets)),
                    {.buffers = 1000})) {
    CHECK(peak.parameters + peak.gradients + peak.optimizer_state + peak.activations +
              peak.buffers ==
          peak.total);
    CHECK(std::min({peak.parameters, peak.gradients, peak.optimizer_state, peak.activations}) > 0);
    CHECK(peak.buffers > 1000);
  }
}

}  // namespace trainyard::memory_test
