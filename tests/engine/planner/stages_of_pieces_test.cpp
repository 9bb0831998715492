// What stages of pieces cost, beside the Programs that they become.
#include "engine/planner/stages_of_pieces.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "engine/partition/task_blocks.h"
#include "engine/passes/one_stage_graph.h"
#include "tests/support/studies.h"

namespace trainyard::stages_of_pieces_test {

namespace {

const std::string kRest =
    "cluster: {preset: dgx-1v, nodes: 1}\nframework: pytorch\nschedule: gpipe\n"
    "training: {global_batch: 16, precision: fp32}\n";
const std::map<std::string, std::string> kModels = {
    {"bert",
     "model: {family: bert, layers: 6, hidden: 512, heads: 8, vocab: 8000, seq_len: 128}\n"},
    {"gpt", "model: {family: gpt, layers: 6, hidden: 512, heads: 8, vocab: 8000, seq_len: 128}\n"},
    {"resnet", "model: resnet50\n"},
    {"unet",
     "model: {family: unet, depth: 2, hidden: 8, image_size: 32, channels: 3, classes: 5}\n"}};

TrainingGraph graph_of(const Prepared& prepared) {
  return std::get<TrainingGraph>(
      one_stage_graph(prepared.model, prepared.study, prepared.software));
}

/// The pieces of a model of one stage, and their profiles.
struct Profiled {
  explicit Profiled(const std::string& model, std::vector<std::string> given = {})
      : text(model + kRest),
        sets(std::move(given)),
        one(prepared(1)),
        training(graph_of(one)),
        pieces(pieces_of(training, one.hardware, one.software)) {}

  Prepared prepared(std::int64_t samples) const {
    std::vector<std::string> all = {"parallel={pipeline: 1, data: 1}",
                                    "training.microbatch=" + std::to_string(samples)};
    all.insert(all.end(), sets.begin(), sets.end());
    return prepare_text(text, all);
  }
  const PieceProfile& of(std::int64_t samples) {
    const auto [at, is_new] = known_.try_emplace(samples);
    if (is_new) {
      const Prepared many = prepared(samples);
      at->second = profile_pieces(graph_of(many), pieces.begins, many.hardware, many.software);
    }
    return at->second;
  }
  /// Each piece by itself.
  std::vector<std::size_t> ends() const {
    std::vector<std::size_t> out(pieces.size());
    std::iota(out.begin(), out.end(), 1);
    return out;
  }

  std::string text;
  std::vector<std::string> sets;
  Prepared one;
  TrainingGraph training;
  ModelPieces pieces;

 private:
  std::map<std::int64_t, PieceProfile> known_;
};

}  // namespace

TEST_CASE("pieces are all ops in their order, and take what these take") {
  for (const auto& [name, model] : kModels) {
    CAPTURE(name);
    Profiled found(model);
    CHECK(std::ranges::is_sorted(found.pieces.begins));
    const auto ops = profile_ops(found.training, found.one.hardware, found.one.software);
    Seconds forward = 0, backward = 0;
    double parameters = 0;
    for (const OpProfile& op : ops) {
      forward += op.forward;
      backward += op.backward;
      parameters += op.parameters;
    }
    const PieceProfile& profile = found.of(1);
    const auto sum = [](const std::vector<double>& of) {
      return std::accumulate(of.begin(), of.end(), 0.0);
    };
    CHECK(sum(profile.forward) == Approx(forward));
    CHECK(sum(profile.backward) == Approx(backward));
    CHECK(sum(found.pieces.parameters) == Approx(parameters));
    CHECK(sum(profile.recomputed) == 0);
    // Bytes of activations are in proportion to samples; a mask's element has a byte, as ever.
    CHECK(sum(found.of(4).kept) == Approx(4 * sum(profile.kept)).epsilon(0.01));
  }
}

TEST_CASE("what is recomputed is not kept") {
  Profiled none(kModels.at("bert"));
  Profiled full(kModels.at("bert"), {"recompute={method: full, ends: true}"});
  const auto sum = [](const std::vector<double>& of) {
    return std::accumulate(of.begin(), of.end(), 0.0);
  };
  const double kept = sum(none.of(1).kept), left = sum(full.of(1).kept);
  // The inputs of six layers and of the head, 128 x 512 of fp32 each, the rows that were found in
  // three tables, and little: statistics of norms, the loss.
  CHECK(left == Approx(10 * 128 * 512 * 4.0).epsilon(0.01));
  CHECK(left + sum(full.of(1).recomputed) >= kept);
  CHECK(sum(full.of(1).backward) > sum(none.of(1).backward));
}

TEST_CASE("tasks of a chain make blocks and stages of consecutive pieces") {
  for (const auto& [name, model] : kModels) {
    CAPTURE(name);
    Profiled found(model);
    const TaskGraph graph = tasks_of(found.training, found.pieces, found.of(2), 2, 8);
    std::vector<std::size_t> order(graph.tasks.size());
    std::iota(order.begin(), order.end(), 0);
    const auto atoms = atoms_of(graph, order);
    REQUIRE(atoms.size() == found.pieces.size());
    for (const std::size_t count : {3, 8, 20}) {
      const TaskBlocks blocks = blocks_of(graph, atoms, {.count = count});
      std::size_t next = 0;
      for (const TaskBlock& block : blocks.blocks) {
        for (const std::size_t task : block.tasks) CHECK(task == next++);
      }
      CHECK(next == atoms.size());
      CHECK(blocks.blocks.size() == std::min(count, atoms.size()));
    }
  }
}

TEST_CASE("a parameter that two pieces of a stage read is held once") {
  // BERT's head multiplies by the token table, which the embedding reads.
  Profiled found(kModels.at("bert"));
  StageUnits units;
  units.parameter_bytes = 1;
  units.state_bytes = 0;
  units.activation_factor = 0;
  units.batch = 16;
  const std::size_t count = found.pieces.size();
  const StagesOfPieces stages(
      found.pieces, found.ends(), units,
      [&](std::int64_t samples, bool) -> const PieceProfile& { return found.of(samples); });
  const auto parameters = [&](std::size_t first, std::size_t end) {
    return stages.stage({first, end, 1, 1, 1, 1, false}).memory;
  };
  const double table = 8000 * 512;
  const double all = parameters(0, count);
  CHECK(all == Approx(static_cast<double>(count_parameters(found.one.model).with_head)));
  CHECK(parameters(0, 1) + parameters(1, count) == Approx(all + table));
  CHECK(parameters(0, count / 2) + parameters(count / 2, count) == Approx(all + table));
  // More replicas than a microbatch has sequences hold nothing.
  CHECK(stages.stage({0, 1, 1, 8, 1, 4, false}).memory > 1e300);
}

}  // namespace trainyard::stages_of_pieces_test
