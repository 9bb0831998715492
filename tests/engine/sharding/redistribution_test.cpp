// Redistribution: never dearer than any path of up to four moves, than MAP's greedy one, and never
// with fewer bytes than boxes say must move.
#include "engine/sharding/redistribution.h"

#include <catch2/catch.hpp>
#include <map>

#include "engine/sharding/map_greedy.h"
#include "engine/sharding/normal_form.h"
#include "engine/sharding/spec_text.h"
#include "tests/support/after_move.h"
#include "tests/support/random_spec.h"

namespace trainyard::redistribution_test {

namespace {

using enum AxisState;

TensorSpec spec_of(const std::string& text, const DeviceMesh& mesh) {
  const auto parsed = parse_spec(text, mesh);
  REQUIRE(std::holds_alternative<TensorSpec>(parsed));
  return std::get<TensorSpec>(parsed);
}

/// No path from `from` to `to` costs less: bytes that some rank must receive in forward. A rank
/// must receive what it lacks. The k summands of a partial value take k - 1 messages to add up, and
/// one more for each further rank that wants the sum; the busiest rank receives the mean at least.
double least_bytes(const TensorSpec& from, const TensorSpec& to, const Extents& extents,
                   const DeviceMesh& mesh, double element_bytes) {
  double summands = 1;  // of a value
  double wanted = 1;    // ranks that want it
  for (const AxisId axis : mesh.axis_ids()) {
    const bool becomes = !has(to.partial, axis);
    if (has(from.partial, axis) && becomes && !dim_of(from, axis)) summands *= mesh.size(axis);
    const AxisState state = state_beside(to, axis);
    if (!dim_of(to, axis) && (state == AxisState::kReplicated || state == AxisState::kEntered))
      wanted *= mesh.size(axis);
  }
  double all = 1;
  for (const std::int64_t extent : extents) all *= static_cast<double>(extent);
  double least = 0;
  if (to.partial == 0) least = lacking_elements(from, to, extents, mesh);
  if (summands > 1) {
    const auto ranks = static_cast<double>(mesh.num_ranks());
    least = std::max(least, all * (summands + wanted - 2) / ranks);
  }
  return least * element_bytes;
}

MoveCosts random_costs(Random& random, const DeviceMesh& mesh) {
  MoveCosts costs;
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    costs.links.push_back({static_cast<double>(draw(random, 0, 4)), draw(random, 1, 8) / 4.0});
  return costs;
}

Redistribution found(const TensorSpec& from, const TensorSpec& to, const Extents& extents,
                     const DeviceMesh& mesh, const MoveCosts& costs) {
  const auto path = redistribute(from, to, extents, mesh, costs);
  CAPTURE(to_text(from, mesh), to_text(to, mesh));
  if (const auto* reason = std::get_if<Infeasible>(&path)) FAIL(reason->reason);
  return std::get<Redistribution>(path);
}

/// Every move that the table allows, whether it seems of use or not.
std::vector<Move> all_moves(const TensorSpec& spec, const DeviceMesh& mesh) {
  std::vector<Axes> choices;
  for (const AxisId axis : mesh.axis_ids()) {
    if (mesh.size(axis) > 1) choices.push_back({axis});
  }
  const std::size_t singles = choices.size();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    for (std::size_t a = 0; a < singles; ++a) {
      const AxisId axis = choices[a].front();
      if (has(set_of(choices[i]), axis)) continue;
      Axes longer = choices[i];
      longer.push_back(axis);
      choices.push_back(longer);
    }
  }
  std::vector<Move> moves;
  const auto dims = static_cast<std::int8_t>(spec.dims.size());
  constexpr std::int8_t kOne = 1;
  for (const Axes& axes : choices) {
    for (int from = 0; from < 5; ++from) {
      for (int to = 0; to < 5; ++to) {
        Move move{static_cast<AxisState>(from), static_cast<AxisState>(to), axes, -1, -1, 0};
        const bool splits = move.from == kSplit;
        if (from == to && !splits) continue;
        for (std::int8_t d = 0; d < (splits ? dims : kOne); ++d) {
          for (std::int8_t g = 0; g < (move.to == kSplit ? dims : kOne); ++g) {
            if (splits) move.from_dim = d;
            if (move.to == kSplit) move.to_dim = g;
            const int holders = move.to == kHeld ? mesh.size(axes[0]) : 1;
            for (move.coordinate = 0; move.coordinate < holders; ++move.coordinate)
              moves.push_back(move);
          }
        }
      }
    }
  }
  return moves;
}

/// The least cost of a path of at most `most` moves, over all of them; nullopt: none leads there.
std::optional<double> exhaustive(const TensorSpec& from, const TensorSpec& to,
                                 const Extents& extents, const DeviceMesh& mesh,
                                 const MoveCosts& costs, int most) {
  std::map<std::string, std::pair<TensorSpec, double>> reached = {{to_text(from, mesh), {from, 0}}};
  auto frontier = reached;
  for (int moves = 0; moves < most; ++moves) {
    decltype(reached) next;
    for (const auto& [text, at] : frontier) {
      for (const Move& move : all_moves(at.first, mesh)) {
        const auto moved = after_move(at.first, move, mesh);
        if (std::holds_alternative<Infeasible>(moved)) continue;
        const TensorSpec after = normal_form(std::get<TensorSpec>(moved), extents, mesh);
        const double cost =
            at.second + move_cost(move, at.first, after, extents, mesh, costs).total();
        const auto [best, made] = reached.try_emplace(to_text(after, mesh), after, cost);
        if (!made && best->second.second <= cost) continue;
        best->second.second = cost;
        next.insert_or_assign(best->first, best->second);
      }
    }
    frontier = std::move(next);
  }
  const auto at = reached.find(to_text(to, mesh));
  return at == reached.end() ? std::nullopt : std::optional(at->second.second);
}

/// Each step's move, done to the spec before it, gives the spec behind it.
void check_path(const Redistribution& path, const TensorSpec& to, const Extents& extents,
                const DeviceMesh& mesh) {
  TensorSpec at = path.from;
  for (const RedistributionStep& step : path.steps) {
    CAPTURE(to_text(at, mesh), to_text(step.after, mesh), to_text(step.move, mesh));
    REQUIRE_FALSE(spec_problem(step.after, extents, mesh));
    const auto moved = after_move(at, step.move, mesh);
    REQUIRE(std::holds_alternative<TensorSpec>(moved));
    CHECK(normal_form(std::get<TensorSpec>(moved), extents, mesh) == step.after);
    at = step.after;
  }
  CHECK(at == to);
}

}  // namespace

