#include "engine/sharding/strategy.h"

#include <algorithm>

#include "engine/sharding/normal_form.h"

namespace trainyard {

namespace {

const Axes* axes_of_index(const Strategy& strategy, int index) {
  for (const IndexSplit& one : strategy.split) {
    if (one.index == index) return &one.axes;
  }
  return nullptr;
}

bool has_index(const IndexGroup& group, int index) {
  return std::count(group.indices.begin(), group.indices.end(), index) > 0;
}

/// Applies one strategy to one op.
class StrategyReader {
 public:
  StrategyReader(const IndexSpace& space, const Strategy& strategy, const DeviceMesh& mesh)
      : space_(space),
        strategy_(strategy),
        mesh_(mesh) {}

  std::variant<OperandSpecs, Infeasible> specs() {
    check_strategy();
    OperandSpecs out;
    for (const IndexedTensor& operand : space_.operands) out.operands.push_back(cut(operand));
    for (const IndexedTensor& result : space_.results) out.results.push_back(cut(result));
    for (const IndexSplit& split : strategy_.split) {
      for (const AxisId axis : split.axes) set_split_states(out, split.index, axis);
    }
    for (const AxisId axis : axes_of(strategy_.entered)) {
      for (auto* tensors : {&out.operands, &out.results}) {
        for (TensorSpec& spec : *tensors) set_state(spec, axis, AxisState::kEntered);
      }
    }
    for (const AxisId axis : axes_of(strategy_.passed)) {
      std::vector<bool> terms(space_.operands.size(), true);
      pass(out.operands, terms, axis);
      for (TensorSpec& spec : out.results) set_state(spec, axis, AxisState::kPartial);
    }
    if (reason_) return Infeasible{*reason_};
    normalise(out);
    return out;
  }

 private:
  void refuse(const std::string& reason) {
    if (!reason_) reason_ = reason;
  }
  const OpIndex& index(int i) const { return space_.indices[i]; }

  void check_strategy() {
    AxisSet seen = 0;
    const auto use = [&](AxisSet set) {
      if ((seen & set) != 0) refuse("an axis is used twice");
      seen = static_cast<AxisSet>(seen | set);
    };
    for (const IndexSplit& split : strategy_.split) {
      use(set_of(split.axes));
      const OpIndex& one = index(split.index);
      if (one.use == IndexUse::kWhole)
        refuse("index " + one.name + " cannot be split: each rank needs all of it");
      if (one.use == IndexUse::kExchanged)
        refuse("index " + one.name + " is split by an expansion of the op alone");
    }
    use(strategy_.entered);
    use(strategy_.passed);
    if (strategy_.passed != 0 && !space_.linear)
      refuse("the op is not linear: it passes no summands");
  }

  /// The part's list: axes of its indices in order, pieces of what lies inside the innermost.
  DimPart cut_part(const IndexGroup& group) {
    DimPart part;
    part.reversed = group.reversed;
    part.unit = space_.extent_of(group);
    std::int64_t inside = part.unit;
    std::int64_t cut = 1;    // ranks along the indices so far
    std::int64_t outer = 1;  // their extent
    std::string outer_names;
    for (const int i : group.indices) {
      inside /= index(i).extent;
      if (const Axes* axes = axes_of_index(strategy_, i)) {
        if (cut != outer) {
          refuse("index " + index(i).name + " lies inside " + outer_names + ", which " +
                 std::to_string(cut) + " ranks do not cut into " + std::to_string(outer) +
                 " single ones");
        }
        part.axes.insert(part.axes.end(), axes->begin(), axes->end());
        part.unit = inside;
        cut *= group_size(mesh_, *axes);
      }
      outer *= index(i).extent;
      outer_names += (outer_names.empty() ? "" : " ") + index(i).name;
    }
    part.count = space_.extent_of(group) / part.unit;
    return part;
  }

  TensorSpec cut(const IndexedTensor& tensor) {
    TensorSpec spec;
    for (const IndexedDim& dim : tensor.dims) {
      DimSplit split;
      split.parts.clear();
      for (const IndexGroup& group : dim) split.parts.push_back(cut_part(group));
      spec.dims.push_back(split);
    }
    return spec;
  }

  bool lacks_somewhere(const TensorSpec& spec, AxisId axis) const {
    return !splits_everything(spec, axis);
  }

  /// Whether parts of the tensor that `axis` does not split belong to what `part` of the result is
  /// of.
  bool part_has_index(const IndexedTensor& tensor, int part, int i) const {
    for (const IndexedDim& dim : tensor.dims) {
      const bool aligned = part >= 0 && static_cast<int>(dim.size()) == parts_;
      for (std::size_t p = 0; p < dim.size(); ++p) {
        if (aligned && static_cast<int>(p) != part) continue;
        if (has_index(dim[p], i)) return true;
      }
    }
    return false;
  }

