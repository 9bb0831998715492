#include "tests/support/sharded_tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "engine/sharding/spec_boxes.h"
#include "engine/sharding/spec_text.h"

namespace trainyard {

namespace {

/// Extents of what the rank holds; of nothing: all 0.
Extents local_extents(const TensorSpec& spec, const Extents& extents, const DeviceMesh& mesh,
                      const Coordinate& coordinate) {
  Extents local(extents.size(), 0);
  if (const auto ranges = local_ranges(spec, extents, mesh, coordinate)) {
    for (std::size_t d = 0; d < extents.size(); ++d) {
      for (const IndexRange& range : (*ranges)[d]) local[d] += range.size();
    }
  }
  return local;
}

using Kind = PlantedError::Kind;

std::size_t product(const Extents& extents) {
  std::size_t elements = 1;
  for (const std::int64_t extent : extents) elements *= static_cast<std::size_t>(extent);
  return elements;
}

/// Places in the global tensor of what the rank holds, in local order.
std::vector<std::size_t> places(const TensorSpec& spec, const Extents& extents,
                                const DeviceMesh& mesh, std::int64_t rank) {
  const auto ranges = local_ranges(spec, extents, mesh, coordinate_of(mesh, rank));
  if (!ranges) return {};
  std::vector<std::size_t> out = {0};
  for (std::size_t d = 0; d < extents.size(); ++d) {
    std::vector<std::size_t> longer;
    for (const std::size_t place : out) {
      for (const IndexRange& range : (*ranges)[d]) {
        for (std::int64_t i = range.begin; i < range.end; ++i)
          longer.push_back(place * static_cast<std::size_t>(extents[d]) +
                           static_cast<std::size_t>(i));
      }
    }
    out = std::move(longer);
  }
  return out;
}

/// Per rank the value at each place that it holds.
using HeldValues = std::vector<std::map<std::size_t, double>>;
HeldValues held_values(const ShardedTensor& tensor, const TensorSpec& as, const DeviceMesh& mesh) {
  HeldValues out;
  for (std::int64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
    const auto at = places(as, tensor.extents, mesh, rank);
    const auto& data = tensor.local[static_cast<std::size_t>(rank)].data;
    auto& values = out.emplace_back();
    for (std::size_t i = 0; i < std::min(at.size(), data.size()); ++i) values[at[i]] = data[i];
  }
  return out;
}

/// Whether `axes` split the part of the tensor that has the element at `place`.
bool splits(const TensorSpec& spec, const Extents& extents, const Axes& axes, std::size_t place) {
  for (std::size_t d = extents.size(); d-- > 0;) {
    const auto i = static_cast<std::int64_t>(place % static_cast<std::size_t>(extents[d]));
    place /= static_cast<std::size_t>(extents[d]);
    std::int64_t end = 0;
    for (const DimPart& part : spec.dims[d].parts) {
      end += part.count == 0 ? extents[d] : part.count * part.unit;
      if (i >= end) continue;
      if (has(set_of(part.axes), axes.front()) || has(set_of(spec.dims[d].after), axes.front()))
        return true;
      break;
    }
  }
  return false;
}

/// The state along the axes of the element at `place`.
AxisState state_at(const TensorSpec& spec, const Extents& extents, const Axes& axes,
                   std::size_t place) {
  return splits(spec, extents, axes, place) ? AxisState::kSplit : state_beside(spec, axes.front());
}

/// How a gather that makes the planted mistake sees the pieces.
TensorSpec misread(const TensorSpec& spec, const Extents& extents, const Move& move, Kind kind) {
  TensorSpec out = spec;
  if (move.from_dim < 0) return out;
  DimSplit& dim = out.dims[static_cast<std::size_t>(move.from_dim)];
  if (kind == Kind::kAxesSwapped && move.axes.size() > 1) {
    for (DimPart& part : dim.parts) std::reverse(part.axes.begin(), part.axes.end());
  } else if (kind == Kind::kPartsIgnored && dim.parts.size() > 1) {
    dim = split_over(dim.parts.front().axes);
  } else if (kind == Kind::kCountsSwapped && dim.parts.size() == 1 &&
             dim.parts.front().axes.size() == 1) {
    // Reversed, the last rank has what the first had: the same ranks in order get the other sizes.
    DimPart& part = dim.parts.front();
    part.count = part.count == 0 ? extents[static_cast<std::size_t>(move.from_dim)] : part.count;
    part.reversed = !part.reversed;
  }
  return out;
}

double reduced(const HeldValues& held, const std::vector<std::int64_t>& group, std::size_t place,
               bool maximum) {
  double value = maximum ? -std::numeric_limits<double>::infinity() : 0;
  for (const std::int64_t member : group) {
    const auto& values = held[static_cast<std::size_t>(member)];
    const auto at = values.find(place);
    if (at == values.end()) continue;
    value = maximum ? std::max(value, at->second) : value + at->second;
  }
  return value;
}

/// One move between two specs, as collective `kind` over the axes' groups does it.
ShardedTensor one_move(const ShardedTensor& tensor, const Move& move, MoveKind kind,
                       const TensorSpec& after, bool backward, const DeviceMesh& mesh,
                       PlantedError& planted) {
  const bool gathers = kind == MoveKind::kAllGather;
  const TensorSpec as =
      gathers ? misread(tensor.spec, tensor.extents, move, planted.kind) : tensor.spec;
  const HeldValues held = held_values(tensor, as, mesh);
  const bool maximum = tensor.spec.maximum && planted.kind != Kind::kMaximumSummed;
  ShardedTensor out = sharded_zeros(after, tensor.extents, mesh);
  const bool exchanges = kind == MoveKind::kPermutation || kind == MoveKind::kAllToAll;
  for (std::int64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const auto at = places(after, tensor.extents, mesh, rank);
    for (std::size_t i = 0; i < at.size(); ++i) {
      // Parts are moved each by itself: over those axes whose state changes for them.
      Axes axes;
      for (const AxisId axis : move.axes) {
        if (exchanges || state_at(tensor.spec, tensor.extents, {axis}, at[i]) !=
                             state_at(after, tensor.extents, {axis}, at[i]))
          axes.push_back(axis);
      }
      auto group = group_of(mesh, axes, rank);
      const bool first = group.front() == rank;
      if (kind == MoveKind::kAllReduce && planted.kind == Kind::kMissingAllReduce) group = {rank};
      if (kind == MoveKind::kAllReduce && planted.kind == Kind::kOneOfTwoAxes && backward &&
          axes.size() > 1)
        group = group_of(mesh, {axes.front()}, rank);
      const auto own = held[r].find(at[i]);
      const bool has_own = own != held[r].end();
      double value = has_own ? own->second : 0;
      if (axes.empty()) {
        // A part that the move leaves as it is.
      } else if (reduces(kind)) {
        value = reduced(held, group, at[i], maximum);
        if (planted.kind == Kind::kAllReduceTwice && kind == MoveKind::kAllReduce)
          value *= static_cast<double>(group.size());
      } else if (kind == MoveKind::kKeepOnOne) {
        value = first || tensor.spec.maximum || after.maximum ? value : 0;
      } else if (communicates(kind) && !has_own) {
        for (const std::int64_t member : group) {
          const auto& values = held[static_cast<std::size_t>(member)];
          if (const auto there = values.find(at[i]); there != values.end()) value = there->second;
        }
      } else if (!has_own && after.maximum) {
        value = -std::numeric_limits<double>::infinity();
      }
      out.local[r].data[i] = value;
    }
  }
  return out;
}

/// Notes whether the mistake made a difference.
ShardedTensor one_planted_move(const ShardedTensor& tensor, const Move& move, MoveKind kind,
                               const TensorSpec& after, bool backward, const DeviceMesh& mesh,
                               PlantedError& planted) {
  ShardedTensor out = one_move(tensor, move, kind, after, backward, mesh, planted);
  if (planted.kind == Kind::kNone || planted.kind == Kind::kBiasOnEveryPartial) return out;
  PlantedError none;
  const ShardedTensor right = one_move(tensor, move, kind, after, backward, mesh, none);
  for (std::size_t r = 0; r < out.local.size(); ++r) {
    for (std::size_t i = 0; i < out.local[r].data.size(); ++i) {
      const double off = std::abs(out.local[r].data[i] - right.local[r].data[i]);
      planted.done = planted.done || off > 1e-6;
    }
  }
  return out;
}

}  // namespace

DenseTensor zeros(const Extents& extents) {
  return {extents, std::vector<double>(product(extents), 0.0)};
}

DenseTensor random_tensor(Random& random, const Extents& extents) {
  DenseTensor out = zeros(extents);
  std::uniform_real_distribution<double> value(-1, 1);
  for (double& one : out.data) one = value(random);
  return out;
}

ShardedTensor sharded_zeros(const TensorSpec& spec, const Extents& extents,
                            const DeviceMesh& mesh) {
  ShardedTensor out{spec, extents, {}};
  for (std::int64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
    const Coordinate coordinate = coordinate_of(mesh, rank);
    DenseTensor local = {local_extents(spec, extents, mesh, coordinate), {}};
    local.data.assign(static_cast<std::size_t>(local_elements(spec, extents, mesh, coordinate)),
                      0.0);
    out.local.push_back(std::move(local));
  }
  return out;
}

ShardedTensor distribute(Random& random, const DenseTensor& tensor, const TensorSpec& spec,
                         const DeviceMesh& mesh) {
  ShardedTensor out = sharded_zeros(spec, tensor.extents, mesh);
  std::uniform_real_distribution<double> value(-1, 1);
  const Axes summed = axes_of(spec.partial);
  // Summands are one for all ranks that differ along other axes alone: drawn once.
  std::map<std::pair<std::size_t, std::int64_t>, double> drawn;
  for (std::int64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
    const auto at = places(spec, tensor.extents, mesh, rank);
    for (std::size_t i = 0; i < at.size(); ++i) {
      Axes axes;
      for (const AxisId axis : summed) {
        if (!splits(spec, tensor.extents, {axis}, at[i])) axes.push_back(axis);
      }
      const auto summand = [&](std::int64_t member) {
        const auto [there, made] = drawn.try_emplace({at[i], member}, 0);
        if (made) there->second = value(random);
        return there->second;
      };
      // Members of the group by their place in it.
      const auto group = group_of(mesh, axes, rank);
      const auto own = std::find(group.begin(), group.end(), rank) - group.begin();
      const auto last = static_cast<std::int64_t>(group.size()) - 1;
      double here = tensor.data[at[i]];
      if (spec.maximum && own != 0) here -= std::abs(summand(own)) + 0.1;
      if (!spec.maximum && own < last) here = summand(own);
      for (std::int64_t member = 0; !spec.maximum && own == last && member < last; ++member)
        here -= summand(member);
      out.local[static_cast<std::size_t>(rank)].data[i] = here;
    }
  }
  return out;
}

DenseTensor gather(const ShardedTensor& tensor, const DeviceMesh& mesh, std::string& problem,
                   double tolerance) {
  DenseTensor out = zeros(tensor.extents);
  const HeldValues held = held_values(tensor, tensor.spec, mesh);
  std::vector<bool> seen(out.data.size(), false);
  for (std::int64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
    for (const auto& [place, one] : held[static_cast<std::size_t>(rank)]) {
      Axes axes;
      for (const AxisId axis : axes_of(tensor.spec.partial)) {
        if (!splits(tensor.spec, tensor.extents, {axis}, place)) axes.push_back(axis);
      }
      const double value =
          axes.empty() ? one
                       : reduced(held, group_of(mesh, axes, rank), place, tensor.spec.maximum);
      if (seen[place] && !(std::abs(out.data[place] - value) <= tolerance))
        problem = "copies differ in " + to_text(tensor.spec, mesh);
      out.data[place] = value;
      seen[place] = true;
    }
  }
  if (std::count(seen.begin(), seen.end(), false) > 0)
    problem = "nobody has some of " + to_text(tensor.spec, mesh);
  return out;
}

ShardedTensor moved(const ShardedTensor& tensor, const Redistribution& path, const DeviceMesh& mesh,
                    PlantedError& planted) {
  ShardedTensor out = tensor;
  for (const RedistributionStep& step : path.steps)
    out =
        one_planted_move(out, step.move, forward_kind(step.move), step.after, false, mesh, planted);
  return out;
}

ShardedTensor moved_back(const ShardedTensor& gradient, const Redistribution& path,
                         const DeviceMesh& mesh, PlantedError& planted) {
  ShardedTensor out = gradient;
  for (std::size_t i = path.steps.size(); i-- > 0;) {
    const TensorSpec before = dual(i == 0 ? path.from : path.steps[i - 1].after);
    Move back = path.steps[i].move;
    const MoveKind kind = backward_kind(back);
    std::swap(back.from_dim, back.to_dim);
    out = one_planted_move(out, back, kind, before, true, mesh, planted);
  }
  return out;
}

}  // namespace trainyard
