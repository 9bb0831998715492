#include "engine/passes/move_forms.h"

#include "engine/sharding/spec_text.h"

namespace trainyard {

std::variant<MoveForm, Infeasible> move_form(const Move& move, const TensorSpec& after,
                                             const DeviceMesh& mesh) {
  const bool to_entered = move.to == AxisState::kEntered;
  const bool held = move.from == AxisState::kHeld || move.to == AxisState::kHeld;
  // Gaps are filled with zeros, which are no candidates.
  const bool fills = move.to == AxisState::kPartial && after.maximum;
  const MoveKind kind = forward_kind(move);
  if (!held && !fills) {
    switch (kind) {
      case MoveKind::kNothing:
        return MoveForm{OpKind::kEnterTensor, to_entered ? "entered" : "left", -1, true};
      case MoveKind::kAllGather:
        return MoveForm{OpKind::kAllGather, to_entered ? "gathered" : "whole", move.from_dim, false,
                        to_entered};
      case MoveKind::kSlice: return MoveForm{OpKind::kSlice, "slice", move.to_dim};
      case MoveKind::kPad: return MoveForm{OpKind::kPad, "padded", move.from_dim};
      case MoveKind::kKeepOnOne: return MoveForm{OpKind::kKeepOnOne, "kept"};
      case MoveKind::kAllReduce: return MoveForm{OpKind::kAllReduce, "all", -1, true};
      case MoveKind::kReduceScatter: return MoveForm{OpKind::kReduceScatter, "shard", move.to_dim};
      case MoveKind::kAllToAll:
      case MoveKind::kPermutation: return MoveForm{OpKind::kAllToAll, "moved", move.to_dim};
      default: break;
    }
  }
  return Infeasible{"a tensor needs " + to_text(move, mesh) +
                    (held    ? ", and no executor has values that one rank holds"
                     : fills ? ", and no executor has candidates for a maximum that are none"
                             : ", which no executor has")};
}

bool parts_move_as_one(const Move& move, const TensorSpec& before, const TensorSpec& after) {
  if (move.axes.size() < 2) return true;
  for (const TensorSpec* spec : {&before, &after}) {
    for (const DimSplit& dim : spec->dims) {
      const AxisSet cut = static_cast<AxisSet>(axes_in(dim) & set_of(move.axes));
      if ((cut & ~axes_of_all_parts(dim)) != 0) return false;
    }
  }
  return true;
}

}  // namespace trainyard
