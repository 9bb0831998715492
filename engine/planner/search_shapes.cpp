#include "engine/planner/search_shapes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace trainyard {

namespace {

/// n over k, as far as doubles have it.
double binomial(std::int64_t n, std::int64_t k) {
  double out = 1;
  for (std::int64_t i = 1; i <= k; ++i)
    out *= static_cast<double>(n - k + i) / static_cast<double>(i);
  return out;
}

constexpr int kMostInVain = 4;  // starts from which moves led to nothing faster

class ShapeSearch {
 public:
  ShapeSearch(const ShapeSpace& space, const EvaluateShape& evaluate)
      : space_(space),
        evaluate_(evaluate) {}

  std::variant<SearchedShape, Infeasible> run() {
    for (const PipelineShape& start : space_.starts)
      out_.starts.push_back(step_of(start, best_step_));
    out_.all_tried = can_try_all();
    if (out_.all_tried)
      try_all();
    else
      improve_starts();
    if (!best_) return Infeasible{"no pipeline that was tried fits", "partition"};
    out_.shape = *best_;
    out_.step = best_step_;
    out_.spent = spent();
    out_.ruled_out = static_cast<int>(ruled_out_.size());
    out_.best_of_degrees = ranked();
    return std::move(out_);
  }

 private:
  bool spent() const { return out_.evaluations >= space_.budget; }

  std::int64_t stages_of(const PipelineShape& shape) const { return std::ssize(shape.replicas); }

  bool is_possible(const PipelineShape& shape) const {
    std::int64_t before = 0;
    for (const std::int64_t begin : shape.begins) {
      if (begin <= before || begin >= space_.pieces) return false;
      before = begin;
    }
    const bool aware = shape.recompute == ShapeRecompute::kStageAware;
    // Every replica has a sequence of each microbatch.
    const std::int64_t most = *std::max_element(shape.replicas.begin(), shape.replicas.end());
    return shape.microbatches >= 1 && shape.microbatches * most <= space_.batch &&
           !(aware && stages_of(shape) == 1);
  }

  /// nullopt also: it was tried before, or nothing more may be, or it takes no less than `most`.
  std::optional<Seconds> step_of(const PipelineShape& shape, Seconds most) {
    if (!is_possible(shape) || spent() || tried_.contains(shape)) return std::nullopt;
    if (space_.bound(shape) >= most) {
      ruled_out_.insert(shape);
      return std::nullopt;
    }
    tried_.insert(shape);
    ruled_out_.erase(shape);
    ++out_.evaluations;
    const auto step = evaluate_(shape);
    if (!step) return step;
    if (!best_ || *step < best_step_) {
      best_ = shape;
      best_step_ = *step;
    }
    const auto [at, is_new] = best_of_.try_emplace(degrees_of(shape), *step, shape);
    if (!is_new && *step < at->second.first) at->second = {*step, shape};
    return step;
  }

  static PipelineShape degrees_of(PipelineShape shape) {
    shape.begins.clear();
    return shape;
  }

  /// Stable, as the map is ordered.
  std::vector<std::pair<Seconds, PipelineShape>> ranked() const {
    std::vector<std::pair<Seconds, PipelineShape>> out;
    for (const auto& [degrees, best] : best_of_) out.push_back(best);
    std::ranges::stable_sort(out, {}, &std::pair<Seconds, PipelineShape>::first);
    return out;
  }

  // --- all of them ---

  std::vector<std::int64_t> microbatch_counts() const {
    std::vector<std::int64_t> out;
    for (std::int64_t count = 1; count <= space_.batch; count *= 2) out.push_back(count);
    return out;
  }

  std::int64_t most_stages() const { return std::min<std::int64_t>(space_.pieces, space_.devices); }

