// Methods that are made for meshes of a form of their own: what each gathers, adds up and scatters
// is what its paper says, weights lie in as many pieces as there are ranks, and what a study cannot
// have is refused at its key.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "tests/support/studies.h"

namespace trainyard::passes_mesh_methods_test {

namespace {

// B = 4, S = 8, H = 32, F = 4 H, V = 64.
const std::string kGpt =
    "model: {family: gpt, layers: 2, hidden: 32, heads: 8, vocab: 64, seq_len: 8}\n"
    "cluster: dgx-a100-80g\n"
    "parallel: {tensor: 8, data: 1}\n"
    "training: {global_batch: 4, microbatch: 4, flash_attention: true, dropout: 0}\n";
constexpr std::int64_t kRows = 4 * 8, kHidden = 32, kWeights = 12 * kHidden * kHidden;

std::vector<std::string> by(const std::string& method, int ranks) {
  return {"parallel.tensor_method=" + method, "parallel.tensor=" + std::to_string(ranks),
          "parallel.data=1", "cluster={preset: dgx-a100-80g, gpus: " + std::to_string(ranks) + "}"};
}

/// "F all_gather tp1" -> elements that a rank then has of what layer 0 communicates so in a forward
/// (F) or a backward (B); of weights and of norms apart.
std::map<std::string, std::int64_t> volumes(const Program& program) {
  std::map<std::string, std::int64_t> out;
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      const std::string& module = program.modules[op.module];
      if (!module.starts_with("decoder.layers.0.") || !is_collective(op.kind)) continue;
      const Value& made = program.values[op.writes[0].value];
      std::int64_t elements = 1;
      for (const Dim& dim : made.dims) elements *= dim.bound;
      const bool norm = module.find(".norm_") != std::string::npos;
      const bool weight = made.name.find("weight") != std::string::npos;
      out[(segment.name == "0F" ? "F " : "B ") + std::string(to_string(op.kind)) + " " +
          program.groups[op.group].name +
          (norm     ? " norm"
           : weight ? " weight"
                    : "")] += elements;
    }
  }
  return out;
}

std::string problem_of(const std::vector<std::string>& sets) {
  try {
    prepare_text(kGpt, sets);
  } catch (const ConfigError& error) {
    const std::string text = error.key_path() + ": " + error.problem();
    return text.substr(0, text.find(" (set by"));
  }
  return "";
}

}  // namespace

TEST_CASE("SUMMA's products gather activations along rows and weights along columns") {
  constexpr std::int64_t q = 2, rows = kRows / q;
  // Query, key and value, attention's output and the MLP's two read 1, 1, 1 and 4 h.
  const std::map<std::string, std::int64_t> expected = {
      {"F all_gather tp1", rows * 7 * kHidden},
      {"F all_gather tp0 weight", kWeights / q},
      {"F all_reduce tp1 norm", rows * 2 * 3},
      // Both operands once more, and both gradients back to where they are stored.
      {"B all_gather tp1", rows * 7 * kHidden},
      {"B all_gather tp0 weight", kWeights / q},
      {"B reduce_scatter tp1", rows * 7 * kHidden / q},
      {"B reduce_scatter tp0 weight", kWeights / q / q},
      {"B all_reduce tp1 norm", rows * 2 * 3}};
  CHECK(volumes(compiled_program(prepare_text(kGpt, by("summa-2d", 4)))) == expected);
}

TEST_CASE("layers of SUMMA have samples of their own, and the same weights") {
  constexpr std::int64_t q = 2, rows = kRows / q / 2;
  const std::map<std::string, std::int64_t> expected = {
      {"F all_gather tp2", rows * 7 * kHidden},
      {"F all_gather tp1 weight", kWeights / q},
      {"F all_reduce tp2 norm", rows * 2 * 3},
      {"B all_gather tp2", rows * 7 * kHidden},
      {"B all_gather tp1 weight", kWeights / q},
      {"B reduce_scatter tp2", rows * 7 * kHidden / q},
      {"B reduce_scatter tp1 weight", kWeights / q / q},
      {"B all_reduce tp2 norm", rows * 2 * 3}};
  CHECK(volumes(compiled_program(prepare_text(kGpt, by("summa-2.5d", 8)))) == expected);
}

