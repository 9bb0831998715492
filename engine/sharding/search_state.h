// One node of the search for a redistribution: the state of each axis, in a byte.
//
// A dim of one part whose pieces are elements is plain: its list is free, and a byte says where in
// it an axis stands. Any other dim is packed: it holds axes as `from` has them or as `to` has them,
// and only a packed dim's own pattern gives their order.
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/sharding/tensor_spec.h"

namespace trainyard {

struct SearchState {
  IndexedArray<std::int64_t, std::uint8_t, kMostAxes> axes{};
  friend bool operator==(const SearchState&, const SearchState&) = default;
  friend auto operator<=>(const SearchState&, const SearchState&) = default;
};

struct SearchStateHash {
  std::size_t operator()(const SearchState& state) const {
    std::uint64_t low, high;
    std::memcpy(&low, state.axes.data(), 8);
    std::memcpy(&high, state.axes.data() + 8, 8);
    std::uint64_t mixed = (low ^ (high * 0x9E3779B97F4A7C15)) * 0xFF51AFD7ED558CCD;
    return static_cast<std::size_t>(mixed ^ (mixed >> 32));
  }
};

/// Bytes of a state: R, E, P, H as `from` and as `to` has it, or S at a place of a dim.
enum AxisCode : std::uint8_t {
  kCodeR,
  kCodeE,
  kCodeP,
  kCodeFromHolder,
  kCodeToHolder,
  kCodeSplit = 8,
};
inline constexpr int kMostSearchDims = 15;  // 8 + 15 x 16 + 15 < 256 - 1

/// In a plain dim `place` is the place in the list; in a packed one pattern * 4 + the state beside
/// it (R, E or P), where pattern 0 is that of `from` and 1 that of `to`.
constexpr std::uint8_t split_code(int dim, int place) {
  return static_cast<std::uint8_t>(kCodeSplit + dim * kMostAxes + place);
}
constexpr bool is_split_code(std::uint8_t code) { return code >= kCodeSplit; }
constexpr int dim_of_code(std::uint8_t code) { return (code - kCodeSplit) / kMostAxes; }
constexpr int place_of_code(std::uint8_t code) { return (code - kCodeSplit) % kMostAxes; }
constexpr int pattern_of_code(std::uint8_t code) { return place_of_code(code) / 4; }
constexpr std::uint8_t beside_code(std::uint8_t code) {
  return static_cast<std::uint8_t>(place_of_code(code) % 4);
}

constexpr AxisState state_of_code(std::uint8_t code) {
  switch (code) {
    case kCodeR: return AxisState::kReplicated;
    case kCodeE: return AxisState::kEntered;
    case kCodeP: return AxisState::kPartial;
    case kCodeFromHolder:
    case kCodeToHolder: return AxisState::kHeld;
    default: return AxisState::kSplit;
  }
}

/// Translates between specs and states of one search.
class StateCodec {
 public:
  /// `from` and `to` in normal form, of one tensor.
  StateCodec(const TensorSpec& from, const TensorSpec& to, const Extents& extents,
             const DeviceMesh& mesh);

  SearchState encode(const TensorSpec& spec, int pattern) const;
  TensorSpec decode(const SearchState& state) const;

  bool packed(int dim) const { return packed_[dim]; }
  bool any_packed() const { return any_packed_; }
  /// Packed dims that both have alike: never touched.
  bool frozen(int dim) const { return frozen_[dim]; }
  const DimSplit& pattern(int dim, int which) const {
    return (which == 0 ? from_ : to_).dims.begin()[dim];
  }
  /// The one of equal states that stands for all: what is left of a dim's old pattern is of the new
  /// one where it is its beginning; axes behind single pieces ascend.
  SearchState normal(SearchState state) const;
  /// Axes that state `state` has in packed dim `dim`, by pattern.
  AxisSet axes_in(const SearchState& state, int dim, int which) const;
  /// `dim` with those axes of its pattern alone.
  DimSplit restricted(int dim, int which, AxisSet axes) const;

 private:
  bool begins_wanted(int dim, AxisSet left) const;
  TensorSpec from_, to_;
  Extents extents_;
  const DeviceMesh& mesh_;
  void sort_behind_single(SearchState& state, int dim) const;

  Numbered<bool> packed_, frozen_;
  std::vector<int> short_;  // plain dims that axes may cut into single elements
  bool any_packed_ = false;
  mutable std::map<std::pair<int, AxisSet>, bool> begins_wanted_;  // what was asked
};

}  // namespace trainyard
