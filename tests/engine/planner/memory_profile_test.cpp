// Memory of ops by shapes: by hand for one layer, and against the Program that is compiled and run.
#include "engine/planner/memory_profile.h"

#include <catch2/catch.hpp>

#include "engine/memory/memory.h"
#include "tests/support/studies.h"

namespace trainyard::memory_profile_test {

namespace {

std::string study_of(const std::string& model) {
  return "model: " + model +
         "\ncluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {data: 8}\n"
         "training: {global_batch: 16, microbatch: 2, precision: bf16}\n";
}

/// The most that a Program's values of microbatches take, as its memory is counted.
Bytes peak_of_program(const Prepared& prepared) {
  Bytes most = 0;
  follow_memory(compiled_program(prepared), {}, [&](std::size_t, const MemoryStep& step) {
    most = std::max(most, step.at_peak[MemoryClass::kActivation]);
  });
  return most;
}

OpId op_called(const Graph& graph, const std::string& name) {
  for (const OpId id : graph.ops.keys()) {
    for (const TensorId output : graph.ops[id].outputs) {
      if (graph.tensors[output].name == name) return id;
    }
  }
  FAIL("no op makes " << name);
  return OpId(kNoIndex);
}

}  // namespace

TEST_CASE("what an op reads again, makes and hands back, by hand") {
  const Prepared prepared = prepare_text(study_of("{preset: resnet18}"));
  const TrainingGraph training = training_graph(prepared);
  const MemoryProfile profile = profile_memory(training);
  const auto of = [&](const char* name) { return profile.ops[op_called(training.graph, name)]; };
  // Two images of 3 x 224 x 224, 64 channels of 112 x 112 behind the stem, 56 x 56 behind its pool,
  // two bytes each.
  const Bytes images = 2 * 3 * 224 * 224 * 2, stem = 2 * 64 * 112 * 112 * 2, pooled = stem / 4;
  const OpMemory conv = of("stem.conv.conv2d");
  CHECK(conv.fwd_in == images);
  CHECK(conv.fwd_out == stem);
  CHECK(conv.fwd_kept == stem);  // by the norm
  CHECK(conv.bwd_out == 0);      // images have no gradient
  // The norm keeps a mean and a deviation per channel, four bytes each; its result is not read
  // again, since ReLU's backward reads ReLU's own.
  const OpMemory norm = of("stem.norm.batch_norm");
  CHECK(norm.fwd_in == stem);
  CHECK(norm.fwd_out == stem + 2 * 64 * 4);
  CHECK(norm.fwd_kept == 2 * 64 * 4);
  CHECK(norm.bwd_out == stem);
  const OpMemory relu = of("stem.relu");
  CHECK(relu.fwd_in == 0);
  CHECK(relu.fwd_out == stem);
  CHECK(relu.bwd_out == stem);
  // Where each largest element was, in eight bytes.
  const OpMemory pool = of("stem.max_pool2d");
  CHECK(pool.fwd_in == 0);
  CHECK(pool.fwd_out == pooled + 4 * pooled);
  CHECK(pool.bwd_out == stem);
  // The two gradients of a block's input are added: that of the branch is the convolution's alone.
  CHECK(of("layers.0.conv_1.conv2d").bwd_out == pooled);
  CHECK(of("layers.0.conv_1.conv2d").bwd_tmp == pooled);
  CHECK(of("layers.0.add").bwd_out == 0);
  CHECK(of("pool.view").fwd_out == 0);
}

TEST_CASE("the peak is that of the Program, to the byte") {
  for (const char* model :
       {"{preset: vgg16}", "{preset: resnet50}", "{preset: densenet121}", "{preset: vit-b-16}",
        "{preset: swin-t}", "{preset: gpt2}", "{preset: bert-base}", "{preset: t5-small}"}) {
    CAPTURE(model);
    const Prepared prepared = prepare_text(study_of(model));
    const MemoryProfile profile = profile_memory(training_graph(prepared));
    CHECK(profile.peak == peak_of_program(prepared));
    CHECK(profile.kept <= profile.peak);
  }
  for (const char* set : {"recompute=full", "recompute=selective"}) {
    CAPTURE(set);
    const Prepared prepared = prepare_text(study_of("{preset: gpt2}"), {set});
    CHECK(profile_memory(training_graph(prepared)).peak == peak_of_program(prepared));
  }
}

}  // namespace trainyard::memory_profile_test
