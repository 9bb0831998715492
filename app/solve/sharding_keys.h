// Keys that problems about shardings share: a mesh, a tensor's extents, specs.
#pragma once

#include <string>

#include "engine/sharding/tensor_spec.h"
#include "study/yaml_reader.h"

namespace trainyard {

/// `mesh`: a list of sizes, whose axes are called 0, 1, ..., or a map of names to sizes.
DeviceMesh read_mesh(const YamlNode& problem);

Extents read_extents(const YamlNode& node);

/// A spec with numbers, "S01,R P2", or with names, "[tp0, R] E(tp1)"; in normal form.
TensorSpec read_spec(const YamlNode& node, const Extents& extents, const DeviceMesh& mesh);

/// The spec in the form that `like` has.
std::string spec_text(const TensorSpec& spec, const DeviceMesh& mesh, const YamlNode& like);

/// Whether `key` says `word` and not `otherwise`, which it says where it is absent.
bool says(const YamlNode& problem, const char* key, const char* word, const char* otherwise);

}  // namespace trainyard
