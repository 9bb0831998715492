#include "engine/program/spec_steps.h"

#include <algorithm>
#include <cmath>

#include "engine/program/dim_cuts.h"
#include "engine/sharding/uneven_pieces.h"

namespace trainyard {

namespace {

using Problem = std::optional<std::string>;

const Value& value_of(const Program& program, const Operand& operand) {
  return program.values[operand.value];
}

Problem whole_problem(const Program& program, const Operand& operand) {
  const Value& value = value_of(program, operand);
  if (value.spec == kNoIndex) return std::nullopt;
  const TensorSpec& spec = program.specs[value.spec];
  if (spec.partial == 0 && spec.held.empty()) return std::nullopt;
  return value.name + " is not whole on every rank";
}

/// Norms that stand before the gradients.
std::size_t num_norms(const ProgramOp& op) {
  if (op.kind == OpKind::kCorrectAdamW || op.kind == OpKind::kCorrectSgd) return 2;
  return op.reads.size() > 1 ? 1 : 0;
}

}  // namespace

Problem find_unlike(const Program& program, const ProgramOp& op) {
  const Value* first = nullptr;
  for (const auto* operands : {&op.reads, &op.accumulates, &op.writes}) {
    for (const Operand& operand : *operands) {
      const Value& value = value_of(program, operand);
      if (first == nullptr) first = &value;
      if (value.spec != first->spec) return value.name + " is not as " + first->name;
    }
  }
  return std::nullopt;
}

Problem find_join_problem(const Program& program, const ProgramOp& op) {
  if (op.part != OpPart::kForward || op.writes.size() != 1) return find_unlike(program, op);
  const ValueId root = storage_root(program, op.writes[0].value);
  const Value& whole = value_of(program, op.writes[0]);
  const TensorSpec of_whole = spec_of(program, whole);
  const auto axes = [](const TensorSpec& spec) {
    AxisSet out = 0;
    for (const DimSplit& dim : spec.dims) out = static_cast<AxisSet>(out | axes_in(dim));
    return out;
  };
  for (const Operand& read : op.reads) {
    const Value& piece = value_of(program, read);
    const bool run = piece.dims.size() == 1 && storage_root(program, read.value) == root;
    if (!run) return find_unlike(program, op);
    const TensorSpec of_piece = spec_of(program, piece);
    if (of_piece.partial != of_whole.partial || of_piece.held != of_whole.held ||
        axes(of_piece) != axes(of_whole))
      return piece.name + " is not as " + whole.name;
  }
  return std::nullopt;
}

Problem find_quantize_problem(const Program& program, const ProgramOp& op) {
  if (op.reads.empty() || op.writes.empty()) return "casts nothing";
  const Value& of = value_of(program, op.reads[0]);
  const TensorSpec spec = spec_of(program, of);
  if (spec.partial != 0) return of.name + " is summands";
  for (const Operand& written : op.writes) {
    const Value& copy = value_of(program, written);
    if (is_fp8(copy.dtype) && spec_of(program, copy).dims != spec.dims)
      return copy.name + " is not split as " + of.name;
  }
  return std::nullopt;
}

Problem find_amaxes_problem(const Program& program, const ProgramOp& op) {
  if (op.reads.size() != 1 || op.writes.size() + op.accumulates.size() != 1)
    return "reads 1 value and makes 1";
  const Value& of = value_of(program, op.reads[0]);
  const Value& found = value_of(program, (op.writes.empty() ? op.accumulates : op.writes)[0]);
  AxisSet axes = 0;
  for (const DimSplit& dim : spec_of(program, of).dims)
    axes = static_cast<AxisSet>(axes | axes_in(dim));
  const TensorSpec spec = spec_of(program, found);
  if (!spec.maximum || (axes & ~spec.partial) != 0)
    return found.name + " are no candidates of all ranks that have parts of " + of.name;
  return std::nullopt;
}

Problem find_scales_problem(const Program& program, const ProgramOp& op) {
  if (op.reads.size() != 1 || op.accumulates.size() != 2) return "reads 1 value and adds to 2";
  return whole_problem(program, op.reads[0]);
}

bool adds_alike(const Program& program, const ProgramOp& op) {
  if (op.writes.size() + op.accumulates.size() != 1) return false;
  const Operand& added = op.writes.empty() ? op.accumulates[0] : op.writes[0];
  const TensorSpec sum = spec_of(program, value_of(program, added));
  return std::all_of(op.reads.begin(), op.reads.end(), [&](const Operand& read) {
    const TensorSpec one = spec_of(program, value_of(program, read));
    return one.dims == sum.dims && one.partial == sum.partial && one.held == sum.held;
  });
}

bool takes_part(const Program& program, const ProgramOp& op) {
  if (op.part != OpPart::kForward || op.reads.size() != 1 || op.writes.size() != 1) return false;
  const TensorSpec from = spec_of(program, value_of(program, op.reads[0]));
  const int dim = program.attrs[op.attrs].dim;
  return dim >= 0 && dim < static_cast<int>(from.dims.size()) &&
         from.dims.begin()[dim].parts.size() > 1;
}

Problem find_part_problem(const Program& program, const ProgramOp& op, const DeviceMesh& mesh) {
  const Value &whole = value_of(program, op.reads[0]), &taken = value_of(program, op.writes[0]);
  const TensorSpec from = spec_of(program, whole), to = spec_of(program, taken);
  const OpAttrs& attrs = program.attrs[op.attrs];
  const auto dim = static_cast<std::size_t>(attrs.dim);
  if (to.dims.size() != from.dims.size()) return taken.name + " has another number of dims";
  DimSplit cut;  // as the parts that it lies in, which neighbours nothing cuts may be
  std::int64_t begin = 0;
  const std::int64_t end = attrs.begin + taken.dims[dim].expected;
  for (const DimPart& part : from.dims[dim].parts) {
    const std::int64_t local = piece_sizes(part, 0, mesh).most;
    const bool inside = begin < end && attrs.begin < begin + local;
    const bool all = attrs.begin <= begin && begin + local <= end;
    if (inside && !part.axes.empty() && !all) return "takes some of a part that is cut";
    if (inside && all && !part.axes.empty()) cut.parts.front() = part;
    begin += local;
  }
  for (std::size_t d = 0; d < to.dims.size(); ++d) {
    const DimSplit& expected = d == dim ? cut : from.dims[d];
    if (!cut_alike(to.dims[d], expected, mesh))
      return taken.name + " is split otherwise in dim " + std::to_string(d);
  }
  for (AxisId axis = 0; axis < program.mesh.num_axes(); ++axis) {
    if (dim_of(to, axis)) continue;
    const AxisState was = state_beside(from, axis), is = state_beside(to, axis);
    const bool summands = (was == AxisState::kPartial) != (is == AxisState::kPartial);
    if (summands || holder(from, axis) != holder(to, axis))
      return taken.name + " is not as " + whole.name + " along " + program.mesh.axis_name(axis);
  }
  return std::nullopt;
}

Problem find_norm_problem(const Program& program, const ProgramOp& op, std::int32_t pipeline_rank) {
  const Operands& sums = op.accumulates.empty() ? op.writes : op.accumulates;
  if (sums.size() != 1) return "has not one sum";
  const Value& sum = value_of(program, sums[0]);
  const TensorSpec of_sum = spec_of(program, sum);
  for (const Operand& read : op.reads) {
    const Value& gradient = value_of(program, read);
    const TensorSpec spec = spec_of(program, gradient);
    if (spec.partial != 0) return gradient.name + " is summands";
    double share = 1;
    for (AxisId axis = 0; axis < program.mesh.num_axes(); ++axis) {
      const bool apart = dim_of(spec, axis) || holder(spec, axis);
      const bool added = has(of_sum.partial, axis);
      const std::string& name = program.mesh.axis_name(axis);
      if (apart && !added)
        return sum.name + " is not P along " + name + ", as " + gradient.name + " asks";
      if (added && !apart) share /= program.mesh.size(axis, pipeline_rank);
    }
    if (std::abs(program.attrs[op.attrs].share / share - 1) > 1e-6)
      return gradient.name + " counts a share of " + std::to_string(program.attrs[op.attrs].share) +
             ", not " + std::to_string(share);
  }
  return std::nullopt;
}

/// Where one kernel updates several parameters the i-th gradient is the i-th weights'.
Problem find_update_problem(const Program& program, const ProgramOp& op) {
  const std::size_t norms = num_norms(op);
  for (std::size_t i = 0; i < norms; ++i) {
    if (auto problem = whole_problem(program, op.reads[i])) return problem;
  }
  const std::size_t gradients = op.reads.size() - norms;
  if (op.reads.size() <= norms) return "reads no gradient";
  for (std::size_t i = norms; i < op.reads.size(); ++i) {
    const Value& gradient = value_of(program, op.reads[i]);
    if (spec_of(program, gradient).partial != 0) return gradient.name + " is summands";
  }
  std::size_t at = 0;
  for (const auto* operands : {&op.accumulates, &op.writes}) {
    for (const Operand& operand : *operands) {
      const Value& gradient = value_of(program, op.reads[norms + at++ % gradients]);
      const Value& value = value_of(program, operand);
      if (value.spec != gradient.spec) return value.name + " is not as " + gradient.name;
    }
  }
  return std::nullopt;
}

}  // namespace trainyard
