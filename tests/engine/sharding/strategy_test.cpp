// Strategies of ops: specs by hand for the cases that decide designs, laws over all strategies of
// all kinds, and Colossal-AI's names and propagation (tests/golden) as a filter over the exact set.
#include "engine/sharding/strategy.h"

#include <catch2/catch.hpp>
#include <set>

#include "engine/graph/op_kind.h"
#include "engine/sharding/colossal_rules.h"
#include "engine/sharding/op_index_table.h"
#include "engine/sharding/spec_boxes.h"
#include "engine/sharding/spec_text.h"
#include "tests/support/golden.h"
#include "tests/support/random_spec.h"

namespace trainyard::strategy_test {

namespace {

IndexSpace space_of(const std::string& kind, const std::vector<Extents>& operands,
                    const OpParameters& parameters = {}) {
  auto space = index_space(kind, operands, parameters);
  if (const auto* reason = std::get_if<Infeasible>(&space)) FAIL(kind << ": " << reason->reason);
  return std::get<IndexSpace>(space);
}

int index_named(const IndexSpace& space, const std::string& name) {
  for (std::size_t i = 0; i < space.indices.size(); ++i) {
    if (space.indices[i].name == name) return static_cast<int>(i);
  }
  FAIL("no index " << name);
  return -1;
}

/// "x, w -> y", or the reason.
std::string specs_text(const IndexSpace& space, const Strategy& strategy, const DeviceMesh& mesh) {
  const auto specs = apply(space, strategy, mesh);
  if (const auto* reason = std::get_if<Infeasible>(&specs)) return reason->reason;
  std::string text;
  const auto& made = std::get<OperandSpecs>(specs);
  for (const TensorSpec& spec : made.operands)
    text += (text.empty() ? "" : " , ") + to_text(spec, mesh);
  text += " ->";
  for (const TensorSpec& spec : made.results) text += " " + to_text(spec, mesh);
  return text;
}

std::string split_by(const IndexSpace& space,
                     const std::vector<std::pair<std::string, Axes>>& split, const DeviceMesh& mesh,
                     AxisSet entered = 0, AxisSet passed = 0) {
  Strategy strategy{{}, entered, passed};
  for (const auto& [name, axes] : split) strategy.split.push_back({index_named(space, name), axes});
  return specs_text(space, strategy, mesh);
}

std::set<std::string> colossal_names(const std::string& kind, const IndexSpace& space,
                                     const DeviceMesh& mesh,
                                     ShardOption option = ShardOption::kStandard) {
  std::set<std::string> names;
  for (const Strategy& strategy : all_strategies(space, mesh)) {
    if (const auto name = colossal_name(kind, space, strategy, mesh, option)) {
      CAPTURE(*name);
      CHECK(names.insert(*name).second);
    }
  }
  return names;
}

TensorSpec numbered(const std::string& text, const DeviceMesh& mesh) {
  const auto parsed = parse_numbered_spec(text, mesh);
  REQUIRE(std::holds_alternative<TensorSpec>(parsed));
  return std::get<TensorSpec>(parsed);
}

}  // namespace

TEST_CASE("every op kind has one entry") {
  std::set<std::string> names;
  for (const OpIndexEntry& entry : op_index_table())
    CHECK(names.insert(std::string(entry.name)).second);
  for (int kind = 0; kind < kNumOpKinds; ++kind) {
    const std::string name(to_string(static_cast<OpKind>(kind)));
    CAPTURE(name);
    const OpIndexEntry* entry = find_op(name);
    REQUIRE(entry != nullptr);
    if (is_communication(static_cast<OpKind>(kind))) CHECK(entry->role == OpRole::kMove);
  }
}

TEST_CASE("a linear's strategies are Megatron's column and row, data parallel, and those put off") {
  const DeviceMesh mesh = mesh_of({2, 2});
  const IndexSpace linear = space_of("linear", {{4, 8, 16}, {32, 16}, {32}});
  CHECK(split_by(linear, {{"o", {0}}}, mesh) == "[R, R, R] E(a) , [a, R] , [a] -> [R, R, a]");
  // The bias beside summands is one itself.
  CHECK(split_by(linear, {{"i", {0}}}, mesh) == "[R, R, a] , [R, a] , [R] P(a) -> [R, R, R] P(a)");
  CHECK(split_by(linear, {{"d0", {0}}}, mesh) == "[a, R, R] , [R, R] E(a) , [R] E(a) -> [a, R, R]");
  CHECK(split_by(linear, {{"d0", {0}}, {"o", {1}}}, mesh) ==
        "[a, R, R] E(b) , [b, R] E(a) , [b] E(a) -> [a, R, b]");
  CHECK(split_by(linear, {}, mesh) == "[R, R, R] , [R, R] , [R] -> [R, R, R]");
  CHECK(split_by(linear, {}, mesh, 1) ==
        "[R, R, R] E(a) , [R, R] E(a) , [R] E(a) -> [R, R, R] E(a)");
  CHECK(split_by(linear, {}, mesh, 0, 1) ==
        "[R, R, R] P(a) , [R, R] E(a) , [R] P(a) -> [R, R, R] P(a)");
  const IndexSpace gelu = space_of("gelu", {{4, 16}});
  CHECK(split_by(gelu, {}, mesh, 0, 1) == "the op is not linear: it passes no summands");
}

TEST_CASE("grouped queries are cut where their outer index is single") {
  // tp = a b over 2 key-value heads of 3 queries each: g over a, r over b.
  const DeviceMesh mesh = mesh_of({2, 3});
  const OpParameters heads{{}, {}, {}, 0, false, {{"g", 2}, {"r", 3}}};
  const IndexSpace scores = space_of("scores", {{4, 8, 24}, {4, 8, 8}}, heads);
  CHECK(split_by(scores, {{"g", {0}}, {"r", {1}}}, mesh) ==
        "[R, R, a b] , [R, R, a] E(b) -> [R, a b, R, R]");
  // Over 3 ranks the 2 outer ones are not single, and an inner one may not be cut.
  CHECK(split_by(scores, {{"g", {1}}, {"r", {0}}}, mesh) ==
        "index r lies inside g, which 3 ranks do not cut into 2 single ones");
  // 6 query and 3 key-value heads over 2: 4 and 2, 2 and 1.
  const OpParameters uneven{{}, {}, {}, 0, false, {{"g", 3}, {"r", 2}}};
  const IndexSpace cut = space_of("scores", {{4, 8, 24}, {4, 8, 12}}, uneven);
  CHECK(split_by(cut, {{"g", {0}}}, mesh) == "[R, R, 3x8:a] , [R, R, 3x4:a] -> [R, 3x2:a, R, R]");
}

TEST_CASE("a packed projection is cut part by part") {
  const DeviceMesh mesh = mesh_of({2, 2});
  const OpParameters heads{{}, {}, {}, 0, false, {{"g", 2}, {"r", 2}}};
  // 4 query and 2 key-value heads of 4 elements.
  const IndexSpace rope = space_of("rope", {{4, 8, 32}}, heads);
  CHECK(split_by(rope, {{"g", {0}}}, mesh) ==
        "[R, R, 2x8:a|2x4:a|2x4:a] -> [R, R, 2x8:a|2x4:a|2x4:a]");
  CHECK(split_by(rope, {{"g", {0}}, {"r", {1}}}, mesh) ==
        "[R, R, 4x4:a b|2x4:a|2x4:a] E(b) -> [R, R, 4x4:a b|2x4:a|2x4:a] E(b)");
  const IndexSpace swiglu = space_of("swiglu", {{4, 12}});
  CHECK(split_by(swiglu, {{"f", {0}}}, mesh) == "[R, 2x3:a|2x3:a] -> [R, a]");
}

TEST_CASE("sums over a split index are partial, and largest values candidates") {
  const DeviceMesh mesh = mesh_of({2});
  CHECK(split_by(space_of("sum", {{4, 8}}, {{1}, {}, {}, 0, false, {}}), {{"d1", {0}}}, mesh) ==
        "[R, a] -> [R] P(a)");
  CHECK(split_by(space_of("cross_entropy_max", {{4, 8}}), {{"v", {0}}}, mesh) ==
        "[R, a] -> [R] Pmax(a)");
  CHECK(split_by(space_of("sum_squares", {{4, 8}}), {{"d1", {0}}}, mesh) == "[R, a] -> [] P(a)");
  CHECK(split_by(space_of("embedding", {{4, 8}, {100, 16}}), {{"v", {0}}}, mesh) ==
        "[R, R] E(a) , [a, R] -> [R, R, R] P(a)");
  CHECK(split_by(space_of("softmax", {{4, 8}}), {{"t", {0}}}, mesh) ==
        "index t is split by an expansion of the op alone");
  CHECK(split_by(space_of("select_first", {{4, 8, 16}}), {{"s", {0}}}, mesh) ==
        "index s cannot be split: each rank needs all of it");
}

TEST_CASE("ops that only carry elements keep parts apart") {
  const DeviceMesh mesh = mesh_of({2, 2});
  const IndexSpace concat = space_of("concat", {{4, 6}, {4, 8}}, {{}, {}, {}, 1, false, {}});
  CHECK(split_by(concat, {{"p0", {0}}, {"p1", {1}}}, mesh) ==
        "[R, a] E(b) , [R, b] E(a) -> [R, 2x3:a|2x4:b] E(a b)");
  const IndexSpace split = space_of("split", {{4, 14}}, {{}, {}, {6, 8}, 1, false, {}});
  CHECK(split_by(split, {{"p0", {0}}}, mesh) == "[R, 2x3:a|1x8:R] E(a) -> [R, a] [R, R] E(a)");
  const IndexSpace view = space_of("view", {{8, 16}}, {{}, {32, 4}, {}, 0, false, {}});
  CHECK(split_by(view, {{"v0", {0}}}, mesh) == "[a, R] -> [a, R]");
  CHECK(split_by(view, {{"v1", {0}}}, mesh) ==
        "index v1 lies inside v0, which 1 ranks do not cut into 8 single ones");
  const IndexSpace broadcast = space_of("add", {{4, 8}, {8}});
  CHECK(split_by(broadcast, {{"d0", {0}}, {"d1", {1}}}, mesh) == "[a, b] , [b] E(a) -> [a, b]");
  // 6 4 as 4 6: no factors in common but all of it.
  const IndexSpace apart = space_of("view", {{6, 4}}, {{}, {4, 6}, {}, 0, false, {}});
  CHECK(all_strategies(apart, mesh).size() == 9);  // whole, entered or passed, per axis
}

TEST_CASE("operands that do not suit an op are refused") {
  const auto reason = [](const std::string& kind, const std::vector<Extents>& operands,
                         const OpParameters& parameters = {}) {
    const auto space = index_space(kind, operands, parameters);
    const auto* infeasible = std::get_if<Infeasible>(&space);
    return infeasible == nullptr ? "none" : infeasible->reason;
  };
  CHECK(reason("linear", {{4, 8}, {32, 16}}) ==
        "dim 1 of operand 1 has 16 elements, and its indices 8");
  CHECK(reason("linear", {{4, 8}}) == "the op has 2 operands, not 1");
  CHECK(reason("bmm", {{4, 8}, {4, 8, 2}}) == "operand 0 has 2 dims, not 3");
  CHECK(reason("permute", {{4, 8}}, {{0, 0}, {}, {}, 0, false, {}}) ==
        "the order of 2 dims names each of them once");
  CHECK(reason("view", {{4, 8}}, {{}, {5, 5}, {}, 0, false, {}}) == "a view of 32 elements as 25");
  CHECK(reason("split", {{4, 8}}, {{}, {}, {3, 3}, 1, false, {}}) ==
        "parts of 6 elements of a dim of 8");
  CHECK(reason("sum", {{4, 8}}, {{2}, {}, {}, 0, false, {}}) == "dim 2 of a tensor of 2 dims");
}

TEST_CASE("ranks that split no part of an op do all of it, those that do partition it") {
  // For every strategy: specs are sound, and for each axis that splits index k, operands that have
  // k are split by it, and others entered.
  const DeviceMesh mesh = mesh_of({2, 3});
  const std::vector<std::pair<std::string, std::vector<Extents>>> ops = {
      {"linear", {{5, 4}, {6, 4}, {6}}},
      {"bmm", {{2, 3, 4}, {2, 4, 5}}},
      {"gelu", {{4, 6}}},
      {"add", {{4, 6}, {1, 6}}},
      {"swiglu", {{3, 8}}},
      {"mse", {{4, 6}, {4, 6}}},
      {"conv2d", {{4, 3, 8, 8}, {6, 3, 3, 3}}}};
  for (const auto& [kind, operands] : ops) {
    const IndexSpace space = space_of(kind, operands);
    const std::vector<Strategy> strategies = all_strategies(space, mesh);
    CHECK(strategies.size() > 4);
    for (const Strategy& strategy : strategies) {
      CAPTURE(kind, to_text(strategy, space, mesh), specs_text(space, strategy, mesh));
      const auto specs = std::get<OperandSpecs>(apply(space, strategy, mesh));
      for (std::size_t o = 0; o < operands.size(); ++o) {
        REQUIRE_FALSE(spec_problem(specs.operands[o], operands[o], mesh));
        for (const IndexSplit& split : strategy.split) {
          for (const AxisId axis : split.axes) {
            const AxisState beside = state_beside(specs.operands[o], axis);
            CHECK((splits_everything(specs.operands[o], axis) || beside != AxisState::kReplicated));
          }
        }
      }
      for (std::size_t r = 0; r < space.results.size(); ++r)
        REQUIRE_FALSE(spec_problem(specs.results[r], space.extents_of(space.results[r]), mesh));
      const auto read = strategy_reading(space, 0, specs.operands[0], mesh);
      REQUIRE(read);
      CHECK(std::get<OperandSpecs>(apply(space, *read, mesh)).operands[0] == specs.operands[0]);
    }
  }
}

TEST_CASE("Colossal-AI's strategies are a filter over the exact set, name by name") {
  const DeviceMesh mesh = mesh_of({2, 2});
  const auto golden = golden_json("colossalai_strategy_names.json");
  const auto expected = [&](const char* family) {
    return golden["asserted"][family].get<std::set<std::string>>();
  };
  const IndexSpace linear = space_of("linear", {{4, 4, 4, 16}, {32, 16}, {32}});
  CHECK(colossal_names("linear", linear, mesh) == expected("linear"));
  const IndexSpace conv = space_of("conv2d", {{4, 4, 64, 64}, {16, 4, 3, 3}, {16}});
  CHECK(colossal_names("conv2d", conv, mesh) == expected("conv"));
  CHECK(colossal_names("conv2d", conv, mesh).size() == golden["asserted_counts"]["conv"]);
  const IndexSpace embedding = space_of("embedding", {{4, 16, 16}, {32, 16}});
  CHECK(colossal_names("embedding", embedding, mesh) == expected("embedding"));
  CHECK(colossal_names("layer_norm", space_of("layer_norm", {{4, 16}, {16}, {16}}), mesh) ==
        expected("layer_norm"));
  CHECK(colossal_names("batch_norm", space_of("batch_norm", {{4, 16, 64, 64}, {16}, {16}}), mesh) ==
        expected("batch_norm"));
  CHECK(colossal_names("add", space_of("add", {{4, 4}, {4, 4}}), mesh) ==
        expected("binary_elementwise"));
  CHECK(colossal_names("pooling", space_of("pooling", {{4, 16, 64, 64}}), mesh).size() ==
        golden["asserted_counts"]["norm_pooling"]);
  CHECK(colossal_names("where", space_of("where", {{4, 4, 64, 64}, {1, 4, 64, 64}, {4, 4, 64, 64}}),
                       mesh)
            .size() == golden["asserted_counts"]["where"]);
  // On two axes all but "Sb0 = Sb0 x Sb0", which is that of one axis.
  const IndexSpace bmm = space_of("bmm", {{4, 8, 16}, {4, 16, 8}});
  std::set<std::string> batched = expected("bmm");
  CHECK(batched.erase("Sb0 = Sb0 x Sb0") == 1);
  CHECK(colossal_names("bmm", bmm, mesh) == batched);
  CHECK(colossal_names("bmm", bmm, mesh_of({1, 4})) == std::set<std::string>{"Sb0 = Sb0 x Sb0"});
}

TEST_CASE("shard options leave out strategies as Colossal-AI's do") {
  const DeviceMesh mesh = mesh_of({2, 2});
  const IndexSpace linear = space_of("linear", {{4, 4, 4, 16}, {32, 16}, {32}});
  const auto golden = golden_json("colossalai_strategy_names.json")["shard_option_asserts"];
  const auto names = [&](const char* key) { return golden[key].get<std::set<std::string>>(); };
  const auto common = names("common (not SHARD_LAST_AXIS)");
  const auto with = [&](const char* key) {
    std::set<std::string> all = common;
    all.merge(names(key));
    return all;
  };
  CHECK(colossal_names("linear", linear, mesh, ShardOption::kFullShard) == common);
  CHECK(colossal_names("linear", linear, mesh, ShardOption::kShard) ==
        with("shard_option == ShardOption.SHARD"));
  CHECK(colossal_names("linear", linear, mesh) == with("shard_option == ShardOption.STANDARD"));
  CHECK(colossal_names("linear", linear, mesh, ShardOption::kShardLastAxis) ==
        names("shard_option == ShardOption.SHARD_LAST_AXIS"));
}

TEST_CASE("specs go through view, permute, split and sum as Colossal-AI's do") {
  const DeviceMesh mesh = mesh_of({2, 2});
  const Extents extents = {8, 16, 64, 64};
  std::ifstream file = golden_file("colossalai_follow_propagation.tsv");
  int rows = 0, followed = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream cells(line);
    std::string kind, told, input, expected;
    cells >> kind >> told >> input >> expected;
    CAPTURE(line);
    OpParameters parameters;
    if (kind == "permute") {
      parameters.dims = told == "permute(2,0,1,3)" ? std::vector<int>{2, 0, 1, 3}
                        : told == "transpose(1,3)" ? std::vector<int>{0, 3, 2, 1}
                                                   : std::vector<int>{0, 2, 1, 3};
    } else if (kind == "view") {
      std::istringstream to(told.substr(told.find("->") + 2));
      for (std::string extent; std::getline(to, extent, ',');)
        parameters.to.push_back(std::stoll(extent));
    } else if (kind == "split") {
      parameters.dim = told.back() - '0';
      parameters.sizes.assign(
          static_cast<std::size_t>(extents[static_cast<std::size_t>(parameters.dim)] / 2), 2);
    } else {
      parameters.dims = told.starts_with("dims0,2") ? std::vector<int>{0, 2} : std::vector<int>{1};
      parameters.keepdim = told.ends_with(",keepdim");
    }
    const TensorSpec spec = numbered(input, mesh);
    const auto out = colossal_propagation(kind, spec, extents, parameters);
    CHECK((out ? to_numbered_text(*out) : "FULLY_REPLICATED") == expected);
    ++rows;
    // The exact set has it, too, unless the input has to be gathered first.
    const IndexSpace space = space_of(kind, {extents}, parameters);
    const auto strategy = strategy_reading(space, 0, spec, mesh);
    if (!strategy) {
      CHECK((kind == "split" || expected == "FULLY_REPLICATED"));
      continue;
    }
    const auto specs = std::get<OperandSpecs>(apply(space, *strategy, mesh));
    CHECK(to_numbered_text(specs.results[0]) == expected);
    ++followed;
  }
  CHECK(rows == 97);
  CHECK(followed > 70);
}

}  // namespace trainyard::strategy_test
