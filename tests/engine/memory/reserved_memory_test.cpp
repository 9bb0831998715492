// What the allocator keeps: by hand on a Program of a few values, and as a published log says.
#include "engine/memory/reserved_memory.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "tests/engine/memory/tiny_program.h"
#include "tests/support/studies.h"

namespace trainyard {

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

}  // namespace trainyard
