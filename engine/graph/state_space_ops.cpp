// Ops of state spaces: causal convolutions, and scans by chunks.
#include "engine/graph/graph_builder.h"
#include "engine/graph/state_space_shapes.h"

namespace trainyard {

namespace {

OpAttrs attrs_of(const StateSpaceShape& space) {
  OpAttrs attrs;
  attrs.heads = space.heads;
  attrs.kv_heads = space.groups;
  attrs.head_dim = space.head_dim;
  attrs.states = space.states;
  return attrs;
}

}  // namespace

std::array<TensorId, 3> GraphBuilder::split_projection(std::string_view module, TensorId x,
                                                       const StateSpaceShape& space) {
  OpAttrs attrs = attrs_of(space);
  attrs.packed = true;
  const std::int64_t width = std::int64_t{space.heads} * space.head_dim;
  const std::int64_t read = std::int64_t{space.groups} * space.states;
  return split_views(module, x, attrs, {width, width + 2 * read, space.heads});
}

std::array<TensorId, 3> GraphBuilder::split_convolved(std::string_view module, TensorId x,
                                                      const StateSpaceShape& space) {
  const std::int64_t read = std::int64_t{space.groups} * space.states;
  return split_views(module, x, attrs_of(space),
                     {std::int64_t{space.heads} * space.head_dim, read, read});
}

std::array<TensorId, 3> GraphBuilder::split_views(std::string_view module, TensorId x,
                                                  const OpAttrs& attrs,
                                                  const std::array<std::int64_t, 3>& sizes) {
  const int last = static_cast<int>(shape(x).size()) - 1;
  const std::vector<TensorId> parts = add_split(module, x, last, sizes, attrs, Parts::kViews);
  return {parts[0], parts[1], parts[2]};
}

TensorId GraphBuilder::causal_conv1d(std::string_view module, TensorId x, std::int64_t width,
                                     const ParameterForm& form) {
  const std::string name(module);
  const std::int64_t channels = shape(x).back();
  const TensorId w = parameter(name + ".weight", {channels, 1, 1, width}, SplitHint::kNone,
                               /*decay=*/true, 0, form);
  const TensorId b = add_bias(name, channels, form);
  const TensorId y = add_op(module, OpKind::kCausalConv1d, {}, {x, w, b}, shape(x), compute_);
  refuse(graph_.ops.back(), find_state_space_problem(graph_, graph_.ops.back()));
  return y;
}

TensorId GraphBuilder::chunk_scan(std::string_view module, const ScanInputs& inputs,
                                  const StateSpaceShape& space) {
  OpAttrs attrs = attrs_of(space);
  attrs.chunk = space.chunk;
  const auto& [x, dt, b, c, a_log, dt_bias, d] = inputs;
  const TensorId y = add_op(module, OpKind::kChunkScan, attrs, {x, dt, b, c, a_log, dt_bias, d},
                            shape(x), compute_);
  refuse(graph_.ops.back(), find_state_space_problem(graph_, graph_.ops.back()));
  return y;
}

}  // namespace trainyard
