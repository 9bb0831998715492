#include "engine/program/spec_uses.h"

#include <algorithm>

#include "engine/program/dim_cuts.h"

namespace trainyard {

namespace {

enum class Use : std::uint8_t { kSplit, kWhole, kEntered, kPassed };

struct AxisUse {
  Use use = Use::kWhole;
  int index = -1;  // kSplit
};

bool has_index(const IndexGroup& group, int index) {
  return std::count(group.indices.begin(), group.indices.end(), index) > 0;
}

std::string word(AxisState state) { return std::string(1, letter(state)); }

/// Looks at one op.
class UseChecker {
 public:
  UseChecker(const IndexSpace& space, const UsedTensors& tensors, const DeviceMesh& mesh)
      : space_(space),
        tensors_(tensors),
        mesh_(mesh) {}

  std::optional<std::string> run() {
    add_sides(tensors_.operands, space_.operands, true);
    add_sides(tensors_.results, space_.results, false);
    for (AxisId axis = 0; axis < mesh_.num_axes() && !problem_; ++axis) {
      if (mesh_.axes[axis].stages || mesh_.size(axis) == 1) continue;
      find_use(axis);
    }
    if (!problem_) check_order();
    return problem_;
  }

 private:
  /// A tensor, or its gradient, as the instruction has it.
  struct Side {
    const UsedTensor* tensor;
    const IndexedTensor* indexed;
    const TensorSpec* spec;
    bool operand;
    bool gradient;
    DimCuts cuts;
    std::string name() const { return (gradient ? "the gradient of " : "") + tensor->name; }
  };

  void refuse(const std::string& problem) {
    if (!problem_) problem_ = problem;
  }

  void add_sides(const std::vector<UsedTensor>& tensors, const std::vector<IndexedTensor>& indexed,
                 bool operands) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (const bool gradient : {false, true}) {
        const TensorSpec* spec = gradient ? tensors[i].gradient : tensors[i].value;
        if (spec == nullptr) continue;
        Side side{&tensors[i], &indexed[i], spec, operands, gradient, {}};
        if (const auto wrong =
                find_cuts(space_, indexed[i], *spec, tensors[i].local, mesh_, side.cuts))
          return refuse(side.name() + " " + *wrong);
        sides_.push_back(std::move(side));
      }
    }
  }

  // --- one axis ---

  void find_use(AxisId axis) {
    std::vector<AxisUse> candidates;
    for (std::size_t i = 0; i < space_.indices.size(); ++i) {
      const int index = static_cast<int>(i);
      if (space_.indices[index].use == IndexUse::kFree) candidates.push_back({Use::kSplit, index});
    }
    candidates.push_back({Use::kWhole, -1});
    candidates.push_back({Use::kEntered, -1});
    if (space_.linear) candidates.push_back({Use::kPassed, -1});
    std::size_t best = sides_.size() + 1;
    std::string why;
    for (const AxisUse& candidate : candidates) {
      const std::vector<std::string> wrong = mismatches(candidate, axis);
      if (wrong.empty()) {
        uses_.emplace_back(axis, candidate);
        return;
      }
      if (wrong.size() >= best) continue;
      best = wrong.size();
      why = wrong.front() + ", where " + to_text(candidate, axis);
    }
    refuse(why);
  }

  std::string to_text(const AxisUse& use, AxisId axis) const {
    const std::string name = mesh_.axis_name(axis);
    switch (use.use) {
      case Use::kSplit: return name + " splits index " + space_.indices[use.index].name;
      case Use::kWhole: return "all ranks of " + name + " do the same";
      case Use::kEntered: return "the op is entered along " + name;
      case Use::kPassed: return "summands of " + name + " are passed on";
    }
    return "";
  }

  std::vector<std::string> mismatches(const AxisUse& use, AxisId axis) {
    std::vector<std::string> wrong;
    Numbered<bool> partial_terms(space_.operands.size(), false);
    for (const Side& side : sides_) {
      if (auto reason = wrong_cut(side, use, axis)) wrong.push_back(*reason);
    }
    for (const Side& side : sides_) {
      if (side.operand || splits_everything(*side.spec, axis)) continue;
      const auto expected = result_state(*side.indexed, use, partial_terms);
      if (!expected) {
        wrong.push_back(side.name() + " has parts that would be summands and values");
        continue;
      }
      add_state(side, axis, *expected, wrong);
    }
    mark_unseen_results(use, partial_terms);
    for (std::size_t o = 0; o < space_.operands.size(); ++o)
      add_operand_states(o, use, axis, partial_terms, wrong);
    return wrong;
  }

