// Enumerates strategies of an op.
#include <algorithm>
#include <functional>

#include "engine/sharding/normal_form.h"
#include "engine/sharding/strategy.h"

namespace trainyard {

namespace {

void split_more(Strategy& strategy, int index, AxisId axis, std::size_t place) {
  auto at = std::find_if(strategy.split.begin(), strategy.split.end(),
                         [&](const IndexSplit& one) { return one.index >= index; });
  if (at == strategy.split.end() || at->index != index) at = strategy.split.insert(at, {index, {}});
  at->axes.insert(at->axes.begin() + static_cast<std::ptrdiff_t>(place), axis);
}

std::size_t num_axes_of(const Strategy& strategy, int index) {
  for (const IndexSplit& one : strategy.split) {
    if (one.index == index) return one.axes.size();
  }
  return 0;
}

constexpr int kWhole = -1, kEntered = -2, kPassed = -3;  // uses beside indices
using MayUse = std::function<bool(AxisId axis, int use)>;

/// Tries each use of the axes from `axis` on that `may` allows; `visit` returns false to end.
bool for_each_use(const IndexSpace& space, const DeviceMesh& mesh, AxisId axis, Strategy& strategy,
                  const MayUse& may, const std::function<bool(const Strategy&)>& visit) {
  while (axis < mesh.num_axes() && (mesh.size(axis) == 1 || mesh.axes[axis].stages)) ++axis;
  if (axis == mesh.num_axes()) return visit(strategy);
  const auto next = static_cast<AxisId>(axis + 1);
  if (may(axis, kWhole) && !for_each_use(space, mesh, next, strategy, may, visit)) return false;
  for (std::size_t i = 0; i < space.indices.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (space.indices[i].use != IndexUse::kFree || !may(axis, index)) continue;
    for (std::size_t place = num_axes_of(strategy, index) + 1; place-- > 0;) {
      Strategy longer = strategy;
      split_more(longer, index, axis, place);
      if (!for_each_use(space, mesh, next, longer, may, visit)) return false;
    }
  }
  Strategy other = strategy;
  other.entered = static_cast<AxisSet>(other.entered | bit(axis));
  if (may(axis, kEntered) && !for_each_use(space, mesh, next, other, may, visit)) return false;
  if (!space.linear || !may(axis, kPassed)) return true;
  other = strategy;
  other.passed = static_cast<AxisSet>(other.passed | bit(axis));
  return for_each_use(space, mesh, next, other, may, visit);
}

}  // namespace

std::vector<Strategy> all_strategies(const IndexSpace& space, const DeviceMesh& mesh,
                                     std::size_t most) {
  std::vector<Strategy> out;
  Strategy strategy;
  const auto any = [](AxisId, int) { return true; };
  for_each_use(space, mesh, 0, strategy, any, [&](const Strategy& one) {
    if (std::holds_alternative<OperandSpecs>(apply(space, one, mesh))) out.push_back(one);
    return out.size() < most;
  });
  return out;
}

std::optional<Strategy> strategy_reading(const IndexSpace& space, int operand,
                                         const TensorSpec& spec, const DeviceMesh& mesh) {
  const auto which = static_cast<std::size_t>(operand);
  const TensorSpec wanted = normal_form(spec, space.extents_of(space.operands[which]), mesh);
  // An axis splits an index of the dim that it cuts, or one that the operand lacks where it is
  // entered.
  const auto may = [&](AxisId axis, int use) {
    const auto dim = dim_of(wanted, axis);
    const AxisState beside = state_beside(wanted, axis);
    if (use == kWhole) return !dim && beside == AxisState::kReplicated;
    if (use == kEntered) return !dim && beside == AxisState::kEntered;
    if (use == kPassed) return !dim && beside != AxisState::kReplicated;
    const auto has_index = [&](const IndexedDim& groups) {
      return std::any_of(groups.begin(), groups.end(), [&](const IndexGroup& group) {
        return std::count(group.indices.begin(), group.indices.end(), use) > 0;
      });
    };
    const auto& dims = space.operands[which].dims;
    if (dim) return has_index(dims.begin()[*dim]);
    return beside != AxisState::kReplicated && std::none_of(dims.begin(), dims.end(), has_index);
  };
  std::optional<Strategy> found;
  Strategy strategy;
  for_each_use(space, mesh, 0, strategy, may, [&](const Strategy& one) {
    const auto specs = apply(space, one, mesh);
    const auto* made = std::get_if<OperandSpecs>(&specs);
    if (made != nullptr && made->operands[which] == wanted) found = one;
    return !found;
  });
  return found;
}

}  // namespace trainyard
