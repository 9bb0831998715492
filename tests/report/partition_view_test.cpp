// How a model is cut, as compile --json, summary.json and the page have it.
#include "report/partition_view.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "app/simulation.h"
#include "tests/support/studies.h"

namespace trainyard::partition_view_test {

namespace {

PartitionView view_of(const std::string& more, const std::vector<std::string>& sets = {}) {
  const Prepared prepared = prepare_text(
      "model: {family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 128, seq_len: 32}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
      "training: {global_batch: 16, microbatch: 2, precision: bf16}\n" +
          more,
      sets);
  auto answer = simulate(prepared, {});
  REQUIRE(std::holds_alternative<Simulation>(answer));
  return *std::get<Simulation>(answer).summary.partition;
}

/// {depth, path, last, stages} of each row.
using Row = std::tuple<int, std::string, std::string, std::set<std::int32_t>>;

std::vector<Row> tree_of(const PartitionView& view) {
  std::vector<Row> out;
  for (const ModuleRow& row : view.modules)
    out.emplace_back(row.depth, row.path, row.last, row.stages);
  return out;
}

/// What lies on one stage each adds up to what is in the model, and to its stages.
void check_sums(const PartitionView& view) {
  ModuleRow leaves;
  StageRow stages;
  for (const ModuleRow& row : view.modules) {
    if (row.stages.size() > 1) continue;
    leaves.forward += row.forward;
    leaves.backward += row.backward;
    leaves.parameters += row.parameters;
    leaves.activations += row.activations;
  }
  for (const StageRow& row : view.stages) {
    stages.forward += row.forward;
    stages.backward += row.backward;
    stages.parameters += row.parameters;
    stages.activations += row.activations;
  }
  const ModuleRow& model = view.modules.front();
  CHECK(model.forward == Approx(stages.forward).epsilon(1e-12));
  CHECK(model.backward == Approx(stages.backward).epsilon(1e-12));
  CHECK(model.parameters == stages.parameters);
  CHECK(model.activations == stages.activations);
  // Modules of several stages have ops of their own, such as sums of a layer that is cut.
  CHECK(leaves.forward <= model.forward * (1 + 1e-12));
  CHECK(leaves.parameters <= model.parameters);
}

}  // namespace

TEST_CASE("stages say what they hold and what crosses each cut") {
  const PartitionView view =
      view_of("parallel: {pipeline: 2, data: 4}\nframework: trainyard\nschedule: gpipe\n");
  REQUIRE(view.stages.size() == 2);
  CHECK(view.chosen == "default");
  // A layer: 12 h^2 + 13 h; embeddings V h + s h, the final norm 2 h, the head the table again.
  const Bytes h = 64, layer = 12 * h * h + 13 * h;
  CHECK(view.stages[0].parameters == 2 * (2 * layer + 128 * h + 32 * h));
  CHECK(view.stages[1].parameters == 2 * (2 * layer + 2 * h + 128 * h));
  CHECK(view.stages[0].what == "embedding, layers 0 to 1");
  CHECK(view.stages[1].what == "layers 2 to 3, head and loss");
  CHECK(view.stages[0].replicas == 4);
  CHECK(view.stages[0].receives.empty());
  REQUIRE(view.stages[1].receives.size() == 1);
  // bf16 of 2 sequences of 32 tokens.
  CHECK(view.stages[1].receives[0].bytes == 2 * 2 * 32 * h);
  CHECK(view.stages[1].receives[0].from == 0);
  CHECK(view.stages[0].activations > 0);
  check_sums(view);
  const std::vector<Row> tree = tree_of(view);
  const auto has = [&](const Row& row) { return std::ranges::find(tree, row) != tree.end(); };
  CHECK(tree.front() == Row{0, "", "", {0, 1}});
  CHECK(has({3, "decoder.layers.0", "decoder.layers.1", {0}}));
  CHECK(has({3, "decoder.layers.2", "decoder.layers.3", {1}}));
}

TEST_CASE("a stage that is not behind the rank before it says who sends") {
  const PartitionView view = view_of(
      "partition: {cuts: [1, decoder.layers.2.mlp], on: [0, 1, 0]}\nschedule: gpipe\n"
      "parallel: {data: 1}\n");
  REQUIRE(view.stages.size() == 3);
  CHECK(view.stages[1].receives.at(0).from == 0);
  CHECK(view.stages[2].receives.at(0).from == 1);
  CHECK(view.stages[2].pipeline_rank == 0);
  CHECK(view.chosen.starts_with("from study.yaml:4:"));
  check_sums(view);
  // The layer that is cut is in parts: its MLP and what comes before.
  const std::vector<Row> tree = tree_of(view);
  const auto of_cut = std::ranges::find(tree, Row{3, "decoder.layers.2", "", {1, 2}});
  REQUIRE(of_cut != tree.end());
  CHECK(*(of_cut + 1) == Row{4, "decoder.layers.2.norm_1", "decoder.layers.2.norm_2", {1}});
  CHECK(*(of_cut + 2) == Row{4, "decoder.layers.2.mlp", "", {2}});
}

TEST_CASE("what several replicas send is one tensor of the stage that puts it together") {
  const PartitionView view =
      view_of("partition: {cuts: [1], replicas: [3, 1]}\n", {"training.microbatch=4"});
  REQUIRE(view.stages[1].receives.size() == 1);
  // bf16 of all 4 sequences of 32 tokens.
  CHECK(view.stages[1].receives[0].bytes == 2 * 4 * 32 * 64);
  CHECK(view.stages[0].replicas == 3);
  CHECK(view.stages[1].replicas == 1);
}

TEST_CASE("what is recomputed is kept no longer, and takes time backward") {
  const std::string plan = "parallel: {pipeline: 2, data: 1}\nschedule: 1f1b\nrecompute: ";
  const PartitionView none = view_of(plan + "none\n"), full = view_of(plan + "full\n");
  CHECK(full.stages[0].activations < none.stages[0].activations / 2);
  CHECK(full.stages[0].backward > none.stages[0].backward);
  CHECK(full.stages[0].forward == none.stages[0].forward);
}

TEST_CASE("halves of a backward are a backward") {
  const std::string plan = "parallel: {pipeline: 2, data: 1}\nschedule: ";
  const PartitionView whole = view_of(plan + "1f1b\n"), halves = view_of(plan + "zb-h1\n");
  CHECK(halves.stages[1].backward >= whole.stages[1].backward * (1 - 1e-9));
  check_sums(halves);
}

TEST_CASE("a view is keys of a summary") {
  const PartitionView view = view_of("parallel: {pipeline: 2, data: 1}\npartition: smp\n");
  CHECK_FALSE(view.planned.empty());
  nlohmann::ordered_json out;
  add_json(view, out);
  CHECK(out.at("partition").at("modules").size() == view.modules.size());
  CHECK(out.at("stages").size() == view.stages.size());
  CHECK(out.at("stages")[1].at("receives")[0].at("from") == 0);
  CHECK(out.at("planned") == view.planned);
}

}  // namespace trainyard::partition_view_test
