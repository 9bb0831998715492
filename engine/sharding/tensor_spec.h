// What each rank of a mesh holds of one tensor's global value.
//
// Per axis of the mesh a tensor is in one state:
//   S split       each rank has its piece of one dim        gradient: S, the same piece
//   R replicated  all have the same value, to the last bit  gradient: R, computed by each alike
//   E entered     all have the same value                   gradient: P, each has one summand of it
//   P partial     summands (or candidates for a maximum)    gradient: E
//   H@k held      only coordinate k has it                  gradient: H@k
// P and E change places in the gradient's spec (JAX calls the pair unreduced and reduced). Where no
// gradient flows (ids, masks, statistics), E and R are one and written R; maxima are for such
// values only. spec_boxes.h says which elements a rank holds, spec_text.h how a spec is written.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/sharding/device_mesh.h"

namespace trainyard {

using Extents = Numbered<std::int64_t>;  // of a tensor's dims, in elements
inline constexpr std::int64_t kMostExtent = std::int64_t{1} << 40;
inline constexpr std::int64_t kLateExtent = -1;  // B, the rows of a microbatch: bound late

enum class AxisState : std::uint8_t { kSplit, kReplicated, kEntered, kPartial, kHeld };
constexpr char letter(AxisState state) { return "SREPH"[static_cast<int>(state)]; }
constexpr AxisState dual(AxisState state) {
  return state == AxisState::kEntered   ? AxisState::kPartial
         : state == AxisState::kPartial ? AxisState::kEntered
                                        : state;
}

/// A run of a dim's elements (q of a packed q|k|v) that is cut by itself: `count` pieces of `unit`
/// elements go to the ranks of `axes` axis by axis; of n pieces over k ranks the first n mod k get
/// one more.
struct DimPart {
  std::int64_t count = 0;  // 0: a dim of one part, as many as it has
  std::int64_t unit = 1;   // elements per piece
  Axes axes;               // ordered; empty: not cut
  bool reversed = false;   // coordinate c has what k-1-c would have
  friend bool operator==(const DimPart&, const DimPart&) = default;
};

struct DimSplit {
  boost::container::small_vector<DimPart, 1> parts{DimPart{}};  // at least one
  /// Cut the local dim as its parts leave it, axis by axis in chunks of ceil(n / k). All parts have
  /// the same axes then.
  Axes after;
  friend bool operator==(const DimSplit&, const DimSplit&) = default;
};

struct Held {
  AxisId axis;
  std::int32_t coordinate;  // < the axis' size
  friend bool operator==(const Held&, const Held&) = default;
};

/// States beside a packed dim hold for the parts that the axis does not split.
struct TensorSpec {
  boost::container::small_vector<DimSplit, 4> dims;
  AxisSet partial = 0;
  AxisSet entered = 0;
  bool maximum = false;    // what `partial` ranks hold are candidates
  std::vector<Held> held;  // ascending by axis
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// Whole on every rank.
TensorSpec replicated_spec(std::size_t num_dims);

/// The spec of the gradient: P and E change places. dual(dual(s)) = s. Not for maxima.
TensorSpec dual(const TensorSpec& spec);

DimSplit split_over(const Axes& axes);  // a dim of one part
bool is_split(const DimSplit& dim);     // by any axis
bool is_packed(const DimSplit& dim);    // of several parts, or cut again behind them
AxisSet axes_in(const DimSplit& dim);   // that cut any part, or behind the parts
AxisSet axes_of_all_parts(const DimSplit& dim);

/// The dim that the axis cuts, a part of it at least.
std::optional<int> dim_of(const TensorSpec& spec, AxisId axis);
bool splits_everything(const TensorSpec& spec, AxisId axis);
/// The state of whatever the axis does not split.
AxisState state_beside(const TensorSpec& spec, AxisId axis);
std::optional<std::int32_t> holder(const TensorSpec& spec, AxisId axis);  // k of H@k
/// Puts the axis into R, E, P or H@k, for all that it does not split.
void set_state(TensorSpec& spec, AxisId axis, AxisState state, std::int32_t coordinate = 0);

/// What is wrong with a spec of a tensor of these extents; nullopt: nothing.
std::optional<std::string> spec_problem(const TensorSpec& spec, const Extents& extents,
                                        const DeviceMesh& mesh);

}  // namespace trainyard
