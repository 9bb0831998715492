#include "engine/passes/uneven_dims.h"

#include "engine/sharding/uneven_pieces.h"

namespace trainyard {

std::optional<Infeasible> count_uneven_dims(Graph& graph, const Indexed<TensorId, Shape>& whole,
                                            Sharding& sharding) {
  const auto counted = [&](SpecId of, const Shape& shape) {
    if (of == kNoIndex) return of;
    const TensorSpec& spec = sharding.specs[of];
    return sharding.specs.add(
        with_counts(spec, global_extents(shape, spec, sharding), sharding.mesh));
  };
  for (const TensorId id : whole.keys()) {
    Tensor& t = graph.tensors[id];
    t.spec = counted(t.spec, whole[id]);
    if (t.spec == kNoIndex || t.alias_offset == 0) continue;
    if (is_uneven(sharding.specs[t.spec].dims.back(), sharding.mesh))
      return Infeasible{t.name + " lies in " + graph.tensors[t.alias].name +
                        ", of which ranks have pieces of unlike size: at another place on each"};
  }
  for (Parameter& parameter : graph.parameters) {
    if (parameter.tensor != kNoIndex)
      parameter.used = counted(parameter.used, whole[parameter.tensor]);
  }
  return std::nullopt;
}

}  // namespace trainyard
