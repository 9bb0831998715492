// The moves out of one node of the search for a redistribution, with their costs.
#pragma once

#include <map>
#include <tuple>
#include <unordered_map>

#include "engine/base/indexed.h"
#include "engine/sharding/move_cost.h"
#include "engine/sharding/search_state.h"
#include "engine/sharding/spec_boxes.h"

namespace trainyard {

struct SearchEdge {
  SearchState next;
  Move move;
  double cost;  // forward and backward
};

class SearchEdges {
 public:
  SearchEdges(const TensorSpec& from, const TensorSpec& to, const Extents& extents,
              const DeviceMesh& mesh, const MoveCosts& costs);

  const StateCodec& codec() const { return codec_; }
  /// No edge costs more.
  double most_of_edge() const;
  /// No path from `state` to `to` costs less: what two ranks, the first and the last, lack in
  /// forward and in backward, over the fastest link. Consistent: h(u) <= cost(u, v) + h(v).
  double least_cost(const SearchState& state);
  /// All edges out of `state`; the reference stands until the next call.
  const std::vector<SearchEdge>& out_of(const SearchState& state);

 private:
  void enter(const SearchState& state);
  bool holds(const SearchState& state, const Coordinate& coordinate) const;
  struct HeldPart {
    double has, common;  // elements of a dim: those a rank has at the way's end, at both ends
  };
  double lacking(const SearchState& state, std::size_t corner, bool backward);
  HeldPart plain_part(int dim, std::size_t corner, bool backward) const;
  HeldPart packed_part(int dim, const SearchState& state, std::size_t corner, bool backward);
  void read_lists(const SearchState& state);
  void change_states();
  void split_axes();
  void shorten_lists();
  void reorder_lists();
  void exchange(int dim, const Axes& suffix);
  void change_packed(int dim);
  void change_beside(int dim, int which, AxisId axis);
  void gain_all(int dim);
  void shed_all(int dim, int which);
  bool may_become(AxisState state, AxisId axis) const;
  void shed(int dim, int which, AxisSet present, AxisId axis);
  void gain(int dim, const SearchState& without, Move move);
  void permute_packed(int dim);
  void add_plain(const SearchState& next, const Move& move, double forward, double backward,
                 double local_after);
  void add_packed(const SearchState& next, const Move& move);
  SearchState only_touched(const SearchState& state, const Move& move, std::uint32_t dims) const;
  bool may_append(int dim, const Axes& axes) const;
  double dim_most(int dim, const SearchState& state);
  double gathered_part(int dim, std::size_t left, const Axes& axes) const;
  double permuted_part(int dim, const Axes& order);

  const DeviceMesh& mesh_;
  const Extents& extents_;
  const MoveCosts& costs_;
  TensorSpec from_, to_;
  StateCodec codec_;
  bool own_moves_;  // of Colossal-AI alone
  std::map<std::tuple<int, int, AxisSet>, double> packed_most_;
  std::map<std::tuple<int, Axes, Axes>, double> permuted_;
  /// Parts of packed dims, by dim, pattern, its axes, those with sums beside, corner, backward.
  std::map<std::tuple<int, int, AxisSet, AxisSet, std::size_t, bool>, HeldPart> packed_parts_;
  struct Received {
    double forward, backward;  // elements of the dims that a move touches, on the busiest rank
  };
  struct MoveHash {
    std::size_t operator()(const std::pair<SearchState, SearchState>& move) const {
      return SearchStateHash{}(move.first) * 31 + SearchStateHash{}(move.second);
    }
  };
  std::unordered_map<std::pair<SearchState, SearchState>, Received, MoveHash> packed_moves_;

  AxisLink fastest_;
  std::vector<Coordinate> corners_;              // two ranks
  std::vector<std::vector<IndexRange>> wanted_;  // of `to`, by corner and plain dim

  // The node at hand.
  SearchState state_;
  Numbered<Axes> lists_;   // of plain dims
  Numbered<double> most_;  // elements of each dim on the busiest rank
  double local_ = 1;       // their product
  std::vector<SearchEdge> edges_;
};

}  // namespace trainyard