  static std::optional<std::string> wrong_cut(const Side& side, const AxisUse& use, AxisId axis) {
    for (std::size_t d = 0; d < side.cuts.size(); ++d) {
      for (std::size_t g = 0; g < side.cuts[d].size(); ++g) {
        const Axes& axes = side.cuts[d][g];
        const bool cut = std::count(axes.begin(), axes.end(), axis) > 0;
        const bool wanted =
            use.use == Use::kSplit && has_index(side.indexed->dims[d][g], use.index);
        if (cut == wanted) continue;
        return side.name() + (cut ? " is split in dim " : " is not split in dim ") +
               std::to_string(d);
      }
    }
    return std::nullopt;
  }

  /// Beside what the axis splits; marks the terms that sum over it. nullopt: parts differ.
  std::optional<AxisState> result_state(const IndexedTensor& result, const AxisUse& use,
                                        Numbered<bool>& partial_terms) const {
    if (use.use == Use::kWhole) return AxisState::kReplicated;
    if (use.use == Use::kEntered) return AxisState::kEntered;
    if (use.use == Use::kPassed) return AxisState::kPartial;
    std::size_t parts = space_.results.size();
    if (result.part < 0) {
      parts = 1;
      for (const IndexedDim& dim : result.dims) parts = std::max(parts, dim.size());
    }
    std::optional<AxisState> all;
    for (std::size_t p = 0; p < parts; ++p) {
      if (result.part >= 0 && static_cast<int>(p) != result.part) continue;
      const int part = result.part >= 0 || parts > 1 ? static_cast<int>(p) : -1;
      if (part_has_index(result, part, parts, use.index)) continue;
      const AxisState state = state_of_part(result, part, parts, use.index, partial_terms);
      if (all.value_or(state) != state) return std::nullopt;
      all = state;
    }
    return all.value_or(AxisState::kEntered);
  }

  static bool part_has_index(const IndexedTensor& tensor, int part, std::size_t parts, int index) {
    for (const IndexedDim& dim : tensor.dims) {
      for (std::size_t g = 0; g < dim.size(); ++g) {
        const bool other = part >= 0 && dim.size() == parts && static_cast<int>(g) != part;
        if (!other && has_index(dim[g], index)) return true;
      }
    }
    return false;
  }

  AxisState state_of_part(const IndexedTensor& result, int part, std::size_t parts, int index,
                          Numbered<bool>& partial_terms) const {
    if (std::count(result.alike.begin(), result.alike.end(), index) > 0)
      return AxisState::kReplicated;
    AxisState state = AxisState::kEntered;
    for (const IndexedTensor& operand : space_.operands) {
      if (part >= 0 && operand.part >= 0 && operand.part != part) continue;
      if (!part_has_index(operand, part, parts, index)) continue;
      partial_terms[operand.term] = true;
      state = AxisState::kPartial;
    }
    return state;
  }

  /// Terms that sum into results that the instruction does not touch.
  void mark_unseen_results(const AxisUse& use, Numbered<bool>& partial_terms) const {
    if (use.use != Use::kSplit) return;
    for (std::size_t r = 0; r < space_.results.size(); ++r) {
      const UsedTensor& seen = tensors_.results[r];
      if (seen.value == nullptr && seen.gradient == nullptr)
        result_state(space_.results[r], use, partial_terms);
    }
  }

  /// Operands are E beside a split, and where summands are passed all but one factor of each term;
  /// likewise of a term that is added to summands and does not sum itself.
  void add_operand_states(std::size_t operand, const AxisUse& use, AxisId axis,
                          const Numbered<bool>& summed, std::vector<std::string>& wrong) {
    const int term = space_.operands[operand].term;
    const bool any_summed = std::count(summed.begin(), summed.end(), true) > 0;
    const bool passes = use.use == Use::kPassed || (any_summed && !summed[term]);
    AxisState expected = use.use == Use::kWhole ? AxisState::kReplicated : AxisState::kEntered;
    if (passes && !space_.linear) {
      wrong.push_back(tensors_.operands[operand].name +
                      " is added to summands by an op that is not linear");
      return;
    }
    if (passes && is_summand(operand, axis)) expected = AxisState::kPartial;
    for (const Side& side : sides_) {
      if (!side.operand || side.tensor != &tensors_.operands[operand]) continue;
      if (!splits_everything(*side.spec, axis)) add_state(side, axis, expected, wrong);
    }
  }