TEST_CASE("products in three dimensions gather, multiply and scatter, each along an axis") {
  constexpr std::int64_t p = 2, block = kRows / p * kHidden / p, part = block / p;
  const std::map<std::string, std::int64_t> expected = {
      // Every second product has the two axes of samples and features in each other's place.
      {"F all_gather tp1", 2 * block},
      {"F all_gather tp2", (1 + 4) * block},
      {"F all_gather tp0 weight", kWeights / p / p},
      {"F reduce_scatter tp2", (3 + 4) * part},
      {"F reduce_scatter tp1", 2 * part},
      {"F all_reduce tp2 norm", kRows / p / p * 2 * 3},
      // What was scattered is gathered, and the operands once more.
      {"B all_gather tp1", (2 + 2) * block},
      {"B all_gather tp2", (5 + 7) * block},
      {"B all_gather tp0 weight", kWeights / p / p},
      {"B reduce_scatter tp1", 2 * part},
      {"B reduce_scatter tp2", 5 * part},
      {"B reduce_scatter tp0 weight", kWeights / p / p / p},
      {"B all_reduce tp2 norm", kRows / p / p * 2 * 3}};
  CHECK(volumes(compiled_program(prepare_text(kGpt, by("3d", 8)))) == expected);
}

TEST_CASE("a rank stores its share of every product's weight and of every table") {
  const Graph whole = sharded_graph(prepare_text(kGpt, {"parallel.tensor=1"}));
  struct Trial {
    std::string method;
    int ranks, pieces;  // layers of 2.5-D have copies
  };
  for (const Trial& trial : {Trial{"summa-2d", 4, 4}, {"summa-2.5d", 8, 4}, {"3d", 8, 8}}) {
    CAPTURE(trial.method);
    const Graph split = sharded_graph(prepare_text(kGpt, by(trial.method, trial.ranks)));
    int matrices = 0;
    for (const ParameterId id : whole.parameters.keys()) {
      const Shape& shape = whole.tensors[whole.parameters[id].tensor].shape;
      const Tensor& part = split.tensors[split.parameters[id].tensor];
      if (shape.size() != 2) continue;
      ++matrices;
      CHECK(num_elements(part.shape) * trial.pieces == num_elements(shape));
    }
    CHECK(matrices == 2 + 2 * 4);
  }
}

TEST_CASE("other numbers of ranks, samples and features are refused with what works") {
  CHECK(problem_of(by("summa-2d", 8)) ==
        "parallel.tensor: method summa-2d is made for meshes of q x q, not for 8 ranks; 4 and 9 "
        "do");
  CHECK(problem_of(by("summa-2.5d", 4)) ==
        "parallel.tensor: method summa-2.5d is made for meshes of d x q x q with d of 2 to q, not "
        "for 4 ranks; 8 does");
  CHECK(problem_of(by("3d", 4)) ==
        "parallel.tensor: method 3d is made for meshes of p x p x p, not for 4 ranks; 8 does");
  const auto with = [](std::vector<std::string> sets, const std::string& more) {
    sets.push_back(more);
    return sets;
  };
  CHECK(problem_of(with(by("3d", 8), "training.microbatch=2")) ==
        "training.microbatch: method 3d on 8 ranks splits the samples of a microbatch over 4, "
        "which do not divide 2; 4 does");
  CHECK(
      problem_of(with(by("3d", 8), "parallel.tensor={tp0: 2, tp1: 4}")) ==
      "parallel.tensor: method 3d is made for meshes of p x p x p; write {tp0: 2, tp1: 2, tp2: 2}");
  CHECK(
      problem_of(
          with(by("summa-2d", 4), "parallel.tensor_method={name: summa-2d, mesh: [2, 2]}")) ==
      "parallel.tensor_method.mesh: method summa-2d has the mesh that parallel.tensor says; leave "
      "it out, or write name: atp");
  CHECK(problem_of(with(by("summa-2d", 4), "model.heads=1")) ==
        "parallel.tensor: method summa-2d on 4 ranks splits features over 2, which do not divide "
        "model.heads 1");
}

}  // namespace trainyard::passes_mesh_methods_test
