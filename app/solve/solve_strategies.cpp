// solve: problems `op-strategies` and `propagate`.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/solve/problem_keys.h"
#include "app/solve/sharding_keys.h"
#include "app/solve/solve.h"
#include "engine/base/user_text.h"
#include "engine/sharding/colossal_rules.h"
#include "engine/sharding/spec_text.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostTriedAxes = 3;
constexpr std::size_t kMostListed = 20'000;

DeviceMesh read_small_mesh(const YamlNode& problem) {
  DeviceMesh mesh = read_mesh(problem);
  if (mesh.num_axes() > kMostTriedAxes) {
    problem.at("mesh").fail("expected at most " + std::to_string(kMostTriedAxes) + " axes, got " +
                            std::to_string(mesh.num_axes()));
  }
  return mesh;
}

/// The table's name for a word of the problem.
std::string kind_named(const std::string& word) {
  if (word == "conv") return "conv2d";
  if (word == "binary") return "add";
  return word;
}

std::string names_of(AxisSet set, const DeviceMesh& mesh) {
  std::string text;
  for (const AxisId axis : axes_of(set)) text += " " + mesh.axis_name(axis);
  return text;
}

/// What a strategy moves where its results are wanted whole and its operands' gradients as well.
Json communication_of(const OperandSpecs& specs, const DeviceMesh& mesh) {
  Json out = Json::array();
  for (std::size_t r = 0; r < specs.results.size(); ++r) {
    if (specs.results[r].partial != 0) {
      out.push_back("all_reduce of result " + std::to_string(r) + " over" +
                    names_of(specs.results[r].partial, mesh));
    }
  }
  for (std::size_t o = 0; o < specs.operands.size(); ++o) {
    if (specs.operands[o].entered != 0) {
      out.push_back("all_reduce of the gradient of operand " + std::to_string(o) + " over" +
                    names_of(specs.operands[o].entered, mesh));
    }
  }
  return out;
}

std::string specs_text(const OperandSpecs& specs, const DeviceMesh& mesh) {
  std::string text;
  for (const TensorSpec& spec : specs.operands)
    text += (text.empty() ? "" : " x ") + to_text(spec, mesh);
  text += " ->";
  for (const TensorSpec& spec : specs.results) text += " " + to_text(spec, mesh);
  return text;
}

ShardOption read_shard_option(const YamlNode& problem) {
  const auto node = given(problem, "shard_option");
  const std::string word = node ? node->as_string() : "standard";
  if (word == "standard") return ShardOption::kStandard;
  if (word == "shard") return ShardOption::kShard;
  if (word == "full-shard") return ShardOption::kFullShard;
  if (word == "shard-last-axis") return ShardOption::kShardLastAxis;
  node->fail("expected standard, shard, full-shard or shard-last-axis, got " + in_quotes(word));
}

IndexSpace space_at(const YamlNode& node, const std::string& kind,
                    const std::vector<Extents>& operands, const OpParameters& parameters) {
  auto space = index_space(kind, operands, parameters);
  if (const auto* reason = std::get_if<Infeasible>(&space)) node.fail(reason->reason);
  return std::get<IndexSpace>(std::move(space));
}

}  // namespace

Json solve_op_strategies(const YamlNode& problem) {
  const YamlNode op = problem.at("op");
  const std::string kind = kind_named(op.as_string());
  const OpIndexEntry* entry = find_op(kind);
  if (entry == nullptr || entry->role != OpRole::kCompute || entry->make != nullptr) {
    op.fail("expected an op with strategies of its own, such as " + join_words(colossal_kinds()) +
            ", got " + in_quotes(op.as_string()));
  }
  const DeviceMesh mesh = read_small_mesh(problem);
  std::vector<Extents> operands;
  const YamlNode shapes = problem.at("shapes");
  for (const YamlNode& shape : shapes.items()) operands.push_back(read_extents(shape));
  OpParameters parameters;
  if (const auto extents = given(problem, "extents")) {
    for (const std::string& name : extents->keys())
      parameters.extents[name] = extents->at(name).as_integer(1, kMostExtent);
  }
  const bool colossal = says(problem, "rules", "colossal", "exact");
  const ShardOption option = read_shard_option(problem);
  if (colossal && std::count(colossal_kinds().begin(), colossal_kinds().end(), kind) == 0)
    op.fail("Colossal-AI's strategies are known of " + join_words(colossal_kinds()));
  const IndexSpace space = space_at(shapes, kind, operands, parameters);

  Json names = Json::array(), rows = Json::array();
  const std::vector<Strategy> strategies = all_strategies(space, mesh, kMostListed);
  if (strategies.size() == kMostListed)
    op.fail("more than " + std::to_string(kMostListed) + " strategies");
  for (const Strategy& strategy : strategies) {
    const auto name = colossal ? colossal_name(kind, space, strategy, mesh, option)
                               : std::optional(to_text(strategy, space, mesh));
    if (!name) continue;
    const auto specs = std::get<OperandSpecs>(apply(space, strategy, mesh));
    names.push_back(*name);
    Json row = {*name + ";", specs_text(specs, mesh)};
    for (const Json& one : communication_of(specs, mesh))
      row.push_back("; " + one.get<std::string>());
    rows.push_back(row);
  }
  return {{"count", names.size()}, {"names", names}, {"strategies", rows}};
}

