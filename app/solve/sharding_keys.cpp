#include "app/solve/sharding_keys.h"

#include "app/solve/problem_keys.h"
#include "engine/base/user_text.h"
#include "engine/sharding/normal_form.h"
#include "engine/sharding/spec_text.h"

namespace trainyard {

namespace {

bool has_names(const YamlNode& node) { return node.as_string().starts_with("["); }

}  // namespace

DeviceMesh read_mesh(const YamlNode& problem) {
  const YamlNode node = problem.at("mesh");
  DeviceMesh mesh;
  const auto add = [&](const std::string& name, const YamlNode& size) {
    mesh.axes.push_back(
        {name, static_cast<std::int32_t>(size.as_integer(1, kMostMeshRanks)), false});
  };
  if (node.is_map()) {
    for (const std::string& name : node.keys()) add(name, node.at(name));
  } else {
    for (const YamlNode& size : node.items()) add(std::to_string(mesh.axes.size()), size);
  }
  if (mesh.axes.empty()) node.fail("expected the size of each axis");
  if (const auto wrong = mesh_problem(mesh)) node.fail(*wrong);
  constexpr std::int64_t kMostRanks = 4096;
  if (mesh.num_ranks() > kMostRanks) {
    node.fail("expected at most " + std::to_string(kMostRanks) + " ranks, got " +
              std::to_string(mesh.num_ranks()));
  }
  return mesh;
}

Extents read_extents(const YamlNode& node) {
  constexpr std::size_t kMostDims = 8;
  Extents extents;
  std::int64_t elements = 1;
  for (const YamlNode& item : node.items()) {
    extents.push_back(item.as_integer(1, kMostExtent));
    if (extents.back() > kMostExtent / elements)
      node.fail("more than " + std::to_string(kMostExtent) + " elements");
    elements *= extents.back();
  }
  if (extents.size() > kMostDims)
    node.fail("expected at most " + std::to_string(kMostDims) + " dims, got " +
              std::to_string(extents.size()));
  return extents;
}

TensorSpec read_spec(const YamlNode& node, const Extents& extents, const DeviceMesh& mesh) {
  const std::string text = node.as_string();
  const auto parsed = has_names(node) ? parse_spec(text, mesh) : parse_numbered_spec(text, mesh);
  if (const auto* error = std::get_if<SpecTextError>(&parsed)) {
    node.fail("character " + std::to_string(error->column) + " of " + in_quotes(text) + ": " +
              error->problem);
  }
  const TensorSpec& spec = std::get<TensorSpec>(parsed);
  if (const auto wrong = spec_problem(spec, extents, mesh)) node.fail(*wrong);
  return normal_form(spec, extents, mesh);
}

std::string spec_text(const TensorSpec& spec, const DeviceMesh& mesh, const YamlNode& like) {
  return has_names(like) || !has_numbered_text(spec, mesh) ? to_text(spec, mesh)
                                                           : to_numbered_text(spec);
}

bool says(const YamlNode& problem, const char* key, const char* word, const char* otherwise) {
  const auto node = given(problem, key);
  if (!node) return false;
  const std::string text = node->as_string();
  if (text != word && text != otherwise)
    node->fail(std::string("expected ") + otherwise + " or " + word + ", got " + in_quotes(text));
  return text == word;
}

}  // namespace trainyard