TEST_CASE("redistributions by hand") {
  const DeviceMesh mesh = mesh_of({2, 2});
  const MoveCosts costs{MoveCostModel::kExact, {{0, 1}, {0, 1}}, 1, true};
  const auto moves = [&](const std::string& from, const std::string& to) {
    const Redistribution path = found(spec_of(from, mesh), spec_of(to, mesh), {8, 8}, mesh, costs);
    std::string text;
    for (const RedistributionStep& step : path.steps)
      text += (text.empty() ? "" : "; ") + to_text(step.move, mesh);
    return text;
  };
  CHECK(moves("[a, R]", "[a, R]") == "");
  // Megatron's f and g, and their sequence-parallel forms.
  CHECK(moves("[R, R]", "[R, R] E(a)") == "nothing over a, backward all_reduce");
  CHECK(moves("[R, R] P(a)", "[R, R]") == "all_reduce over a, backward nothing");
  CHECK(moves("[a, R]", "[R, R] E(a)") == "all_gather dim 0 over a, backward reduce_scatter");
  CHECK(moves("[R, R] P(a)", "[a, R]") == "reduce_scatter dim 0 over a, backward all_gather");
  CHECK(moves("[a, R]", "[R, a]") == "all_to_all dim 0 to 1 over a, backward all_to_all");
  CHECK(moves("[a b, R]", "[b a, R]") == "permutation dim 0 over b a, backward permutation");
  // Two axes at once are one collective.
  CHECK(moves("[a b, R]", "[R, R]") == "all_gather dim 0 over a b, backward slice");
  // ATP's projection: heads over both axes, d wanted over b alone.
  CHECK(moves("[R, a b]", "[R, a] E(b)") == "all_gather dim 1 over b, backward reduce_scatter");
}

