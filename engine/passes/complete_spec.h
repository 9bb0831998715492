// A spec that names some axes, completed by what another says of the others.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "engine/passes/sharding.h"

namespace trainyard {

struct PartialSpec {
  TensorSpec spec;
  AxisSet named = 0;  // axes that it says something of, R among it
};

/// The spec of `tensor` in all axes: those that are not named are as `base` has them. A dim of one
/// part that splits a dim of several is meant for each of them. In normal form; else what is wrong
/// with it.
std::variant<TensorSpec, std::string> complete_spec(const PlannedGraph& base, TensorId tensor,
                                                    const PartialSpec& given);

/// `given`, with the other axes in front of the first that comes later in the mesh.
Axes merged(const Axes& given, const Axes& others);

/// The index space of an op on all ranks' tensors; nullopt: its kind has none.
std::optional<IndexSpace> base_space(const PlannedGraph& base, const Op& op);

}  // namespace trainyard
