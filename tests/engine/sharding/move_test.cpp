// Moves: the table with its backward, costs of known collectives, and the bound that boxes give.
#include "engine/sharding/move.h"

#include <catch2/catch.hpp>

#include "engine/sharding/move_cost.h"
#include "engine/sharding/moved_axes.h"
#include "engine/sharding/normal_form.h"
#include "engine/sharding/spec_text.h"
#include "tests/support/after_move.h"
#include "tests/support/random_spec.h"

namespace trainyard::move_test {

namespace {

using enum AxisState;

std::string both(AxisState from, AxisState to, int from_dim = -1, int to_dim = -1) {
  const Move move{
      from, to, {0}, static_cast<std::int8_t>(from_dim), static_cast<std::int8_t>(to_dim), 0};
  return std::string(to_string(forward_kind(move))) + ", " +
         std::string(to_string(backward_kind(move)));
}

TensorSpec spec_of(const std::string& text, const DeviceMesh& mesh) {
  const auto parsed = parse_spec(text, mesh);
  REQUIRE(std::holds_alternative<TensorSpec>(parsed));
  return std::get<TensorSpec>(parsed);
}

MoveCosts unit_costs(const DeviceMesh& mesh) {
  return {MoveCostModel::kExact, Numbered<AxisLink>(mesh.axes.size(), AxisLink{0, 1}), 1, true};
}

/// "forward bytes, backward bytes" of a move between two specs of 12 x 12 elements over a of 2 and
/// b of 3 ranks.
std::string bytes(const Move& move, const std::string& before, const std::string& after) {
  const DeviceMesh mesh = mesh_of({2, 3});
  const TensorSpec from = spec_of(before, mesh);
  const auto moved = after_move(from, move, mesh);
  REQUIRE(std::holds_alternative<TensorSpec>(moved));
  CHECK(to_text(std::get<TensorSpec>(moved), mesh) == after);
  const MoveCost cost =
      move_cost(move, from, std::get<TensorSpec>(moved), {12, 12}, mesh, unit_costs(mesh));
  std::ostringstream text;
  text << cost.forward_bytes << ", " << cost.backward_bytes;
  return text.str();
}

}  // namespace

TEST_CASE("each move has the backward that the dual specs give") {
  CHECK(both(kSplit, kReplicated, 0) == "all_gather, slice");
  CHECK(both(kSplit, kEntered, 0) == "all_gather, reduce_scatter");
  CHECK(both(kReplicated, kSplit, -1, 0) == "slice, all_gather");
  CHECK(both(kPartial, kReplicated) == "all_reduce, nothing");
  CHECK(both(kPartial, kEntered) == "all_reduce, all_reduce");
  CHECK(both(kPartial, kSplit, -1, 0) == "reduce_scatter, all_gather");
  CHECK(both(kReplicated, kEntered) == "nothing, all_reduce");
  CHECK(both(kSplit, kSplit, 0, 1) == "all_to_all, all_to_all");
  CHECK(both(kEntered, kSplit, -1, 0) == "slice, pad");
  CHECK(both(kSplit, kPartial, 0) == "pad, slice");
  CHECK(both(kEntered, kReplicated) == "nothing, keep_on_one");
  CHECK(both(kReplicated, kPartial) == "keep_on_one, nothing");
  CHECK(both(kPartial, kHeld) == "reduce, broadcast");
  CHECK(both(kHeld, kEntered) == "broadcast, reduce");
  CHECK(both(kHeld, kReplicated) == "broadcast, nothing");
  CHECK(both(kReplicated, kHeld) == "nothing, broadcast");
  CHECK(both(kSplit, kHeld, 0) == "gather, scatter");
  CHECK(both(kHeld, kSplit, -1, 0) == "scatter, gather");
  CHECK(both(kEntered, kHeld) == "nothing, zero_elsewhere");
  CHECK(both(kHeld, kPartial) == "zero_elsewhere, nothing");
  CHECK(both(kSplit, kSplit, 0, 0) == "permutation, permutation");
}

TEST_CASE("the busiest rank receives what the collective's law says") {
  // 144 elements; a has 2 ranks, b has 3.
  CHECK(bytes({kSplit, kReplicated, {1}, 0, -1, 0}, "[a b, R]", "[a, R]") == "48, 0");  // 2/3 x 72
  CHECK(bytes({kSplit, kEntered, {0, 1}, 0, -1, 0}, "[a b, R]", "[R, R] E(a b)") == "120, 120");
  CHECK(bytes({kPartial, kReplicated, {1}, -1, -1, 0}, "[a, R] P(b)", "[a, R]") == "96, 0");
  CHECK(bytes({kPartial, kEntered, {0, 1}, -1, -1, 0}, "[R, R] P(a b)", "[R, R] E(a b)") ==
        "240, 240");
  CHECK(bytes({kPartial, kSplit, {1}, -1, 0, 0}, "[a, R] P(b)", "[a b, R]") == "48, 48");
  CHECK(bytes({kSplit, kSplit, {1}, 0, 1, 0}, "[a b, R]", "[a, b]") == "16, 16");  // 2/3 x 24
  CHECK(bytes({kReplicated, kEntered, {0}, -1, -1, 0}, "[b, R]", "[b, R] E(a)") == "0, 48");
  CHECK(bytes({kPartial, kHeld, {0}, -1, -1, 1}, "[b, R] P(a)", "[b, R] H@1(a)") == "48, 48");
  // a b -> b a: pieces of 24; all but the first and the last rank have another.
  CHECK(bytes({kSplit, kSplit, {1, 0}, 0, 0, 0}, "[a b, R]", "[b a, R]") == "24, 24");
}

TEST_CASE("uneven pieces count with what they are") {
  // 7 x 2 elements over 3: pieces of 3, 2, 2 rows. Who has 2 receives the other 5 rows.
  const DeviceMesh mesh = mesh_of({3});
  const Move gather{kSplit, kReplicated, {0}, 0, -1, 0};
  const MoveCost cost = move_cost(gather, spec_of("[a, R]", mesh), spec_of("[R, R]", mesh), {7, 2},
                                  mesh, unit_costs(mesh));
  CHECK(cost.forward_bytes == 10);
  // In a packed weight's gradient [q over a|k] P(a) only k is reduced: 2 x 2/3 of 3 rows of 2.
  const Move reduce{kPartial, kReplicated, {0}, -1, -1, 0};
  const MoveCost packed =
      move_cost(reduce, spec_of("[4x1:a|3x1:R, R] P(a)", mesh), spec_of("[4x1:a|3x1:R, R]", mesh),
                {7, 2}, mesh, unit_costs(mesh));
  CHECK(packed.forward_bytes == Approx(8));
}

TEST_CASE("a product group has the slowest of its axes") {
  MoveCosts costs{MoveCostModel::kExact, {{1, 10}, {5, 2}}, 1, true};
  CHECK(link_of(costs, {0, 1}).alpha == 5);
  CHECK(link_of(costs, {0, 1}).beta == 10);
  CHECK(link_of(costs, {1}).beta == 2);
}

TEST_CASE("a move acts on the spec, and its backward on the dual") {
  Random random(4);
  int applied = 0;
  for (int round = 0; round < 20000; ++round) {
    const DeviceMesh mesh = random_mesh(random, 3, 12);
    const Extents extents = random_extents(random, 3, 9);
    const TensorSpec spec = random_spec(random, extents, mesh, {false, true, true});
    Move move;
    move.from = static_cast<AxisState>(draw(random, 0, 4));
    move.to = static_cast<AxisState>(draw(random, 0, 4));
    const auto axis = static_cast<AxisId>(draw(random, 0, mesh.num_axes() - 1));
    move.axes = {axis};
    const auto last = static_cast<int>(extents.size()) - 1;
    if (move.from == kSplit) move.from_dim = static_cast<std::int8_t>(draw(random, 0, last));
    if (move.to == kSplit) move.to_dim = static_cast<std::int8_t>(draw(random, 0, last));
    if (move.to == kHeld) move.coordinate = draw(random, 0, mesh.size(axis) - 1);
    const auto moved = after_move(spec, move, mesh);
    if (std::holds_alternative<Infeasible>(moved) || move.from == move.to) continue;
    const TensorSpec& after = std::get<TensorSpec>(moved);
    CAPTURE(to_text(spec, mesh), to_text(after, mesh), to_text(move, mesh));
    REQUIRE_FALSE(spec_problem(after, extents, mesh));
    Move back{dual(move.to), dual(move.from), move.axes,
              move.to_dim,   move.from_dim,   holder(spec, axis).value_or(0)};
    const auto returned = after_move(dual(after), back, mesh);
    REQUIRE(std::holds_alternative<TensorSpec>(returned));
    CHECK(std::get<TensorSpec>(returned) == dual(spec));
    CHECK(forward_kind(back) == backward_kind(move));
    const MoveCosts costs = unit_costs(mesh);
    CHECK(move_cost(back, dual(after), dual(spec), extents, mesh, costs).forward_bytes ==
          Approx(move_cost(move, spec, after, extents, mesh, costs).backward_bytes));
    ++applied;
  }
  CHECK(applied > 2000);
}

TEST_CASE("which move leads from one spec to another") {
  const DeviceMesh mesh = mesh_of({2, 2, 2});
  const auto between = [&](const std::string& from, const std::string& to) {
    const auto move = move_between(spec_of(from, mesh), spec_of(to, mesh));
    return move ? to_text(*move, mesh) : "none";
  };
  CHECK(between("[a, R]", "[a, R]") == "none");
  CHECK(between("[R, R]", "[R, R] E(c)") == "nothing over c, backward all_reduce");
  CHECK(between("[a b, R]", "[b a, R]") == "permutation dim 0 over a b, backward permutation");
  // The gradient of what was a sum beside: R and E are told apart where nothing else differs.
  CHECK(between("[a b, R]", "[b a, R] E(c)") == "permutation dim 0 over a b, backward permutation");
  CHECK(between("[a b, R]", "[a, b] E(c)") == "all_to_all dim 0 to 1 over b, backward all_to_all");
}

TEST_CASE("moves that do not apply say why") {
  const DeviceMesh mesh = mesh_of({2, 2});
  const auto reason = [&](const std::string& spec, const Move& move) {
    const auto moved = after_move(spec_of(spec, mesh), move, mesh);
    const auto* infeasible = std::get_if<Infeasible>(&moved);
    return infeasible == nullptr ? "none" : infeasible->reason;
  };
  CHECK(reason("[a b]", {kSplit, kReplicated, {0}, 0, -1, 0}) ==
        "a is no suffix of the dim's axes");
  CHECK(reason("[a]", {kPartial, kReplicated, {1}, -1, -1, 0}) == "b is not in state P");
  CHECK(reason("[a]", {kReplicated, kSplit, {0}, -1, 0, 0}) == "a is not in state R");
  CHECK(reason("[a]", {kSplit, kReplicated, {0}, 1, -1, 0}) == "no such dim");
  CHECK(reason("[a b]", {kSplit, kSplit, {1}, 0, 0, 0}) == "b is no other order of the dim's axes");
}

}  // namespace trainyard::move_test