  bool can_try_all() const {
    if (!space_.stages || !space_.replicas || !space_.microbatches) return false;
    double shapes = 0;
    for (std::int64_t stages = 1; stages <= most_stages(); ++stages) {
      shapes += binomial(space_.pieces - 1, stages - 1) * binomial(space_.devices - 1, stages - 1);
      if (shapes > space_.budget) return false;
    }
    shapes *= static_cast<double>(microbatch_counts().size() * space_.recompute.size());
    return std::round(shapes) + static_cast<double>(space_.starts.size()) <= space_.budget;
  }

  void try_all() {
    for (std::int64_t stages = 1; stages <= most_stages(); ++stages) {
      PipelineShape shape;
      try_cuts(shape, stages, 1);
    }
  }

  void try_cuts(PipelineShape& shape, std::int64_t stages, std::int64_t first) {
    if (std::ssize(shape.begins) + 1 == stages) return try_replicas(shape, stages, space_.devices);
    for (std::int64_t piece = first; piece < space_.pieces; ++piece) {
      shape.begins.push_back(piece);
      try_cuts(shape, stages, piece + 1);
      shape.begins.pop_back();
    }
  }

  void try_replicas(PipelineShape& shape, std::int64_t stages, int left) {
    const std::int64_t more = stages - std::ssize(shape.replicas);
    if (more == 0) {
      for (shape.microbatches = 1; shape.microbatches <= space_.batch; shape.microbatches *= 2) {
        for (const ShapeRecompute one : space_.recompute) {
          shape.recompute = one;
          step_of(shape, best_step_);
        }
      }
      return;
    }
    for (int count = more == 1 ? left : 1; count + more - 1 <= left; ++count) {
      shape.replicas.push_back(count);
      try_replicas(shape, stages, left - count);
      shape.replicas.pop_back();
    }
  }

  // --- moves ---

