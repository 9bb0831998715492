// The op that carries out a move between two specs of a tensor.
#pragma once

#include <string_view>
#include <variant>

#include "engine/base/error.h"
#include "engine/graph/op_kind.h"
#include "engine/sharding/move.h"
#include "engine/sharding/tensor_spec.h"

namespace trainyard {

struct MoveForm {
  OpKind kind;
  std::string_view suffix;  // of what it makes
  int dim = -1;
  bool in_place = false;  // all-reduce: where nothing else reads what it overwrites
  bool partial_gradient = false;
};

/// Infeasible where no executor has it. `after`: what it makes.
std::variant<MoveForm, Infeasible> move_form(const Move& move, const TensorSpec& after,
                                             const DeviceMesh& mesh);

/// Parts of a dim move by themselves: whether one collective has all that change over the axes.
bool parts_move_as_one(const Move& move, const TensorSpec& before, const TensorSpec& after);

}  // namespace trainyard