TEST_CASE("parts are moved part by part") {
  const DeviceMesh mesh = mesh_of({2, 2});
  const MoveCosts costs{MoveCostModel::kExact, {{0, 1}, {0, 1}}, 1, true};
  const auto moves = [&](const std::string& from, const std::string& to) {
    const auto normal = [&](const std::string& text) {
      return normal_form(spec_of(text, mesh), {16, 4}, mesh);
    };
    const Redistribution path = found(normal(from), normal(to), {16, 4}, mesh, costs);
    std::string text;
    for (const RedistributionStep& step : path.steps)
      text += (text.empty() ? "" : "; ") + to_text(step.move, mesh);
    return text;
  };
  const std::string qkv = "[4x2:a b|2x2:a|2x2:a, R]";
  // The gradient of a packed weight: the key-value rows alone are reduced over b.
  CHECK(moves(qkv + " P(b)", qkv) == "all_reduce over b, backward nothing");
  CHECK(moves(qkv + " E(b)", "[4x2:a|2x2:a|2x2:a, R] E(b)") ==
        "all_gather dim 0 over b, backward reduce_scatter");
  CHECK(moves("[R, R]", "[8x1:a|8x1:a, R]") == "slice dim 0 over a, backward all_gather");
  CHECK(moves("[8x1:a|8x1:a~, R]", "[a, R]") == "permutation dim 0 over a, backward permutation");
}

TEST_CASE("no path of up to four moves costs less, on meshes of up to three axes") {
  Random random(5);
  constexpr int kMostMoves = 4;
  int equal = 0;
  for (int round = 0; round < 200; ++round) {
    const int axes = round < 180 ? 2 : 3;
    const DeviceMesh mesh =
        axes == 3 ? mesh_of({2, 2, draw(random, 2, 3)}) : random_mesh(random, 2, 12);
    const Extents extents = random_extents(random, axes == 3 ? 2 : 3, 9);
    const bool held = axes == 2 && round % 2 == 0;
    const TensorSpec from = random_spec(random, extents, mesh, {false, held, true});
    const TensorSpec to = random_spec(random, extents, mesh, {false, held, true});
    const MoveCosts costs = random_costs(random, mesh);
    CAPTURE(round, to_text(from, mesh), to_text(to, mesh), extents);
    const Redistribution path = found(from, to, extents, mesh, costs);
    check_path(path, to, extents, mesh);
    const double cost = path_cost(path, extents, mesh, costs).total();
    const auto least = exhaustive(from, to, extents, mesh, costs, kMostMoves);
    if (!least) continue;
    CHECK(cost <= *least * (1 + 1e-9) + 1e-9);
    if (static_cast<int>(path.steps.size()) > kMostMoves) continue;
    CHECK(cost == Approx(*least).epsilon(1e-9).margin(1e-9));
    ++equal;
  }
  CHECK(equal > 100);
}

TEST_CASE("no path moves fewer bytes than boxes say") {
  Random random(6);
  for (int round = 0; round < 3000; ++round) {
    const DeviceMesh mesh = random_mesh(random, 3, 12);
    const Extents extents = random_extents(random, 3, 9);
    const bool packed = round % 2 == 0;
    const TensorSpec from = random_spec(random, extents, mesh, {packed, !packed, true});
    const TensorSpec to = random_spec(random, extents, mesh, {packed, !packed, true});
    const MoveCosts costs = random_costs(random, mesh);
    CAPTURE(round, to_text(from, mesh), to_text(to, mesh));
    const Redistribution path = found(from, to, extents, mesh, costs);
    REQUIRE((path.steps.empty() ? from : path.steps.back().after) == to);
    const MoveCost cost = path_cost(path, extents, mesh, costs);
    std::string steps;
    for (const RedistributionStep& step : path.steps)
      steps += to_text(step.move, mesh) + " -> " + to_text(step.after, mesh) + "; ";
    CAPTURE(steps, extents);
    CHECK(cost.forward_bytes >= least_bytes(from, to, extents, mesh, 1) - 1e-9);
    CHECK(cost.backward_bytes >= least_bytes(dual(to), dual(from), extents, mesh, 1) - 1e-9);
  }
}

