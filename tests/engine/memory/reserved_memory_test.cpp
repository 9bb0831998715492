// What the allocator keeps: by hand on a Program of a few values, and as a published log says.
#include "engine/memory/reserved_memory.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "tests/engine/memory/tiny_program.h"
#include "tests/support/studies.h"

namespace trainyard::reserved_memory_test {

TEST_CASE("what is reserved is that of the rank that owns most, its copies in the update too") {
  constexpr std::int64_t kMib = 1 << 20;
  TinyProgram tiny;
  const auto owned = [&](const std::string& name, std::int64_t bytes, std::int16_t owner) {
    const ValueId id = tiny.add(name, bytes, Scope::kPersistent, MemoryClass::kParameter);
    tiny.program.values[id].owner = owner;
    return id;
  };
  const ValueId shared = tiny.add("x", 12 * kMib, Scope::kPersistent, MemoryClass::kParameter);
  const ValueId small = owned("a", 10 * kMib, 0), large = owned("b", 40 * kMib, 1);
  const ValueId gradient = tiny.add("g", 10 * kMib, Scope::kMicrobatch, MemoryClass::kGradient);
  const ValueId gradient_of_large =
      tiny.add("h", 40 * kMib, Scope::kMicrobatch, MemoryClass::kGradient);
  const SegmentId backward = tiny.segment("0B", {op({shared}, {gradient, gradient_of_large})});
  std::vector<ProgramOp> updates = {op({gradient}, {small}), op({gradient_of_large}, {large}),
                                    free_of({gradient, gradient_of_large})};
  updates[0].kind = updates[1].kind = OpKind::kAdamW;
  const SegmentId update = tiny.segment("0UPDATE", updates);
  tiny.program.segments.back().phase = Phase::kUpdate;
  tiny.list({{backward, 0}, {update, 0}});
  // 12 and 40 stand, 10 and 40 are gradients; 2 bytes for each of the 40 Mi that owner 1 updates.
  const FixedMemory fixed{.step_copy = 2};
  CHECK(reserved_memory(tiny.program, tiny.program.body[0], fixed, Bytes{1} << 40) ==
        (12 + 40 + 10 + 40 + 80) * kMib);
  CHECK(memory_peaks(tiny.program, fixed)[0].total == (12 + 40 + 10 + 40 + 80) * kMib);
}

TEST_CASE("a gathered unit is copied out of a buffer, which lives until the next has been") {
  constexpr std::int64_t kMib = 1 << 20;
  TinyProgram tiny;
  std::vector<ProgramOp> direct, copied;
  for (const auto& [name, size] : {std::pair("a", 40), std::pair("b", 60), std::pair("c", 40)}) {
    const auto add = [&, bytes = size * kMib](const std::string& value) {
      return tiny.add(value, bytes, Scope::kLocal, MemoryClass::kParameter);
    };
    const ValueId unit = add(name), packed = add(std::string(name).append("_packed"));
    direct.push_back(op({}, {unit}));
    direct.back().kind = OpKind::kAllGather;
    direct.push_back(free_of({unit}));
    copied.push_back(op({}, {packed}));
    copied.back().kind = OpKind::kAllGather;
    copied.push_back(op({packed}, {unit}));
    copied.back().kind = OpKind::kCopyOut;
    copied.push_back(free_of({packed}));
    copied.push_back(free_of({unit}));
  }
  const auto reserved = [&](const std::vector<ProgramOp>& ops, const FixedMemory& fixed) {
    TinyProgram one = tiny;
    one.list({{one.segment("0F", ops), 0}});
    return reserved_memory(one.program, one.program.body[0], fixed, Bytes{1} << 40);
  };
  // Gathered to where they are used: 40, and 60 because 40 are too few; the third fits.
  CHECK(reserved(direct, {}) == (40 + 60) * kMib);
  // Copied: 40 and 60 for the parameters. The buffers of a step take 40, 60, and 40 again, which
  // lives on, so that the next step's first takes a part of the 60, and its second has no room.
  CHECK(reserved(copied, {}) == ((40 + 60) + (40 + 60 + 60)) * kMib);
  // In segments that grow the parameters lie one after the other in 60, and the buffers of the
  // second step at 40 and 80.
  CHECK(reserved(copied, {.expandable_segments = true}) == (60 + 140) * kMib);
}

TEST_CASE("the loss of logits cast to fp32 holds what PyTorch's kernels take") {
  for (const int tensor : {1, 2}) {
    const Prepared prepared = prepare_text(
        "model: {family: llama, layers: 1, hidden: 64, heads: 4, ffn: 128, vocab: 4096, seq_len: "
        "64}\n"
        "cluster: {preset: dgx-h100, nodes: 1}\n"
        "parallel: {data: " +
        std::to_string(8 / tensor) + ", tensor: " + std::to_string(tensor) +
        "}\ntraining: {global_batch: 16, microbatch: 2}\nframework: torchtitan\n");
    const Program program = compiled_program(prepared);
    const Bytes logits = Bytes{2} * 64 * 4096 / tensor;  // elements of a rank
    int forward = 0, backward = 0;
    for (const Segment& segment : program.segments) {
      for (const ProgramOp& op : segment.ops) {
        if (op.kind != OpKind::kCrossEntropy) continue;
        if (op.part == OpPart::kForward) {
          // The cast; split, the shifted logits as well.
          CHECK(loss_workspace(program, op) == 4 * logits * (tensor == 1 ? 1 : 2));
          ++forward;
        } else {
          // Two or three in fp32 beside the log of the softmax; the gradient in bf16 comes last.
          CHECK(loss_workspace(program, op) == 4 * logits * (tensor == 1 ? 2 : 3) - 2 * logits);
          ++backward;
        }
      }
    }
    CHECK(forward > 0);
    CHECK(backward > 0);
  }
}

// BigScience's log of 10 June 2021 (experiments/gpt2-meg-ds-3d/meg_ds_3d_gpt2_perf_n16-ds-on.out):
// 64 layers of 8192 on 64 V100s, tensor 4, pipeline 16, Megatron-DeepSpeed in fp16. PyTorch's
// figures after a step, in MiB.
TEST_CASE("DeepSpeed's fp16 step takes what a published log says") {
  const Prepared prepared = prepare_text(
      "model: {family: gpt, layers: 64, hidden: 8192, heads: 32, vocab: 50257, pad_vocab_to: "
      "50688, seq_len: 1024}\n"
      "cluster: {gpu: v100-sxm-32g, gpus: 64, gpus_per_node: 4, intra: nvlink, intra_gb_per_s: "
      "100, inter: omni-path, "
      "inter_gbit_per_s_per_node: 400}\n"
      "parallel: {tensor: 4, pipeline: 16}\n"
      "training: {global_batch: 1024, microbatch: 4, precision: fp16}\n"
      "recompute: full\nframework: megatron-deepspeed\n");
  FixedMemory of_allocator = fixed_memory(prepared.software, DType::kFp16);
  of_allocator.buffers = 0;  // the context is not the allocator's
  of_allocator.cached = 0;
  const Program program = compiled_program(prepared);
  const auto peaks = memory_peaks(program, of_allocator);
  const auto mib = [](Bytes bytes) { return static_cast<double>(bytes) / kMiB; };
  // Stages 9 to 14 are fullest in the update: 805,560,320 parameters of 20 bytes, and 82 MiB that
  // are none of them. The slots for received tensors are ours: DeepSpeed has none then.
  for (const std::size_t stage : {9, 11, 14}) {
    CAPTURE(stage);
    CHECK(mib(peaks[stage].total - peaks[stage].buffers) == Approx(15446.85).epsilon(0.01));
    CHECK(mib(peaks[stage].gradients) == Approx(805.56032e6 * (2 + 4) / kMiB).epsilon(0.001));
  }
  // Stage 0 is fullest in its backward; the allocator holds the gradients' copies beside that.
  CHECK(mib(peaks[0].total) == Approx(19961.07).epsilon(0.02));
  CHECK(mib(peaks[0].total + peaks[0].cached) == Approx(22892).epsilon(0.02));
  CHECK(mib(peaks[12].total + peaks[12].cached) == Approx(17710).epsilon(0.02));
  // The allocator's requests replayed say the same.
  const auto reserved = [&](std::size_t stage) {
    return mib(reserved_memory(program, program.body[stage], of_allocator, 31 * Bytes{1 << 30}));
  };
  CHECK(reserved(0) == Approx(22892).epsilon(0.015));
  CHECK(reserved(12) == Approx(17710).epsilon(0.015));
}

}  // namespace trainyard::reserved_memory_test