  /// The factor of its term that comes as P: the first that does, or that the instruction does not
  /// touch, else the first at all.
  bool is_summand(std::size_t operand, AxisId axis) const {
    const int term = space_.operands[operand].term;
    std::optional<std::size_t> first, unseen;
    for (std::size_t o = 0; o < space_.operands.size(); ++o) {
      if (space_.operands[o].term != term) continue;
      if (!first) first = o;
      const UsedTensor& tensor = tensors_.operands[o];
      if (tensor.value != nullptr && has(tensor.value->partial, axis)) return o == operand;
      if (tensor.value == nullptr && tensor.gradient != nullptr &&
          !has(tensor.gradient->partial, axis))
        return o == operand;
      if (tensor.value == nullptr && tensor.gradient == nullptr && !unseen) unseen = o;
    }
    return unseen.value_or(*first) == operand;
  }

  void add_state(const Side& side, AxisId axis, AxisState expected,
                 std::vector<std::string>& wrong) const {
    const AxisState is = state_beside(*side.spec, axis);
    const AxisState want = side.gradient ? dual(expected) : expected;
    const bool maximum = !side.operand && space_.maximum && want == AxisState::kPartial;
    if (is == AxisState::kPartial && side.spec->maximum != maximum) {
      wrong.push_back(side.name() + (maximum ? " is summands, not candidates for a maximum"
                                             : " is candidates for a maximum"));
      return;
    }
    if (is == want) return;
    const auto same_value = [](AxisState state) {
      return state == AxisState::kReplicated || state == AxisState::kEntered;
    };
    const bool one = side.gradient || !side.tensor->differentiable;
    if (one && same_value(is) && same_value(want)) return;
    if (side.tensor->stored && is == AxisState::kReplicated && want == AxisState::kEntered) return;
    wrong.push_back(side.name() + " is " + word(is) + " along " + mesh_.axis_name(axis) + ", not " +
                    word(want));
  }

  // --- all axes together ---

  /// The axes that cut an index stand in one order, whatever tensor has it, and its dims lie alike.
  void check_order() {
    order_.assign(space_.indices.size(), std::nullopt);
    for (const Side& side : sides_) {
      for (std::size_t d = 0; d < side.cuts.size() && !problem_; ++d) {
        for (std::size_t g = 0; g < side.cuts[d].size(); ++g)
          check_group(side, side.indexed->dims[d][g], side.cuts[d][g]);
        check_alike(side, d);
      }
    }
  }

  int index_of(AxisId axis) const {
    for (const auto& [of, use] : uses_) {
      if (of == axis && use.use == Use::kSplit) return use.index;
    }
    return -1;
  }

  void check_group(const Side& side, const IndexGroup& group, const Axes& axes) {
    std::size_t at = 0;
    bool outer_single = true;
    for (const int index : group.indices) {
      Axes own;
      while (at < axes.size() && (mesh_.size(axes[at]) == 1 || index_of(axes[at]) == index)) {
        if (mesh_.size(axes[at]) > 1) own.push_back(axes[at]);
        ++at;
      }
      auto& known = order_[index];
      if (!known) known = own;
      if (*known != own) return refuse(side.name() + order_text(index));
      if (!own.empty() && !outer_single)
        return refuse(side.name() + " is cut inside an index of which a rank has several");
      outer_single = outer_single && space_.indices[index].extent == 1;
    }
    if (at != axes.size()) refuse(side.name() + " is cut by the axes of an inner index first");
  }
  std::string order_text(int index) const {
    return " is cut by the axes of index " + space_.indices[index].name + " in another order";
  }

  /// Dims over one index alone.
  void check_alike(const Side& side, std::size_t d) {
    const IndexedDim& dim = side.indexed->dims[d];
    if (dim.size() != 1 || dim.front().indices.size() != 1) return;
    const int index = dim.front().indices.front();
    const DimSplit& split = side.spec->dims[d];
    for (const auto& [of, other] : alike_) {
      if (of == index && !cut_alike(*other, split, mesh_))
        refuse(side.name() + " lies in other parts of index " + space_.indices[index].name);
    }
    alike_.emplace_back(index, &split);
  }

  const IndexSpace& space_;
  const UsedTensors& tensors_;
  const DeviceMesh& mesh_;
  std::vector<Side> sides_;
  std::vector<std::pair<AxisId, AxisUse>> uses_;
  Numbered<std::optional<Axes>> order_;                 // [index]
  std::vector<std::pair<int, const DimSplit*>> alike_;  // by index
  std::optional<std::string> problem_;
};

}  // namespace

std::optional<std::string> find_use_problem(const IndexSpace& space, const UsedTensors& tensors,
                                            const DeviceMesh& mesh) {
  return UseChecker(space, tensors, mesh).run();
}

}  // namespace trainyard
