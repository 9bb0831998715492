#include "engine/passes/sharding.h"

#include <algorithm>
#include <string>

#include "engine/sharding/normal_form.h"
#include "engine/sharding/uneven_pieces.h"

namespace trainyard {

namespace {

/// Pieces per rank of a part over axes that are not late; 0: not the same for all.
std::int64_t local_elements_of(const DimPart& part, std::int64_t extent, const Axes& early,
                               const DeviceMesh& mesh) {
  const std::int64_t count = part.count == 0 ? extent : part.count;
  const std::int64_t ranks = group_size(mesh, early);
  return count % ranks == 0 ? count / ranks * part.unit : 0;
}

/// The most that a rank has of a part whose pieces are unlike; 0: none may be, or some rank has
/// nothing. What is bound late, or runs backwards, is cut alike.
std::int64_t most_elements_of(const DimPart& part, std::int64_t extent, const Sharding& sharding) {
  const bool late = (set_of(part.axes) & sharding.late) != 0;
  if (!sharding.uneven || late || part.reversed) return 0;
  const PieceSizes sizes = piece_sizes(part, extent, sharding.mesh);
  return sizes.fewest == 0 ? 0 : sizes.most;
}

/// Dims that such axes cut, cut from both ends.
void zig_zag(TensorSpec& spec, const Extents& extents, const Sharding& sharding) {
  if (sharding.zig_zag == 0) return;
  for (std::size_t d = 0; d < spec.dims.size(); ++d) {
    DimSplit& dim = spec.dims[d];
    if ((axes_in(dim) & sharding.zig_zag) == 0) continue;
    const Axes axes = dim.parts.front().axes;
    dim = normal_dim(zig_zag_split(axes, extents[d]), extents[d], sharding.mesh);
  }
}

}  // namespace

DimSplit zig_zag_split(const Axes& axes, std::int64_t extent) {
  const std::int64_t half = extent / 2;
  DimSplit out;
  out.parts.clear();
  out.parts.push_back({half, 1, axes, false});
  out.parts.push_back({extent - half, 1, axes, true});
  return out;
}

std::optional<Strategy> strategy_reading(const IndexSpace& space, int operand,
                                         const TensorSpec& spec, const Sharding& sharding) {
  TensorSpec plain = spec;
  for (DimSplit& dim : plain.dims) {
    if ((axes_in(dim) & sharding.zig_zag) == 0) continue;
    const Axes axes = dim.parts.front().axes;
    dim = split_over(axes);
  }
  return strategy_reading(space, operand, plain, sharding.mesh);
}

namespace {

/// Whether the index runs over some parts of a dim, and not over others.
bool is_of_some_parts(const IndexSpace& space, int index) {
  const auto has_index = [&](const IndexGroup& group) {
    return std::count(group.indices.begin(), group.indices.end(), index) > 0;
  };
  for (const auto* tensors : {&space.operands, &space.results}) {
    for (const IndexedTensor& tensor : *tensors) {
      for (const IndexedDim& dim : tensor.dims) {
        const auto parts = std::count_if(dim.begin(), dim.end(), has_index);
        if (parts > 0 && parts < std::ssize(dim)) return true;
      }
    }
  }
  return false;
}

}  // namespace

std::optional<std::string> uneven_problem(const Op& op, const IndexSpace& space,
                                          const Strategy& strategy, const Sharding& sharding) {
  if (!sharding.uneven) return std::nullopt;
  const std::string kind(to_string(op.kind));
  const bool by_head = op.attrs->heads > 0;
  const bool by_group =
      op.attrs->groups > 1 || op.kind == OpKind::kPieces || op.kind == OpKind::kBatchNorm;
  const bool draws = op.kind == OpKind::kDropout || op.kind == OpKind::kBiasDropoutAdd;
  for (const IndexSplit& split : strategy.split) {
    const OpIndex& index = space.indices[split.index];
    const std::int64_t ranks = group_size(sharding.mesh, split.axes);
    if (index.extent % ranks == 0) continue;
    const std::string undivided =
        std::to_string(ranks) + " do not divide " + std::to_string(index.extent);
    // Heads are what attention's indices g and r count (op_space.cpp).
    if (by_head ? index.name == "g" || index.name == "r" : by_group)
      return "ranks of " + kind + " have equal numbers of " + (by_head ? "heads" : "groups") +
             ", and " + undivided;
    if (is_of_some_parts(space, split.index))
      return "parts of a dim of " + kind + " begin at one place on all ranks, and " + undivided;
    const auto& rows = space.results.front().dims.front().front().indices;
    if (draws && !rows.empty() && rows.front() == split.index)
      return "ranks of " + kind + " have equal numbers of samples, and " + undivided;
  }
  return std::nullopt;
}

std::variant<SplitOp, Infeasible> split_op(const Graph& graph, const Op& op,
                                           const IndexSpace& space, const Strategy& strategy,
                                           Sharding& sharding) {
  auto applied = apply(space, strategy, sharding.mesh);
  if (auto* reason = std::get_if<Infeasible>(&applied)) return std::move(*reason);
  if (auto problem = uneven_problem(op, space, strategy, sharding)) return Infeasible{*problem};
  auto& specs = std::get<OperandSpecs>(applied);
  SplitOp out{strategy, {}, {}, op.attrs->heads, op.attrs->kv_heads};
  const auto add = [&](TensorId id, const IndexedTensor& indexed, TensorSpec& spec, auto& to) {
    zig_zag(spec, space.extents_of(indexed), sharding);
    if (!graph.tensors[id].needs_gradient) spec.entered = 0;
    to.push_back(sharding.specs.add(spec));
  };
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    add(op.inputs[i], space.operands[i], specs.operands[i], out.operands);
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    add(op.outputs[i], space.results[i], specs.results[i], out.results);
  for (const IndexSplit& split : strategy.split) {
    // g: key-value heads, r: the query heads of one (op_space.cpp).
    const std::string& index = space.indices[split.index].name;
    const auto ranks = static_cast<std::int32_t>(group_size(sharding.mesh, split.axes));
    if (index == "g" || index == "r") out.heads /= ranks;
    if (index == "g") out.kv_heads /= ranks;
  }
  return out;
}

Extents global_extents(const Shape& shape, const TensorSpec& spec, const Sharding& sharding) {
  Extents extents(shape.begin(), shape.end());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto late = static_cast<AxisSet>(axes_in(spec.dims[d]) & sharding.late);
    extents[d] *= group_size(sharding.mesh, axes_of(late));
  }
  return extents;
}

std::variant<Shape, Infeasible> local_shape(const std::string& name, const Shape& shape,
                                            const TensorSpec& spec, const Sharding& sharding) {
  std::variant<Shape, Infeasible> result;
  Shape& out = std::get<Shape>(result);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!spec.dims[d].after.empty())
      return Infeasible{name + ": its dim " + std::to_string(d) +
                        " is cut behind its parts, which no executor has"};
    std::int64_t local = 0;
    for (const DimPart& part : spec.dims[d].parts) {
      Axes early;
      for (const AxisId axis : part.axes) {
        if (!has(sharding.late, axis)) early.push_back(axis);
      }
      std::int64_t extent = local_elements_of(part, shape[d], early, sharding.mesh);
      if (extent == 0) extent = most_elements_of(part, shape[d], sharding);
      if (extent == 0) {
        return Infeasible{name + ": tensor parallelism over " +
                          std::to_string(group_size(sharding.mesh, early)) +
                          " ranks does not divide its dim " + std::to_string(d) + " of " +
                          std::to_string(shape[d])};
      }
      local += extent;
    }
    out.push_back(local);
  }
  return result;
}

}  // namespace trainyard
