// Recomputation by rotor's sequences trains as one device does that keeps everything.

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "app/analytic_step.h"
#include "tests/real/exec/as_one_device.h"
#include "tests/real/layouts.h"
#include "tests/real/parity.h"
#include "tests/support/studies.h"

namespace trainyard::rotor_test {

namespace {

const std::string kTraining = "precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}, dropout: ";

std::string study(const std::string& family) {
  return parity_study(family, kTraining + (family == "llama" ? "0" : "0.1"));
}

std::string budget(std::int64_t bytes) {
  return "recompute={method: rotor, memory_budget: " + std::to_string(bytes) + " B}";
}

/// The smallest budget that was found to work, as the refusal of a smaller one says it.
std::int64_t least_budget(const std::string& yaml, Sets sets) {
  sets.push_back(budget(1));
  try {
    prepare_text(yaml, sets);
  } catch (const PlanError& error) {
    const std::string text = error.what();
    const std::size_t at = text.find(" works is "), found = text.find(" to work is ");
    if (found != std::string::npos) return std::stoll(text.substr(found + 12));
    if (at != std::string::npos) return std::stoll(text.substr(at + 10));
    throw;
  }
  return 1;
}

/// Where nothing is computed again.
std::int64_t whole_peak(const std::string& yaml, const Sets& layout) {
  const Prepared prepared = prepare_text(yaml, layout);
  std::int64_t most = 0;
  for (const MemoryPeak& peak : peaks_of(prepared, prepared.study, compiled_program(prepared)))
    most = std::max<std::int64_t>(most, peak.total);
  return most;
}

bool has_checkpoints(const Prepared& prepared) {
  const auto& sequences = prepared.study.recompute.sequences;
  return std::any_of(sequences.begin(), sequences.end(), [](const std::string& sequence) {
    return sequence.find("CF") != std::string::npos;
  });
}

bool recomputes(const Prepared& prepared) {
  return prepared.study.recompute.sequences.empty() || has_checkpoints(prepared);
}

/// In the least memory in which a sequence is fastest, not all layers from their inputs; where that
/// is none, in the least.
void check_rotor(const std::string& yaml, const Sets& layout, const LoopbackRun& one) {
  constexpr int kBudgets = 8;
  const std::int64_t least = least_budget(yaml, layout);
  const std::int64_t more = whole_peak(yaml, layout) - least;
  const auto within = [&](std::int64_t bytes) {
    Sets sets = layout;
    sets.push_back(budget(bytes));
    return sets;
  };
  Sets sets = within(least);
  const Prepared in_least = prepare_text(yaml, sets);
  CHECK(recomputes(in_least));
  bool found = has_checkpoints(in_least);
  for (int n = 1; n < kBudgets && !found; ++n) {
    const Sets tried = within(least + more * n / kBudgets);
    found = has_checkpoints(prepare_text(yaml, tried));
    if (found) sets = tried;
  }
  CAPTURE(sets);
  check_same(one, run_loopback(yaml, sets, {.steps = 2}), kFp64);
}

}  // namespace

TEST_CASE("rotor trains as one device does in every family") {
  const Sets two = {"training.microbatch=2"};
  for (const std::string family : {"gpt", "bert", "llama", "t5"}) {
    const LoopbackRun one = run_loopback(study(family), two, {.steps = 2});
    for (const std::string flash : {"auto", "false"}) {
      CAPTURE(family);
      check_rotor(study(family), joined(two, {"training.flash_attention=" + flash}), one);
    }
  }
}

TEST_CASE("rotor trains as one device does beside every feature") {
  const std::vector<Sets> layouts = {
      {"cluster.ranks=2", "parallel.tensor=2", "parallel.sequence_parallel=true"},
      {"cluster.ranks=2", "parallel.pipeline=2", "schedule=1f1b"},
      {"cluster.ranks=2", "parallel.pipeline=2", "schedule=zb-h1"},
      {"cluster.ranks=2", "parallel.pipeline=2", "schedule=gpipe"},
      {"cluster.ranks=2", "parallel.data=2", "parallel.zero=2"},
      {"cluster.ranks=2", "parallel.data=2", "parallel.zero=3"},
      {"cluster.ranks=4", "parallel.tensor=4", "parallel.tensor_method={name: map, mesh: [2, 2]}"}};
  for (const std::string family : {"gpt", "llama"}) {
    const Sets two = {"training.microbatch=2"};
    const LoopbackRun one = run_loopback(study(family), two, {.steps = 2});
    for (const Sets& layout : layouts) {
      CAPTURE(family);
      check_rotor(study(family), joined(two, layout), one);
    }
  }
}

TEST_CASE("rotor trains images and other models as one device does") {
  const std::vector<std::string> models = {
      "{family: vit, layers: 2, hidden: 32, heads: 4, image_size: 12, patch_size: 4, classes: 8}",
      "{family: resnet, depth: 18, image_size: 32, classes: 8}",
      "{family: vgg, depth: 11, image_size: 32, classes: 5}",
      "{family: densenet, depth: 121, image_size: 32, classes: 8}",
      "{family: swin, layers: 8, hidden: 16, heads: 2, image_size: 32, patch_size: 2, "
      "window_size: 2, classes: 4}",
      "{family: unet, depth: 2, hidden: 8, image_size: 16, classes: 5}",
      "{family: mamba2, layers: 2, hidden: 16, head_dim: 8, state_size: 6, chunk_size: 4, "
      "vocab: 40, seq_len: 8}",
      "{family: clip, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 6, image_layers: 2, "
      "image_hidden: 16, image_heads: 4, image_size: 8, patch_size: 4, projection_dim: 8, "
      "contrast: 4}"};
  for (const std::string& model : models) {
    CAPTURE(model);
    const std::string yaml = study_of(model, 8, 4);
    check_rotor(yaml, {}, run_loopback(yaml, {}, {.steps = 2}));
  }
}

TEST_CASE("rotor trains NCF, whose loss is a mean, in pipelines as one device does") {
  const std::string yaml =
      study_of("{family: ncf, layers: 4, hidden: 4, users: 32, items: 20}", 4096, 512);
  const LoopbackRun one = run_loopback(yaml, {}, {.steps = 2});
  check_rotor(yaml, pipeline(2, "1f1b"), one);
  check_rotor(yaml, joined(pipeline(2, "dualpipe-v"), {"parallel.virtual_stages=2"}), one);
}

TEST_CASE("rotor trains models that PyTorch exported as one device does") {
  for (const std::string name : {"vit", "swin"}) {
    const std::string yaml = study_of(
        "{onnx: " TRAINYARD_SOURCE_DIR "/tests/golden/onnx/" + name + "-dynamo.onnx}", 8, 4);
    CAPTURE(name);
    check_rotor(yaml, {}, run_loopback(yaml, {}, {.steps = 2}));
  }
}

}  // namespace trainyard::rotor_test
