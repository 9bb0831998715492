// A study whose model a problem of `solve` is about.
#pragma once

#include <optional>

#include "app/prepare.h"
#include "study/yaml_reader.h"

namespace trainyard {

/// `study: FILE`, relative to the problem, or a study written there as a map, and `set:
/// [path=value,
/// ...]`, as after --set. nullopt: the problem has no study.
std::optional<Prepared> read_model_study(const YamlNode& problem);

}  // namespace trainyard