  void improve_starts() {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < out_.starts.size(); ++i) {
      if (out_.starts[i]) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return *out_.starts[a] < *out_.starts[b];
    });
    int in_vain = 0;
    for (const std::size_t start : order) {
      const Seconds before = best_step_;
      improve(space_.starts[start], *out_.starts[start]);
      in_vain = best_step_ < before ? 0 : in_vain + 1;
      if (in_vain == kMostInVain) return;
    }
  }

  void improve(PipelineShape shape, Seconds step) {
    next_move_ = 0;
    std::int64_t by = std::max<std::int64_t>(1, space_.pieces / (2 * stages_of(shape)));
    while (by > 0 && !spent()) {
      if (!move(shape, step, by)) by /= 2;
    }
  }

  /// Whether one of its neighbours is faster, which it then is.
  bool move(PipelineShape& shape, Seconds& step, std::int64_t by) {
    // In turn, from where the last one was that helped.
    std::vector<PipelineShape> all = neighbours(shape, by);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t at = (next_move_ + i) % all.size();
      const auto found = step_of(all[at], step);
      if (!found || *found >= step) continue;
      shape = std::move(all[at]);
      step = *found;
      next_move_ = at;
      return true;
    }
    return false;
  }

  std::vector<PipelineShape> neighbours(const PipelineShape& shape, std::int64_t by) const {
    std::vector<PipelineShape> out;
    for (const ShapeRecompute one : space_.recompute) {
      if (one != shape.recompute) out.emplace_back(shape).recompute = one;
    }
    if (space_.microbatches) {
      out.emplace_back(shape).microbatches *= 2;
      out.emplace_back(shape).microbatches /= 2;
    }
    if (space_.stages) add_merged(shape, out);
    if (space_.stages && space_.replicas) add_split(shape, out);
    if (space_.replicas) add_handed(shape, out);
    for (std::size_t cut = 0; cut < shape.begins.size(); ++cut) {
      for (const bool later : {false, true}) {
        for (const std::size_t end : {cut + 1, shape.begins.size()}) {
          PipelineShape& next = out.emplace_back(shape);
          for (std::size_t i = cut; i < end; ++i) next.begins[i] += later ? by : -by;
        }
      }
    }
    return out;
  }

  void with_half(const PipelineShape& shape, bool twice, std::vector<PipelineShape>& out) const {
    out.push_back(shape);
    if (!space_.microbatches) return;
    PipelineShape& next = out.emplace_back(shape);
    next.microbatches = twice ? next.microbatches * 2 : next.microbatches / 2;
  }

  void add_merged(const PipelineShape& shape, std::vector<PipelineShape>& out) const {
    if (!space_.replicas) return;
    for (std::size_t s = 0; s < shape.begins.size(); ++s) {
      PipelineShape next = shape;
      const auto at = static_cast<std::ptrdiff_t>(s);
      next.begins.erase(next.begins.begin() + at);
      next.replicas[s] += next.replicas[s + 1];
      next.replicas.erase(next.replicas.begin() + at + 1);
      with_half(next, false, out);
    }
  }

  void add_split(const PipelineShape& shape, std::vector<PipelineShape>& out) const {
    for (std::size_t s = 0; s < shape.replicas.size(); ++s) {
      const std::int64_t first = s == 0 ? 0 : shape.begins[s - 1];
      const std::int64_t end = s < shape.begins.size() ? shape.begins[s] : space_.pieces;
      if (shape.replicas[s] < 2 || end - first < 2) continue;
      PipelineShape next = shape;
      const auto at = static_cast<std::ptrdiff_t>(s);
      next.begins.insert(next.begins.begin() + at, (first + end) / 2);
      next.replicas[s] /= 2;
      next.replicas.insert(next.replicas.begin() + at + 1, shape.replicas[s] - next.replicas[s]);
      with_half(next, true, out);
    }
  }

  /// Each stage has work by its devices, as nearly as pieces have it, and a piece at least.
  std::vector<std::int64_t> begins_by_work(const std::vector<int>& replicas) const {
    const Seconds all = std::accumulate(space_.work.begin(), space_.work.end(), 0.0);
    std::vector<std::int64_t> out;
    std::int64_t piece = 0, devices = 0;
    Seconds before = 0;
    for (auto it = replicas.begin(); it + 1 != replicas.end(); ++it) {
      devices += *it;
      const Seconds wanted = all * static_cast<double>(devices) / space_.devices;
      const auto work = space_.work.begin() + static_cast<std::ptrdiff_t>(piece);
      for (auto next = work; next != space_.work.end(); ++next) {
        const bool first = next == work;
        if (!first && before + *next / 2 > wanted) break;
        before += *next;
        ++piece;
      }
      out.push_back(piece);
    }
    return out;
  }

  /// Devices from one stage to another; of many stages to a neighbour.
  void add_handed(const PipelineShape& shape, std::vector<PipelineShape>& out) const {
    constexpr std::ptrdiff_t kFew = 6;
    const std::ptrdiff_t stages = std::ssize(shape.replicas);
    for (std::ptrdiff_t from = 0; from < stages; ++from) {
      for (std::ptrdiff_t to = 0; to < stages; ++to) {
        const bool near = std::abs(from - to) == 1;
        if (from == to || (stages > kFew && !near)) continue;
        const int there = *(shape.replicas.begin() + from);
        for (const int count : {1, there / 2}) {
          if (count < 1 || count >= there) continue;
          PipelineShape next = shape;
          *(next.replicas.begin() + from) -= count;
          *(next.replicas.begin() + to) += count;
          out.push_back(next);
          if (space_.work.empty()) continue;
          next.begins = begins_by_work(next.replicas);
          out.push_back(std::move(next));
        }
      }
    }
  }

  const ShapeSpace& space_;
  const EvaluateShape& evaluate_;
  std::set<PipelineShape> tried_, ruled_out_;
  std::map<PipelineShape, std::pair<Seconds, PipelineShape>> best_of_;  // [degrees]
  std::optional<PipelineShape> best_;
  Seconds best_step_ = std::numeric_limits<double>::infinity();
  std::size_t next_move_ = 0;
  SearchedShape out_;
};

}  // namespace

std::variant<SearchedShape, Infeasible> search_shapes(const ShapeSpace& space,
                                                      const EvaluateShape& evaluate) {
  return ShapeSearch(space, evaluate).run();
}

}  // namespace trainyard