TEST_CASE("the shortest path never costs more than MAP's greedy one") {
  // Every pair of specs, meshes of up to 64 devices, one even and one uneven tensor of each rank;
  // bench/redistribution.cpp has all.
  for (const auto& sizes :
       std::vector<std::vector<std::int32_t>>{{2, 2}, {2, 4}, {4, 2}, {3, 5}, {8, 8}, {2, 32}}) {
    const DeviceMesh mesh = mesh_of(sizes);
    for (const MoveCostModel model : {MoveCostModel::kExact, MoveCostModel::kColossal}) {
      const MoveCosts costs{model, {{3, 1}, {1, 2}}, 2, true};
      for (const Extents& extents : {Extents{64, 96}, Extents{7, 64, 30}}) {
        RedistributionCache cache(mesh, costs);
        std::vector<TensorSpec> specs = {replicated_spec(extents.size())};
        for (std::size_t i = 0; i < specs.size(); ++i) {
          for (const RedistributionStep& step : colossal_steps(specs[i], mesh)) {
            if (std::find(specs.begin(), specs.end(), step.after) == specs.end())
              specs.push_back(step.after);
          }
        }
        for (const TensorSpec& from : specs) {
          for (const TensorSpec& to : specs) {
            const auto greedy = greedy_redistribution(from, to, mesh);
            REQUIRE(std::holds_alternative<Redistribution>(greedy));
            const auto& best = cache.find(from, to, extents, 2);
            REQUIRE(std::holds_alternative<Redistribution>(best));
            const double cost =
                path_cost(std::get<Redistribution>(best), extents, mesh, costs).total();
            const double other =
                path_cost(std::get<Redistribution>(greedy), extents, mesh, costs).total();
            REQUIRE(cost <= other * (1 + 1e-9));
          }
        }
      }
    }
  }
}

TEST_CASE("a cache searches each path once") {
  const DeviceMesh mesh = mesh_of({2, 2});
  RedistributionCache cache(mesh, {MoveCostModel::kExact, {{0, 1}, {0, 1}}, 1, true});
  const auto* first = &cache.find(spec_of("[a, R]", mesh), spec_of("[R, a]", mesh), {8, 8});
  CHECK(&cache.find(spec_of("[a, R]", mesh), spec_of("[R, a]", mesh), {8, 8}) == first);
  CHECK(cache.size() == 1);
  cache.find(spec_of("[a, R]", mesh), spec_of("[R, a]", mesh), {8, 9});
  cache.find(spec_of("[a, R]", mesh), spec_of("[R, b]", mesh), {8, 8});
  cache.find(spec_of("[a, R]", mesh), spec_of("[R, a]", mesh), {8, 8}, 2);
  CHECK(cache.size() == 4);
}

TEST_CASE("what has no gradient is moved by its forward alone") {
  const DeviceMesh mesh = mesh_of({2, 2});
  const MoveCosts costs{MoveCostModel::kExact, {{0, 1}, {0, 1}}, 1, true};
  const Redistribution path =
      found(spec_of("[R] Pmax(a)", mesh), spec_of("[a]", mesh), {8}, mesh, costs);
  REQUIRE(path.steps.size() == 1);
  CHECK(forward_kind(path.steps[0].move) == MoveKind::kReduceScatter);
  const auto sum =
      redistribute(spec_of("[R] Pmax(a)", mesh), spec_of("[R] P(b)", mesh), {8}, mesh, costs);
  CHECK(std::get<Infeasible>(sum).reason == "summands are no candidates for a maximum");
}

}  // namespace trainyard::redistribution_test
