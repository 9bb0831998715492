#include "engine/sharding/search_state.h"

#include <algorithm>

#include "engine/sharding/normal_form.h"

namespace trainyard {

namespace {

bool is_plain(const DimSplit& dim) {
  return !is_packed(dim) && dim.parts.front().count == 0 && !dim.parts.front().reversed;
}

bool begins_with(const Axes& list, const Axes& prefix) {
  return prefix.size() <= list.size() && std::equal(prefix.begin(), prefix.end(), list.begin());
}

/// Whether each list of `shorter` is the beginning of that of `longer`, where its axes end.
bool begins(const DimSplit& shorter, const DimSplit& longer) {
  if (shorter.parts.size() != longer.parts.size() || !begins_with(longer.after, shorter.after))
    return false;
  for (std::size_t p = 0; p < shorter.parts.size(); ++p) {
    const Axes& list = shorter.parts[p].axes;
    if (!begins_with(longer.parts[p].axes, list)) return false;
    // Chunks behind the parts are cut when the parts are.
    if (!shorter.after.empty() && list != longer.parts[p].axes) return false;
  }
  return true;
}

}  // namespace

StateCodec::StateCodec(const TensorSpec& from, const TensorSpec& to, const Extents& extents,
                       const DeviceMesh& mesh)
    : from_(from),
      to_(to),
      extents_(extents),
      mesh_(mesh) {
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const bool packed = !is_plain(from.dims[d]) || !is_plain(to.dims[d]);
    packed_.push_back(packed);
    any_packed_ = any_packed_ || packed;
    frozen_.push_back(packed && from.dims[d] == to.dims[d]);
    if (!packed && extents[d] < mesh.num_ranks()) short_.push_back(static_cast<int>(d));
  }
}

SearchState StateCodec::encode(const TensorSpec& spec, int pattern) const {
  SearchState state;
  for (const AxisId axis : mesh_.axis_ids()) {
    std::uint8_t& code = state.axes[axis];
    switch (state_beside(spec, axis)) {
      case AxisState::kEntered: code = kCodeE; break;
      case AxisState::kPartial: code = kCodeP; break;
      case AxisState::kHeld: code = pattern == 0 ? kCodeFromHolder : kCodeToHolder; break;
      default: code = kCodeR;
    }
    const auto dim = dim_of(spec, axis);
    if (!dim) continue;
    const DimSplit& split = spec.dims.begin()[*dim];
    if (packed(*dim)) {
      const int beside = splits_everything(spec, axis) ? 0 : code;
      code = split_code(*dim, (frozen(*dim) ? 0 : pattern) * 4 + beside);
    } else {
      const Axes& list = split.parts.front().axes;
      code = split_code(*dim,
                        static_cast<int>(std::find(list.begin(), list.end(), axis) - list.begin()));
    }
  }
  return normal(state);
}

AxisSet StateCodec::axes_in(const SearchState& state, int dim, int which) const {
  AxisSet set = 0;
  for (const AxisId axis : mesh_.axis_ids()) {
    const std::uint8_t code = state.axes[axis];
    if (is_split_code(code) && dim_of_code(code) == dim && pattern_of_code(code) == which)
      set = static_cast<AxisSet>(set | bit(axis));
  }
  return set;
}

DimSplit StateCodec::restricted(int dim, int which, AxisSet axes) const {
  DimSplit out = pattern(dim, which);
  const auto keep = [&](Axes& list) {
    list.erase(
        std::remove_if(list.begin(), list.end(), [&](AxisId axis) { return !has(axes, axis); }),
        list.end());
  };
  for (DimPart& part : out.parts) keep(part.axes);
  keep(out.after);
  return out;
}

void StateCodec::sort_behind_single(SearchState& state, int dim) const {
  Axes list(mesh_.num_axes(), -1);
  std::size_t length = 0;
  for (const AxisId axis : mesh_.axis_ids()) {
    const std::uint8_t code = state.axes[axis];
    if (!is_split_code(code) || dim_of_code(code) != dim) continue;
    list.begin()[place_of_code(code)] = axis;
    ++length;
  }
  std::int64_t pieces = extents_[dim];
  std::size_t place = 0;
  for (; place < length && pieces > 1; ++place)
    pieces = (pieces + mesh_.size(list[place]) - 1) / mesh_.size(list[place]);
  std::sort(list.begin() + static_cast<std::ptrdiff_t>(place),
            list.begin() + static_cast<std::ptrdiff_t>(length));
  for (; place < length; ++place)
    state.axes[list[place]] = split_code(dim, static_cast<int>(place));
}

/// Whether what is left of a dim's old pattern is the beginning of the wanted one.
bool StateCodec::begins_wanted(int dim, AxisSet left) const {
  const auto [at, made] = begins_wanted_.try_emplace({dim, left}, false);
  if (made) {
    const DimSplit now = restricted(dim, 0, left);
    at->second = begins(now, pattern(dim, 1)) &&
                 equal_ranges(now, restricted(dim, 1, left), extents_[dim], mesh_);
  }
  return at->second;
}

SearchState StateCodec::normal(SearchState state) const {
  for (const Held& held : to_.held) {
    std::uint8_t& code = state.axes[held.axis];
    if (code == kCodeToHolder && holder(from_, held.axis) == held.coordinate)
      code = kCodeFromHolder;
  }
  for (const int dim : short_) sort_behind_single(state, dim);
  for (int dim = 0; any_packed_ && dim < static_cast<int>(packed_.size()); ++dim) {
    if (!packed(dim) || frozen(dim)) continue;
    const AxisSet left = axes_in(state, dim, 0);
    if (left == 0) continue;
    if (!begins_wanted(dim, left)) continue;
    for (const AxisId axis : axes_of(left)) {
      std::uint8_t& code = state.axes[axis];
      code = split_code(dim, 4 + beside_code(code));
    }
  }
  return state;
}

TensorSpec StateCodec::decode(const SearchState& state) const {
  TensorSpec spec = replicated_spec(extents_.size());
  for (int dim = 0; dim < static_cast<int>(packed_.size()); ++dim) {
    DimSplit& split = spec.dims.begin()[dim];
    if (packed(dim)) {
      const int which = axes_in(state, dim, 0) != 0 ? 0 : 1;
      const AxisSet axes = axes_in(state, dim, which);
      if (axes != 0) split = normal_dim(restricted(dim, which, axes), extents_[dim], mesh_);
      continue;
    }
    Axes list;
    for (int place = 0; place < mesh_.num_axes(); ++place) {
      const std::uint8_t wanted = split_code(dim, place);
      for (const AxisId axis : mesh_.axis_ids()) {
        if (state.axes[axis] == wanted) list.push_back(axis);
      }
    }
    split = split_over(list);
  }
  for (const AxisId axis : mesh_.axis_ids()) {
    std::uint8_t code = state.axes[axis];
    if (is_split_code(code)) {
      if (!packed(dim_of_code(code))) continue;
      code = beside_code(code);
    }
    const auto held = holder(code == kCodeToHolder ? to_ : from_, axis);
    set_state(spec, axis, state_of_code(code), held.value_or(0));
  }
  spec.maximum = spec.partial != 0 && (from_.maximum || to_.maximum);
  return spec;
}

}  // namespace trainyard