namespace {

std::vector<int> read_dims(const YamlNode& problem, std::size_t dims) {
  std::vector<int> out;
  for (const YamlNode& item : problem.at("dims").items())
    out.push_back(static_cast<int>(item.as_integer(0, static_cast<std::int64_t>(dims) - 1)));
  return out;
}

OpParameters read_parameters(const YamlNode& problem, const std::string& op,
                             const Extents& extents) {
  OpParameters parameters;
  if (op == "permute" || op == "sum") parameters.dims = read_dims(problem, extents.size());
  if (op == "view") parameters.to = read_extents(problem.at("to"));
  if (op == "sum") {
    if (const auto keep = given(problem, "keepdim")) parameters.keepdim = keep->as_bool();
  }
  if (op == "split") {
    const auto last = static_cast<std::int64_t>(extents.size()) - 1;
    parameters.dim = static_cast<int>(problem.at("dim").as_integer(0, last));
    const std::int64_t extent = extents[parameters.dim];
    const std::int64_t size = problem.at("size").as_integer(1, extent);
    constexpr std::int64_t kMostParts = 256;
    if (extent / size > kMostParts)
      problem.at("size").fail("more than " + std::to_string(kMostParts) + " parts");
    for (std::int64_t at = 0; at < extent; at += size)
      parameters.sizes.push_back(std::min(size, extent - at));
  }
  return parameters;
}

}  // namespace

Json solve_propagate(const YamlNode& problem) {
  const YamlNode op = problem.at("op");
  const std::string kind = op.as_string();
  if (kind != "permute" && kind != "view" && kind != "split" && kind != "sum")
    op.fail("expected permute, view, split or sum, got " + in_quotes(kind));
  const DeviceMesh mesh = read_small_mesh(problem);
  const YamlNode shape = problem.at("shape");
  const Extents extents = read_extents(shape);
  if (extents.empty()) shape.fail("expected at least one dim");
  const OpParameters parameters = read_parameters(problem, kind, extents);
  const YamlNode input = problem.at("input");
  const TensorSpec spec = read_spec(input, extents, mesh);
  const IndexSpace space = space_at(op, kind, {extents}, parameters);
  if (says(problem, "rules", "colossal", "exact")) {
    if (spec.partial != 0 || spec.entered != 0 || !spec.held.empty() ||
        !has_numbered_text(spec, mesh))
      input.fail("Colossal-AI knows specs of S and R alone");
    const auto out = colossal_propagation(kind, spec, extents, parameters);
    if (!out) return {{"fully_replicated", true}};
    return {{"output", spec_text(*out, mesh, input)}};
  }
  const auto strategy = strategy_reading(space, 0, spec, mesh);
  if (!strategy) return {{"fully_replicated", true}};
  const auto specs = std::get<OperandSpecs>(apply(space, *strategy, mesh));
  Json answer = {{"output", spec_text(specs.results[0], mesh, input)}};
  bool alike = true;
  for (const TensorSpec& result : specs.results) alike = alike && result == specs.results[0];
  if (!alike) {
    Json outputs = Json::array();
    for (const TensorSpec& result : specs.results)
      outputs.push_back(spec_text(result, mesh, input));
    answer["outputs"] = outputs;
  }
  return answer;
}

}  // namespace trainyard
