#include "study/sharding_names.h"

#include <algorithm>
#include <variant>

#include "engine/base/error.h"
#include "engine/sharding/spec_text.h"

namespace trainyard {

namespace {

void append_name(std::string& list, const std::string& name) {
  list += (list.empty() ? "" : " ") + name;
}

void drop(Axes& axes, AxisSet dropped) {
  axes.erase(
      std::remove_if(axes.begin(), axes.end(), [&](AxisId axis) { return has(dropped, axis); }),
      axes.end());
}

}  // namespace

DeviceMesh sharding_names(const ParallelConfig& parallel) {
  DeviceMesh mesh;
  const auto add = [&](const std::string& name, int size, bool stages) {
    mesh.axes.push_back({name, std::max(size, 1), stages});
  };
  add("pp", parallel.pipeline, true);
  add("dp", parallel.data, false);
  const std::vector<int> sizes = parallel.sizes_of_tensor_axes();
  if (sizes.empty()) {
    add("tp", parallel.tensor, false);
    return mesh;
  }
  Axes tensor;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    tensor.push_back(mesh.num_axes());
    add("tp" + std::to_string(i), sizes[i], false);
  }
  mesh.names.emplace_back("tp", tensor);
  return mesh;
}

std::string given_text(const TensorSpec& spec, AxisSet named, const DeviceMesh& mesh) {
  std::string replicated;
  for (const AxisId axis : axes_of(named)) {
    const bool whole = !dim_of(spec, axis) && state_beside(spec, axis) == AxisState::kReplicated;
    if (whole) append_name(replicated, mesh.axis_name(axis));
  }
  return to_text(spec, mesh) + (replicated.empty() ? "" : " R(" + replicated + ")");
}

std::vector<GivenSharding> without_single_ranks(std::vector<GivenSharding> sharding,
                                                const DeviceMesh& names) {
  AxisSet single = 0;
  for (const AxisId axis : names.axis_ids()) {
    if (names.size(axis) == 1) single = static_cast<AxisSet>(single | bit(axis));
  }
  if (single == 0) return sharding;
  for (GivenSharding& given : sharding) {
    for (auto& [name, text] : given.specs) {
      auto parsed = parse_spec(text, names);
      check(std::holds_alternative<TensorSpec>(parsed), "the reader has read this spec");
      TensorSpec& spec = std::get<TensorSpec>(parsed);
      for (DimSplit& dim : spec.dims) {
        drop(dim.after, single);
        for (DimPart& part : dim.parts) drop(part.axes, single);
      }
      for (const AxisId axis : axes_of(single)) set_state(spec, axis, AxisState::kReplicated);
      text = given_text(spec, static_cast<AxisSet>(named_axes(text, names) & ~single), names);
    }
    for (auto& [index, axes] : given.strategy) {
      std::string kept;
      for (const AxisId axis : axes_of(static_cast<AxisSet>(named_axes(axes, names) & ~single)))
        append_name(kept, names.axis_name(axis));
      axes = kept;
    }
    std::erase_if(given.strategy, [](const auto& use) { return use.second.empty(); });
  }
  return sharding;
}

}  // namespace trainyard
