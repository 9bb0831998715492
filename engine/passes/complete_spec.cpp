#include "engine/passes/complete_spec.h"

#include <algorithm>
#include <vector>

#include "engine/graph/op_space.h"
#include "engine/sharding/normal_form.h"
#include "engine/sharding/spec_text.h"

namespace trainyard {

namespace {

Axes without(const Axes& axes, AxisSet dropped) {
  Axes out;
  for (const AxisId axis : axes) {
    if (!has(dropped, axis)) out.push_back(axis);
  }
  return out;
}

class SpecCompleter {
 public:
  SpecCompleter(const PlannedGraph& base, TensorId tensor, const PartialSpec& given)
      : sharding_(base.sharding),
        tensor_(base.graph.tensors[tensor]),
        base_(base.sharding.specs[base.sharding.stored[tensor]]),
        given_(given) {}

  std::variant<TensorSpec, std::string> run() {
    const std::size_t num_dims = tensor_.shape.size();
    if (given_.spec.dims.size() != num_dims) {
      return tensor_.name + " has " + std::to_string(num_dims) + " dims, and " +
             std::to_string(given_.spec.dims.size()) + " are given";
    }
    TensorSpec out = given_.spec;
    for (std::size_t d = 0; d < num_dims; ++d) {
      auto dim = complete(given_.spec.dims[d], base_.dims[d]);
      if (auto* problem = std::get_if<std::string>(&dim))
        return tensor_.name + ", dim " + std::to_string(d) + ": " + *problem;
      out.dims[d] = std::get<DimSplit>(std::move(dim));
    }
    for (const AxisId axis : sharding_.mesh.axis_ids()) {
      if (has(given_.named, axis) || splits_everything(base_, axis)) continue;
      set_state(out, axis, state_beside(base_, axis), holder(base_, axis).value_or(0));
      if (has(base_.partial, axis)) out.maximum = base_.maximum;
    }
    // What a parameter, or a value without gradient, holds is the same in both.
    const bool parameter = tensor_.role == TensorRole::kParameter;
    if (parameter || !tensor_.needs_gradient) out.entered = 0;
    if (parameter && out.partial != 0)
      return tensor_.name + " is a parameter, which no rank has a summand of";
    if (auto problem = late_problem(out)) return *problem;
    const Extents extents = global_extents(tensor_.shape, out, sharding_);
    if (const auto problem = spec_problem(out, extents, sharding_.mesh))
      return tensor_.name + ": " + *problem;
    return normal_form(out, extents, sharding_.mesh);
  }

 private:
  std::variant<DimSplit, std::string> complete(DimSplit given, const DimSplit& base) const {
    const bool plain = given.parts.size() == 1 && given.parts[0].count == 0 && given.after.empty();
    if (plain && base.parts.size() > 1) return in_each_part(given.parts[0], base);
    const AxisSet others = static_cast<AxisSet>(axes_in(base) & ~given_.named);
    if (others == 0) return given;
    const bool alike = given.parts.size() == base.parts.size() && base.after.empty();
    if (!alike || (!plain && base.parts.size() == 1 && base.parts[0].count == 0)) {
      return "its parts are not those of the method, which splits it over " +
             sharding_.mesh.axis_name(axes_of(others).front()) +
             ", too; say in each part which axes split it";
    }
    for (std::size_t p = 0; p < given.parts.size(); ++p)
      given.parts[p].axes = merged(given.parts[p].axes, without(base.parts[p].axes, given_.named));
    return given;
  }

  std::variant<DimSplit, std::string> in_each_part(const DimPart& given,
                                                   const DimSplit& base) const {
    DimSplit out = base;
    for (DimPart& part : out.parts) {
      part.axes = merged(given.axes, without(part.axes, given_.named));
      part.reversed = given.reversed;
      // Pieces of one element: normal_form() has the largest.
      part.count *= part.unit;
      part.unit = 1;
    }
    out.after = without(base.after, given_.named);
    return out;
  }

  /// Late axes split the batch alone, and before any other axis does.
  std::optional<std::string> late_problem(const TensorSpec& spec) const {
    for (const AxisId axis : axes_of(sharding_.late)) {
      const auto dim = dim_of(spec, axis);
      bool alike = dim == dim_of(base_, axis) &&
                   (dim || state_beside(spec, axis) == state_beside(base_, axis));
      if (dim && alike) {
        for (const DimPart& part : spec.dims.begin()[*dim].parts)
          alike = alike && !part.axes.empty() && part.axes.front() == axis;
      }
      if (alike) continue;
      return tensor_.name + " stays as the method has it along " + sharding_.mesh.axis_name(axis) +
             ", " + to_text(base_, sharding_.mesh, NamedAxes::kAll) +
             "; leave this axis out, and the batch is split over it";
    }
    return std::nullopt;
  }

  const Sharding& sharding_;
  const Tensor& tensor_;
  const TensorSpec& base_;
  const PartialSpec& given_;
};

}  // namespace

std::variant<TensorSpec, std::string> complete_spec(const PlannedGraph& base, TensorId tensor,
                                                    const PartialSpec& given) {
  return SpecCompleter(base, tensor, given).run();
}

Axes merged(const Axes& given, const Axes& others) {
  Axes out = given;
  for (const AxisId axis : others) {
    out.insert(std::find_if(out.begin(), out.end(), [&](AxisId later) { return later > axis; }),
               axis);
  }
  return out;
}

std::optional<IndexSpace> base_space(const PlannedGraph& base, const Op& op) {
  if (!has_op_space(op.kind)) return std::nullopt;
  std::vector<Extents> operands;
  for (const TensorId input : op.inputs) {
    const Shape& shape = base.graph.tensors[input].shape;
    operands.push_back(
        global_extents(shape, base.sharding.specs[base.sharding.stored[input]], base.sharding));
  }
  auto space = op_space(base.graph, op, operands);
  if (auto* found = std::get_if<IndexSpace>(&space)) return std::move(*found);
  return std::nullopt;
}

}  // namespace trainyard
