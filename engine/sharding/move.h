// Moves of a tensor from one spec to another, each of which brings its own backward.
//
// A move changes the state of some axes: from one state of the table to another. It acts on the
// spec and on its dual, so the backward of S -> E (all-gather) is that of dual(E) -> dual(S), P ->
// S (reduce-scatter). Nothing else about backward has to be known.
//
//              to S            R            E            P                H
//     from S   all-to-all      all-gather   all-gather   pad              gather
//          R   slice                        nothing      keep on one      nothing
//          E   slice           nothing                   keep on one      nothing
//          P   reduce-scatter  all-reduce   all-reduce                    reduce
//          H   scatter         broadcast    broadcast    zeros elsewhere
//
// S to S of one dim is a permutation: another order of its axes, or backwards. Gather, slice and
// all-to-all act on a suffix of a list; several axes at once are one collective over their product
// group. Pads are the neutral element: 0, or -infinity under a maximum.
#pragma once

#include <string_view>

#include "engine/sharding/tensor_spec.h"

namespace trainyard {

enum class MoveKind : std::uint8_t {
  kNothing,
  kSlice,
  kPad,            // the piece in its place, the neutral element around it
  kKeepOnOne,      // coordinate 0 has the value, the others the neutral element
  kZeroElsewhere,  // the holder has the value, the others the neutral element
  kAllGather,
  kAllReduce,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kPermutation,
};
std::string_view to_string(MoveKind kind);  // "all_gather"
constexpr bool communicates(MoveKind kind) { return kind >= MoveKind::kAllGather; }
constexpr bool reduces(MoveKind kind) {
  return kind == MoveKind::kAllReduce || kind == MoveKind::kReduceScatter ||
         kind == MoveKind::kReduce;
}

struct Move {
  AxisState from = AxisState::kReplicated;
  AxisState to = AxisState::kReplicated;
  Axes axes;                    // that change their state; S: in the order of the list
  std::int8_t from_dim = -1;    // of S
  std::int8_t to_dim = -1;      // to S; the same as from_dim: a permutation
  std::int32_t coordinate = 0;  // to H: the holder
  friend bool operator==(const Move&, const Move&) = default;
};

/// What runs in forward, and in backward.
MoveKind forward_kind(const Move& move);
MoveKind backward_kind(const Move& move);

/// "all_gather dim 0 over a b, backward slice"
std::string to_text(const Move& move, const DeviceMesh& mesh);

}  // namespace trainyard
