// Plans that are promised to keep a budget keep it when they run: random graphs, whose splits over
// ranks and recomputation are chosen for random budgets, hold no more at any op, and train as
// autograd says.
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "app/analytic_step.h"
#include "app/choose_rotor.h"
#include "app/choose_splits.h"
#include "tests/real/graph_run.h"
#include "tests/support/random_graph.h"
#include "tests/support/studies.h"

namespace trainyard::random_budgets_test {

namespace {

constexpr double kWithin = 1e-10;

/// A graph that no study describes, with a study's devices.
Prepared prepared_of(const Graph& graph, const std::vector<int>& mesh, Bytes budget) {
  Prepared out = prepare_text(
      "model: {family: gpt, layers: 1, hidden: 8, heads: 1, vocab: 8, seq_len: 4}\n"
      "cluster: {preset: local, ranks: 4, device: cpu}\n"
      "training: {global_batch: 4, microbatch: 1}\n");
  static_cast<Plan&>(out.study) = plan_of_graph();
  out.study.model.family = Family::kOnnx;
  out.study.recompute.method = RecomputeConfig::Method::kRotor;
  out.study.recompute.memory_budget = budget;
  for (const int size : mesh) out.study.parallel.tensor *= size;
  if (!mesh.empty()) {
    out.study.parallel.tensor_method = "map";
    out.study.parallel.tensor_mesh = mesh;
  }
  out.software = {};
  out.model = graph;
  return out;
}

Program program_of_study(const Prepared& prepared) {
  PassLog log;
  auto program = program_of(prepared, prepared.study, log);
  REQUIRE(program.has_value());
  return *std::move(program);
}

Bytes peak_of(const Prepared& prepared, const Program& program) {
  Bytes most = 0;
  for (const MemoryPeak& peak : peaks_of(prepared, prepared.study, program))
    most = std::max(most, peak.total);
  return most;
}

/// What it takes where nothing is computed again, or split.
Bytes whole_peak(const Graph& graph) {
  Prepared whole = prepared_of(graph, {}, 0);
  whole.study.recompute = {};
  return peak_of(whole, program_of_study(whole));
}

/// Chosen within the budget, or within the smallest that was found to work, which it then is;
/// nullopt: executors have no split of the graph over that mesh.
std::optional<Prepared> chosen_within(const Graph& graph, const std::vector<int>& mesh,
                                      Bytes& budget) {
  for (;;) {
    Prepared out = prepared_of(graph, mesh, budget);
    try {
      choose_splits(out);
      choose_sequences(out);
      return out;
    } catch (const PlanError& error) {
      const std::string text = error.what(), works = "works is ", found = "to work is ";
      const std::size_t at = text.find(works), other = text.find(found);
      if (at == std::string::npos && other == std::string::npos) return std::nullopt;
      const Bytes least = std::stoll(at != std::string::npos ? text.substr(at + works.size())
                                                             : text.substr(other + found.size()));
      REQUIRE(least > budget);
      budget = least;
    }
  }
}

struct Tally {
  std::uint64_t ran = 0;
  int recomputed = 0, split = 0, least = 0;
};

void check_seed(std::uint64_t seed, Tally& tally) {
  const std::vector<std::vector<int>> meshes = {{}, {2}, {2, 2}};
  const std::vector<int>& mesh = meshes[seed % meshes.size()];
  std::mt19937 random(static_cast<unsigned>(seed));
  const Graph graph = random_graph(seed, {.ops = 4 + static_cast<int>(seed % 12), .even = true});
  const double share = 0.2 + 0.8 * std::uniform_real_distribution<>()(random);
  const auto said = static_cast<Bytes>(share * static_cast<double>(whole_peak(graph)));
  Bytes budget = said;
  const auto found = chosen_within(graph, mesh, budget);
  if (!found) return;
  const Prepared& chosen = *found;
  ++tally.ran;
  CAPTURE(seed, mesh, said, budget, chosen.study.recompute.sequences);
  const Program program = program_of_study(chosen);
  CHECK(peak_of(chosen, program) <= budget);
  const GraphRun ours = run_program(program, graph, chosen.study);
  const GraphRun theirs = differentiate_by_torch(graph);
  CHECK(ours.peak_live > 0);
  CHECK(ours.peak_live <= budget);
  CHECK(ours.loss == Approx(theirs.loss).epsilon(kWithin));
  for (const auto& [name, gradient] : theirs.gradients) {
    CAPTURE(name);
    REQUIRE(ours.gradients.contains(name));
    const std::vector<double>& own = ours.gradients.at(name);
    REQUIRE(own.size() == gradient.size());
    double apart = 0, size = 1;
    for (std::size_t i = 0; i < own.size(); ++i) {
      apart = std::max(apart, std::abs(own[i] - gradient[i]));
      size = std::max(size, std::abs(gradient[i]));
    }
    CHECK(apart <= kWithin * size);
  }
  tally.least += budget > said ? 1 : 0;
  tally.split += chosen.study.parallel.tensor_ops.empty() ? 0 : 1;
  for (const std::string& sequence : chosen.study.recompute.sequences)
    tally.recomputed += sequence.find("CF") != std::string::npos ? 1 : 0;
}

void check_seeds(std::uint64_t first, std::uint64_t count) {
  Tally tally;
  for (std::uint64_t seed = first; seed < first + count; ++seed) check_seed(seed, tally);
  CHECK(tally.ran > count * 9 / 10);
  CHECK(tally.recomputed > 0);
  CHECK(tally.split > 0);
  CHECK(tally.least > 0);
}

}  // namespace

TEST_CASE("plans of random graphs keep their budgets when they run") { check_seeds(0, 24); }

// Two hundred of them, by name: planned_test "[budgets]".
TEST_CASE("plans of many random graphs keep their budgets when they run", "[.][budgets]") {
  check_seeds(1000, 200);
}

}  // namespace trainyard::random_budgets_test
