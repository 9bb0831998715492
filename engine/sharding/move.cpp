#include "engine/sharding/move.h"

namespace trainyard {

namespace {

constexpr std::string_view kNames[] = {
    "nothing",    "slice",          "pad",        "keep_on_one", "zero_elsewhere", "all_gather",
    "all_reduce", "reduce_scatter", "all_to_all", "broadcast",   "reduce",         "gather",
    "scatter",    "permutation"};

using enum MoveKind;
// Rows from, columns to, both in the order of AxisState: S R E P H. On the diagonal stands what
// moves nothing, but for S to S.
constexpr MoveKind kKinds[5][5] = {
    {kAllToAll, kAllGather, kAllGather, kPad, kGather},
    {kSlice, kNothing, kNothing, kKeepOnOne, kNothing},
    {kSlice, kNothing, kNothing, kKeepOnOne, kNothing},
    {kReduceScatter, kAllReduce, kAllReduce, kNothing, kReduce},
    {kScatter, kBroadcast, kBroadcast, kZeroElsewhere, kNothing},
};

MoveKind kind_between(AxisState from, AxisState to, bool one_dim) {
  const MoveKind kind = kKinds[static_cast<int>(from)][static_cast<int>(to)];
  return kind == kAllToAll && one_dim ? kPermutation : kind;
}

std::string names_of(const Axes& axes, const DeviceMesh& mesh) {
  std::string text;
  for (const AxisId axis : axes) text += (text.empty() ? "" : " ") + mesh.axis_name(axis);
  return text;
}

}  // namespace

std::string_view to_string(MoveKind kind) { return kNames[static_cast<int>(kind)]; }

MoveKind forward_kind(const Move& move) {
  return kind_between(move.from, move.to, move.from_dim == move.to_dim);
}

MoveKind backward_kind(const Move& move) {
  return kind_between(dual(move.to), dual(move.from), move.from_dim == move.to_dim);
}

std::string to_text(const Move& move, const DeviceMesh& mesh) {
  const MoveKind forward = forward_kind(move);
  std::string text(to_string(forward));
  if (move.from == AxisState::kSplit) text += " dim " + std::to_string(move.from_dim);
  if (move.to == AxisState::kSplit && forward != kPermutation)
    text += (move.from == AxisState::kSplit ? " to " : " dim ") + std::to_string(move.to_dim);
  text += " over " + names_of(move.axes, mesh);
  if (move.to == AxisState::kHeld) text += " at " + std::to_string(move.coordinate);
  return text + ", backward " + std::string(to_string(backward_kind(move)));
}

}  // namespace trainyard