  /// The state of one part of a result beside an axis that splits index i; S where it has it.
  AxisState state_of_part(const IndexedTensor& result, int part, int i, std::vector<bool>& summed) {
    if (part_has_index(result, part, i)) return AxisState::kSplit;
    if (std::count(result.alike.begin(), result.alike.end(), i) > 0) return AxisState::kReplicated;
    bool any = false;
    for (const IndexedTensor& operand : space_.operands) {
      if (part >= 0 && operand.part >= 0 && operand.part != part) continue;
      if (!part_has_index(operand, part, i)) continue;
      summed[operand.term] = true;
      any = true;
    }
    return any ? AxisState::kPartial : AxisState::kEntered;
  }

  void set_split_states(OperandSpecs& out, int i, AxisId axis) {
    for (TensorSpec& spec : out.operands) {
      if (lacks_somewhere(spec, axis)) set_state(spec, axis, AxisState::kEntered);
    }
    for (std::size_t r = 0; r < out.results.size(); ++r) {
      const IndexedTensor& result = space_.results[r];
      parts_ = result.part >= 0 ? static_cast<int>(space_.results.size()) : packed_parts(result);
      Numbered<bool> summed(space_.operands.size(), false);
      std::optional<AxisState> beside;
      for (int part = result.part >= 0 ? result.part : parts_ > 1 ? 0 : -1;; ++part) {
        const AxisState state = state_of_part(result, part, i, summed);
        if (state != AxisState::kSplit && beside.value_or(state) != state)
          refuse("parts of the result are summands and values along one axis");
        if (state != AxisState::kSplit) beside = state;
        if (result.part >= 0 || part + 1 >= parts_) break;
      }
      if (!beside) continue;
      set_state(out.results[r], axis, *beside);
      if (*beside == AxisState::kPartial) add_as_summands(out, summed, axis);
    }
  }

  /// Terms that are added to summands and do not sum over the axis themselves.
  void add_as_summands(OperandSpecs& out, const std::vector<bool>& summed, AxisId axis) {
    std::vector<bool> others(summed.size(), false);
    bool any = false;
    for (const IndexedTensor& operand : space_.operands) {
      const auto term = static_cast<std::size_t>(operand.term);
      others[term] = !summed[term];
      any = any || others[term];
    }
    if (!any) return;
    if (!space_.linear) return refuse("the op is not linear: its terms are no summands");
    pass(out.operands, others, axis);
  }

  /// One factor of each of these terms comes as P: the first that the axis does not split.
  void pass(std::vector<TensorSpec>& operands, std::vector<bool> terms, AxisId axis) {
    for (std::size_t o = 0; o < operands.size(); ++o) {
      const auto term = static_cast<std::size_t>(space_.operands[o].term);
      if (dim_of(operands[o], axis)) {
        if (terms[term]) refuse("a term that is split cannot be a summand as well");
        continue;
      }
      if (!terms[term]) {
        if (has(strategy_.passed, axis)) set_state(operands[o], axis, AxisState::kEntered);
        continue;
      }
      set_state(operands[o], axis, AxisState::kPartial);
      terms[term] = false;
    }
  }

  static int packed_parts(const IndexedTensor& tensor) {
    std::size_t parts = 1;
    for (const IndexedDim& dim : tensor.dims) parts = std::max(parts, dim.size());
    return static_cast<int>(parts);
  }

  void normalise(OperandSpecs& out) const {
    for (std::size_t o = 0; o < out.operands.size(); ++o)
      out.operands[o] = normal_form(out.operands[o], space_.extents_of(space_.operands[o]), mesh_);
    for (std::size_t r = 0; r < out.results.size(); ++r) {
      TensorSpec& spec = out.results[r];
      spec.maximum = space_.maximum && spec.partial != 0;
      if (space_.maximum) spec.entered = 0;  // no gradient flows
      spec = normal_form(spec, space_.extents_of(space_.results[r]), mesh_);
    }
  }

  const IndexSpace& space_;
  const Strategy& strategy_;
  const DeviceMesh& mesh_;
  int parts_ = 1;  // of the result at hand
  std::optional<std::string> reason_;
};

}  // namespace

std::variant<OperandSpecs, Infeasible> apply(const IndexSpace& space, const Strategy& strategy,
                                             const DeviceMesh& mesh) {
  return StrategyReader(space, strategy, mesh).specs();
}

std::string to_text(const Strategy& strategy, const IndexSpace& space, const DeviceMesh& mesh) {
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  const auto names = [&](const Axes& axes) {
    std::string list;
    for (const AxisId axis : axes) list += (list.empty() ? "" : " ") + mesh.axis_name(axis);
    return list;
  };
  for (const IndexSplit& split : strategy.split)
    add(space.indices[split.index].name + ":" + names(split.axes));
  if (strategy.entered != 0) add("E(" + names(axes_of(strategy.entered)) + ")");
  if (strategy.passed != 0) add("P(" + names(axes_of(strategy.passed)) + ")");
  return text.empty() ? "whole" : text;
}

}  // namespace trainyard
