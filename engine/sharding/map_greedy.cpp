#include "engine/sharding/map_greedy.h"

#include <algorithm>

namespace trainyard {

namespace {

constexpr int kGatherCost = 20;
constexpr int kSplit = 5;
constexpr int kStep = 6;
constexpr int kMostSteps = 20;

Axes& list_of(TensorSpec& spec, std::size_t dim) { return spec.dims[dim].parts.front().axes; }
const Axes& list_of(const TensorSpec& spec, std::size_t dim) {
  return spec.dims[dim].parts.front().axes;
}

void add_gathers(const TensorSpec& spec, std::vector<RedistributionStep>& steps) {
  for (std::size_t d = 0; d < spec.dims.size(); ++d) {
    if (list_of(spec, d).empty()) continue;
    TensorSpec after = spec;
    const AxisId axis = list_of(spec, d).back();
    list_of(after, d).pop_back();
    steps.push_back(
        {{AxisState::kSplit, AxisState::kReplicated, {axis}, static_cast<std::int8_t>(d), -1, 0},
         after});
  }
}

void add_exchanges(const TensorSpec& spec, std::vector<RedistributionStep>& steps) {
  for (std::size_t first = 0; first < spec.dims.size(); ++first) {
    for (std::size_t second = first + 1; second < spec.dims.size(); ++second) {
      const Axes& a = list_of(spec, first);
      const Axes& b = list_of(spec, second);
      if ((a.empty() && b.empty()) || a.size() > 1 || b.size() > 1) continue;
      // To the first dim, unless only that is split.
      const std::size_t from = b.empty() ? first : second;
      const std::size_t to = b.empty() ? second : first;
      const AxisId axis = list_of(spec, from).front();
      if (!list_of(spec, to).empty() && list_of(spec, to).back() > axis) continue;
      TensorSpec after = spec;
      list_of(after, from).clear();
      list_of(after, to).push_back(axis);
      steps.push_back({{AxisState::kSplit,
                        AxisState::kSplit,
                        {axis},
                        static_cast<std::int8_t>(from),
                        static_cast<std::int8_t>(to),
                        0},
                       after});
    }
  }
}

void add_splits(const TensorSpec& spec, const DeviceMesh& mesh,
                std::vector<RedistributionStep>& steps) {
  for (std::size_t d = 0; d < spec.dims.size(); ++d) {
    for (const AxisId axis : mesh.axis_ids()) {
      const Axes& list = list_of(spec, d);
      if (dim_of(spec, axis) || (!list.empty() && list.back() > axis)) continue;
      TensorSpec after = spec;
      list_of(after, d).push_back(axis);
      steps.push_back(
          {{AxisState::kReplicated, AxisState::kSplit, {axis}, -1, static_cast<std::int8_t>(d), 0},
           after});
    }
  }
}

bool is_known(const TensorSpec& spec) {
  bool known = spec.partial == 0 && spec.entered == 0 && spec.held.empty();
  for (const DimSplit& dim : spec.dims) {
    const DimPart& part = dim.parts.front();
    known = known && !is_packed(dim) && part.count == 0 && !part.reversed &&
            std::is_sorted(part.axes.begin(), part.axes.end());
  }
  return known;
}

}  // namespace

std::vector<RedistributionStep> colossal_steps(const TensorSpec& spec, const DeviceMesh& mesh) {
  std::vector<RedistributionStep> steps;
  add_gathers(spec, steps);
  add_exchanges(spec, steps);
  add_splits(spec, mesh, steps);
  return steps;
}

int dim_difference(const Axes& from, const Axes& to) {
  const auto common = std::mismatch(from.begin(), from.end(), to.begin(), to.end()).first;
  const auto kept = static_cast<int>(common - from.begin());
  const int gathers = static_cast<int>(from.size()) - kept;
  const int splits = static_cast<int>(to.size()) - kept;
  return kGatherCost * gathers + kSplit * splits + kStep * std::max(0, gathers + splits - 1);
}

std::variant<Redistribution, Infeasible> greedy_redistribution(const TensorSpec& from,
                                                               const TensorSpec& to,
                                                               const DeviceMesh& mesh) {
  if (mesh.num_axes() > 2) return Infeasible{"MAP's greedy search knows meshes of two axes"};
  if (!is_known(from) || !is_known(to) || from.dims.size() != to.dims.size())
    return Infeasible{"MAP's greedy search knows dims R, S0, S1 and S01, and no other state"};
  Redistribution path{from, {}};
  TensorSpec at = from;
  while (at != to) {
    if (path.steps.size() == kMostSteps)
      return Infeasible{"MAP's greedy search gave up after " + std::to_string(kMostSteps) +
                        " steps"};
    int least = -1;
    RedistributionStep nearest;
    for (const RedistributionStep& step : colossal_steps(at, mesh)) {
      int sum = 0;
      for (std::size_t d = 0; d < to.dims.size(); ++d)
        sum += dim_difference(list_of(step.after, d), list_of(to, d));
      if (least >= 0 && sum >= least) continue;
      least = sum;
      nearest = step;
    }
    if (least < 0) return Infeasible{"no move leads further"};
    at = nearest.after;
    path.steps.push_back(std::move(nearest));
  }
  return path;
}

}  // namespace trainyard
