// Designs of the papers as specs in, moves out: what the calculus alone decides.
#include <catch2/catch.hpp>

#include "engine/sharding/normal_form.h"
#include "engine/sharding/op_index_table.h"
#include "engine/sharding/redistribution.h"
#include "engine/sharding/spec_boxes.h"
#include "engine/sharding/spec_text.h"
#include "engine/sharding/strategy.h"

namespace trainyard::hard_cases_test {

namespace {

/// Data, two tensor axes, and one more of data ranks; all links alike.
DeviceMesh transformer_mesh() {
  DeviceMesh mesh;
  mesh.axes = {{"dp", 2, false}, {"t", 2, false}, {"tp0", 2, false}, {"tp1", 2, false}};
  mesh.names = {{"tp", {2, 3}}};
  return mesh;
}

/// The forward and backward of each move, where starting a collective costs more than its bytes:
/// else ranks that have the same value share the work of moving it, too.
std::string moves(const std::string& from, const std::string& to, const Extents& extents) {
  const DeviceMesh mesh = transformer_mesh();
  const auto spec = [&](const std::string& text) {
    const auto parsed = parse_spec(text, mesh);
    REQUIRE(std::holds_alternative<TensorSpec>(parsed));
    REQUIRE_FALSE(spec_problem(std::get<TensorSpec>(parsed), extents, mesh));
    return normal_form(std::get<TensorSpec>(parsed), extents, mesh);
  };
  const MoveCosts costs{MoveCostModel::kExact, Numbered<AxisLink>(4, AxisLink{1000, 1}), 2, true};
  const auto path = redistribute(spec(from), spec(to), extents, mesh, costs);
  REQUIRE(std::holds_alternative<Redistribution>(path));
  std::string text;
  for (const RedistributionStep& step : std::get<Redistribution>(path).steps)
    text += (text.empty() ? "" : "; ") + to_text(step.move, mesh);
  return text;
}

/// Operands and results where axes split the named indices.
std::string split(const std::string& op, const std::vector<Extents>& operands,
                  const std::vector<std::pair<std::string, Axes>>& by,
                  const OpParameters& parameters = {}) {
  const DeviceMesh mesh = transformer_mesh();
  const auto made = index_space(op, operands, parameters);
  REQUIRE(std::holds_alternative<IndexSpace>(made));
  const auto& space = std::get<IndexSpace>(made);
  Strategy strategy;
  for (std::size_t i = 0; i < space.indices.size(); ++i) {
    for (const auto& [name, axes] : by) {
      if (space.indices[i].name == name) strategy.split.push_back({static_cast<int>(i), axes});
    }
  }
  const auto specs = apply(space, strategy, mesh);
  if (const auto* reason = std::get_if<Infeasible>(&specs)) return reason->reason;
  std::string text;
  for (const TensorSpec& spec : std::get<OperandSpecs>(specs).operands)
    text += (text.empty() ? "" : " , ") + to_text(spec, mesh);
  text += " ->";
  for (const TensorSpec& spec : std::get<OperandSpecs>(specs).results)
    text += " " + to_text(spec, mesh);
  return text;
}

constexpr AxisId kDp = 0, kT = 1, kTp0 = 2, kTp1 = 3;

}  // namespace

TEST_CASE("Megatron: one reduction behind each pair of products, in forward and in backward") {
  CHECK(moves("[dp, R, R]", "[dp, R, R] E(tp)", {4, 8, 16}) ==
        "nothing over tp0 tp1, backward all_reduce");
  CHECK(split("linear", {{4, 8, 16}, {64, 16}}, {{"o", {kTp0, kTp1}}}) ==
        "[R, R, R] E(tp0 tp1) , [tp0 tp1, R] -> [R, R, tp0 tp1]");
  CHECK(split("linear", {{4, 8, 64}, {16, 64}}, {{"i", {kTp0, kTp1}}}) ==
        "[R, R, tp0 tp1] , [R, tp0 tp1] -> [R, R, R] P(tp0 tp1)");
  CHECK(moves("[dp, R, R] P(tp)", "[dp, R, R]", {4, 8, 16}) ==
        "all_reduce over tp0 tp1, backward nothing");
  // Sequence parallelism.
  CHECK(moves("[dp, tp, R]", "[dp, R, R] E(tp)", {4, 8, 16}) ==
        "all_gather dim 1 over tp0 tp1, backward reduce_scatter");
  CHECK(moves("[dp, R, R] P(tp)", "[dp, tp, R]", {4, 8, 16}) ==
        "reduce_scatter dim 1 over tp0 tp1, backward all_gather");
}

TEST_CASE("ATP: the residual split over one tensor axis, the heads over both") {
  CHECK(split("linear", {{4, 8, 16}, {64, 16}}, {{"d0", {kDp}}, {"i", {kTp1}}, {"o", {kTp0}}}) ==
        "[dp, R, tp1] E(tp0) , [tp0, tp1] E(dp) -> [dp, R, tp0] P(tp1)");
  CHECK(moves("[dp, R, tp0] P(tp1)", "[dp, R, tp0]", {4, 8, 64}) ==
        "all_reduce over tp1, backward nothing");
  CHECK(moves("[dp, R, tp0] P(tp1)", "[dp, R, tp0 tp1]", {4, 8, 64}) ==
        "reduce_scatter dim 2 over tp1, backward all_gather");
  CHECK(moves("[dp, R, tp0 tp1]", "[dp, R, tp0] E(tp1)", {4, 8, 64}) ==
        "all_gather dim 2 over tp1, backward reduce_scatter");
}

TEST_CASE("SageMaker: features over data ranks") {
  // speed: rows gathered once, a slice at the end. linear: an all-to-all from rows to features.
  CHECK(moves("[dp t, R, R]", "[dp, R, R] E(t)", {8, 8, 16}) ==
        "all_gather dim 0 over t, backward reduce_scatter");
  CHECK(moves("[dp t, R, R]", "[dp, R, t]", {8, 8, 16}) ==
        "all_to_all dim 0 to 2 over t, backward all_to_all");
  CHECK(moves("[dp, R, R] P(t)", "[dp t, R, R]", {8, 8, 16}) ==
        "reduce_scatter dim 0 over t, backward all_gather");
}

TEST_CASE("MAP: on the axes of the machine every op has its own strategy") {
  // The first linear splits rows over one axis and outputs over two, the second one rows over two
  // and inputs over one; between them the axis that changes its dim is exchanged.
  CHECK(split("linear", {{8, 16}, {64, 16}}, {{"d0", {kDp}}, {"o", {kTp0, kTp1}}}) ==
        "[dp, R] E(tp0 tp1) , [tp0 tp1, R] E(dp) -> [dp, tp0 tp1]");
  CHECK(moves("[dp, tp0 tp1]", "[dp tp1, tp0]", {8, 64}) ==
        "all_to_all dim 1 to 0 over tp1, backward all_to_all");
  CHECK(split("linear", {{8, 64}, {16, 64}}, {{"d0", {kDp, kTp1}}, {"i", {kTp0}}}) ==
        "[dp tp1, tp0] , [R, tp0] E(dp tp1) -> [dp tp1, R] P(tp0)");
  CHECK(moves("[dp tp1, R] P(tp0)", "[dp tp1 tp0, R]", {8, 16}) ==
        "reduce_scatter dim 0 over tp0, backward all_gather");
}

TEST_CASE("SUMMA: both operands stored on two axes, gathered where they are used") {
  CHECK(split("linear", {{8, 16}, {32, 16}}, {{"d0", {kTp0}}, {"o", {kTp1}}}) ==
        "[tp0, R] E(tp1) , [tp1, R] E(tp0) -> [tp0, tp1]");
  CHECK(moves("[tp0, tp1]", "[tp0, R] E(tp1)", {8, 16}) ==
        "all_gather dim 1 over tp1, backward reduce_scatter");
  CHECK(moves("[R, R] H@1(tp1)", "[R, R] E(tp1)", {8, 16}) ==
        "broadcast over tp1, backward reduce");
}

TEST_CASE(
    "3-D: both operands are gathered over one axis each, the product scattered over the third") {
  CHECK(moves("[t tp0, tp1]", "[t, tp1] E(tp0)", {8, 16}) ==
        "all_gather dim 0 over tp0, backward reduce_scatter");
  CHECK(moves("[tp0, tp1 t]", "[tp0, tp1] E(t)", {32, 16}) ==
        "all_gather dim 1 over t, backward reduce_scatter");
  CHECK(split("linear", {{8, 16}, {32, 16}}, {{"d0", {kT}}, {"i", {kTp1}}, {"o", {kTp0}}}) ==
        "[t, tp1] E(tp0) , [tp0, tp1] E(t) -> [t, tp0] P(tp1)");
  CHECK(moves("[t, tp0] P(tp1)", "[t tp1, tp0]", {8, 32}) ==
        "reduce_scatter dim 0 over tp1, backward all_gather");
}

TEST_CASE("T5's relative bias: heads over tensor ranks, its gradient summed over the data ranks") {
  // scores are split by samples over dp; the bias, which has none, is entered there.
  CHECK(split("add_attention_bias", {{4, 8, 16, 16}, {8, 16, 16}}, {{"b", {kDp}}, {"n", {kTp0}}}) ==
        "[dp, tp0, R, R] , [tp0, R, R] E(dp) -> [dp, tp0, R, R]");
  CHECK(to_text(dual(std::get<TensorSpec>(parse_spec("[tp0, R, R] E(dp)", transformer_mesh()))),
                transformer_mesh()) == "[tp0, R, R] P(dp)");
}

TEST_CASE("data parallelism, ZeRO and FSDP2: one parameter, its gather and its gradient") {
  // dual(stored) is where the gradient goes: R all-reduces, S reduce-scatters, H reduces.
  CHECK(moves("[tp0, R]", "[tp0, R] E(dp)", {16, 8}) == "nothing over dp, backward all_reduce");
  CHECK(moves("[16x1:tp0 after dp, R]", "[tp0, R] E(dp)", {16, 8}) ==
        "all_gather dim 0 over dp, backward reduce_scatter");
  CHECK(moves("[tp0, R] H@1(dp)", "[tp0, R] E(dp)", {16, 8}) ==
        "broadcast over dp, backward reduce");
  CHECK(moves("[8x1:tp0|4x1:tp0 after dp, R]", "[8x1:tp0|4x1:tp0, R] E(dp)", {12, 8}) ==
        "all_gather dim 0 over dp, backward reduce_scatter");
  // Hybrid: sharded over t, replicated over dp. Where starting costs most, one reduction over both.
  CHECK(moves("[t, R]", "[R, R] E(dp t)", {16, 8}) ==
        "all_gather dim 0 over t, backward slice; nothing over dp t, backward all_reduce");
}

TEST_CASE("grouped queries over more ranks than key-value heads") {
  const OpParameters heads{{}, {}, {}, 0, false, {{"g", 2}, {"r", 4}}};
  CHECK(split("scores", {{4, 8, 64}, {4, 8, 16}}, {{"g", {kTp0}}, {"r", {kTp1}}}, heads) ==
        "[R, R, tp0 tp1] , [R, R, tp0] E(tp1) -> [R, tp0 tp1, R, R]");
  // q alone over both axes is refused where g is not single.
  CHECK(split("scores", {{4, 8, 64}, {4, 8, 16}}, {{"r", {kTp0, kTp1}}}, heads) ==
        "index r lies inside g, which 1 ranks do not cut into 2 single ones");
}

TEST_CASE("zig-zag context parallelism: two parts, the second backwards") {
  CHECK(moves("[R, 8x1:t|8x1:t~]", "[R, t]", {4, 16}) ==
        "permutation dim 1 over t, backward permutation");
  CHECK(moves("[R, 8x1:t|8x1:t~]", "[R, R] E(t)", {4, 16}) ==
        "all_gather dim 1 over t, backward reduce_scatter");
}

TEST_CASE("experts folded over data and tensor ranks") {
  // ep: t tp0. Rows of an expert's capacity are ordered by the rank that they come from, so that
  // dispatch is an all-to-all from rows to experts, and combine its way back.
  CHECK(moves("[R, dp t tp0, R]", "[t tp0, dp, R]", {8, 64, 16}) ==
        "all_to_all dim 1 to 0 over t tp0, backward all_to_all");
  CHECK(moves("[R, t tp0, R]", "[t tp0, R, R]", {8, 64, 16}) ==
        "all_to_all dim 1 to 0 over t tp0, backward all_to_all");
  // An expert's weights are one on its rank of ep, and summed over the axis of tokens that is not
  // in it.
  CHECK(split("bmm", {{8, 64, 16}, {8, 16, 32}}, {{"b", {kT, kTp0}}, {"i", {kDp}}}) ==
        "[t tp0, dp, R] , [t tp0, R, R] E(dp) -> [t tp0, dp, R]");
}

TEST_CASE("a vocabulary that ranks do not divide") {
  const DeviceMesh mesh = transformer_mesh();
  // Ten words over four ranks: first over tp0 5 and 5, then over tp1 3 and 2 of each.
  const TensorSpec table = std::get<TensorSpec>(parse_spec("[tp, R]", mesh));
  std::vector<std::int64_t> rows;
  for (std::int64_t rank = 0; rank < 4; ++rank)
    rows.push_back(local_elements(table, {10, 1}, mesh, coordinate_of(mesh, rank)));
  CHECK(rows == std::vector<std::int64_t>{3, 2, 3, 2});
  CHECK(split("linear", {{4, 8, 16}, {10, 16}}, {{"o", {kTp0, kTp1}}}) ==
        "[R, R, R] E(tp0 tp1) , [tp0 tp1, R] -> [R, R, tp0 tp1]");
  // Three words: one rank has none, and what it gives to the maximum and the sums is neutral.
  CHECK(local_elements(table, {3, 1}, mesh, coordinate_of(mesh, 3)) == 0);
  CHECK(moves("[tp, R]", "[R, R] E(tp)", {3, 16}) ==
        "all_gather dim 0 over tp0 tp1, backward reduce_scatter");
  const MoveCosts costs{MoveCostModel::kExact, Numbered<AxisLink>(4, AxisLink{0, 1}), 1, false};
  const TensorSpec whole = std::get<TensorSpec>(parse_spec("[R, R]", mesh));
  // The rank that has no row receives all three, of 16 elements each.
  const Move gather{AxisState::kSplit, AxisState::kReplicated, {kTp0, kTp1}, 0, -1, 0};
  CHECK(move_cost(gather, table, whole, {3, 16}, mesh, costs).forward_bytes == 48);
}

TEST_CASE("an embedding that a mesh of one replica and one of three share, with ZeRO-1") {
  // Its home has one replica, whose gradient is whole; the others' summands are added up on their
  // own mesh first. Weights come back whole, and the optimizer's state is in shards.
  CHECK(to_text(dual(std::get<TensorSpec>(parse_spec("[tp0, R] E(dp)", transformer_mesh()))),
                transformer_mesh()) == "[tp0, R] P(dp)");
  CHECK(moves("[tp0, R] P(dp)", "[tp0, R]", {16, 8}) == "all_reduce over dp, backward nothing");
  CHECK(moves("[tp0 dp, R]", "[tp0, R]", {16, 8}) == "all_gather dim 0 over dp, backward slice");
}

TEST_CASE("chunks of a batch: each replica cuts its own rows") {
  // b is (A chunk rest): the replicas cut A, so that chunk k of all is the k-th of each one's rows.
  const OpParameters four{{}, {}, {}, 0, false, {{"c", 4}}};
  CHECK(split("pieces", {{8, 16}}, {{"c", {kDp}}}, four) == "[dp, R] -> [dp, R, R]");
  CHECK(moves("[dp, R, R] P(tp0)", "[dp, R, R]", {4, 2, 16}) ==
        "all_reduce over tp0, backward nothing");
}

TEST_CASE("an uneven batch between three and five replicas") {
  // 7 rows: 3 2 2 against 2 2 1 1 1; who holds what is the same cut of the same rows.
  const auto rows = [](std::int32_t replicas) {
    DeviceMesh mesh;
    mesh.axes = {{"dp", replicas, false}};
    const TensorSpec split = std::get<TensorSpec>(parse_spec("[dp]", mesh));
    std::vector<std::int64_t> counts;
    for (std::int64_t rank = 0; rank < replicas; ++rank)
      counts.push_back(local_elements(split, {7}, mesh, coordinate_of(mesh, rank)));
    return counts;
  };
  CHECK(rows(3) == std::vector<std::int64_t>{3, 2, 2});
  CHECK(rows(5) == std::vector<std::int64_t>{2, 2, 1, 1, 1});
}

}  // namespace trainyard::hard_cases_test
