#include "engine/partition/autopipe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>
#include <set>

#include "engine/partition/min_max_segments.h"

namespace trainyard {

namespace {

using Sizes = std::vector<std::size_t>;

constexpr std::size_t kMostDivisions = 20'000;

bool same(double a, double b) {
  return std::abs(a - b) <= 1e-12 * std::max(std::abs(a), std::abs(b));
}

class StepTime {
 public:
  StepTime(const std::vector<double>& forward, const std::vector<double>& backward,
           const Sizes& sizes)
      : stages_(sizes.size()) {
    std::size_t at = 0;
    for (const std::size_t size : sizes) {
      forward_.push_back(0);
      backward_.push_back(0);
      for (const std::size_t end = at + size; at < end; ++at) {
        forward_.back() += forward[at];
        backward_.back() += backward[at];
      }
    }
  }
  double forward(std::size_t stage) const { return forward_[stage]; }
  double backward(std::size_t stage) const { return backward_[stage]; }
  double load(std::size_t stage) const { return forward_[stage] + backward_[stage]; }

  StageSizes timed(Sizes sizes) const {
    StageSizes out{std::move(sizes), std::numeric_limits<double>::infinity(), 0, false};
    // Starts of the k-th forward and backward of a stage in the steady phase; the 0th forward is
    // before it.
    const std::size_t last_of_all = 2 * stages_ - 1;
    std::vector<std::vector<double>> f(stages_, std::vector<double>(last_of_all + 1, 0));
    std::vector<std::vector<double>> b = f;
    double start = std::accumulate(forward_.begin(), forward_.end(), 0.0);
    for (std::size_t i = stages_; i-- > 0;) {
      f[i][0] = -std::numeric_limits<double>::infinity();
      b[i][0] = start;
      start += backward_[i];
    }
    for (std::size_t k = 1; k <= last_of_all; ++k) {
      for (std::size_t i = 0; i < stages_; ++i) {
        if (k > last(i)) continue;
        f[i][k] = b[i][k - 1] + backward_[i];
        if (i > 0) f[i][k] = std::max(f[i][k], f[i - 1][k - 1] + forward_[i - 1]);
      }
      for (std::size_t i = stages_; i-- > 0;) {
        if (k > last(i)) continue;
        b[i][k] = f[i][k] + forward_[i];
        if (i + 1 < stages_) b[i][k] = std::max(b[i][k], b[i + 1][k] + backward_[i + 1]);
      }
    }
    for (std::size_t i = stages_; i-- > 0;) {
      bool busy = true;
      for (std::size_t k = 1; k <= last(i) && busy; ++k) {
        busy = same(f[i][k], b[i][k - 1] + backward_[i]) && same(b[i][k], f[i][k] + forward_[i]);
      }
      if (!busy) continue;
      out.critical = i;
      out.has_critical = true;
      out.time = cooled_down(i, f[i][last(i)]) +
                 std::accumulate(backward_.begin(),
                                 backward_.begin() + static_cast<std::ptrdiff_t>(i) + 1, 0.0);
      break;
    }
    return out;
  }

 private:
  std::size_t last(std::size_t stage) const { return stages_ + stage; }

  /// When the last backward of the critical stage begins, whose last forward begins at `start`.
  double cooled_down(std::size_t critical, double start) const {
    const std::size_t n = stages_ - critical;
    std::vector<std::vector<double>> b(n, std::vector<double>(n, 0));
    for (std::size_t i = 0; i < n; ++i) {
      start += forward_[critical + i];
      b[i][n - 1 - i] = start;
    }
    for (std::size_t column = n - 1; column-- > 0;) {
      for (std::size_t row = n - column - 1; row-- > 0;) {
        b[row][column] = std::max(b[row][column + 1] + backward_[critical + row],
                                  b[row + 1][column] + backward_[critical + row + 1]);
        if (row > 0) b[row][column] = std::max(b[row][column], b[row - 1][column + 1]);
      }
    }
    return b[0][0];
  }

  std::size_t stages_;
  std::vector<double> forward_, backward_;
};

class Search {
 public:
  Search(const std::vector<double>& forward, const std::vector<double>& backward)
      : forward_(forward),
        backward_(backward) {
    for (std::size_t i = 0; i < forward.size(); ++i) load_.push_back(forward[i] + backward[i]);
  }

  Sizes balanced(std::size_t num_blocks, std::size_t num_stages) const {
    const std::vector<double> loads(load_.begin(),
                                    load_.begin() + static_cast<std::ptrdiff_t>(num_blocks));
    Sizes sizes;
    std::size_t begin = 0;
    for (const std::size_t end : min_max_segments(loads, num_stages).ends) {
      sizes.push_back(end - begin);
      begin = end;
    }
    return sizes;
  }
  StageSizes timed(const Sizes& sizes) const {
    return StepTime(forward_, backward_, sizes).timed(sizes);
  }

  StageSizes search(std::size_t num_stages) {
    best_ = timed(balanced(load_.size(), num_stages));
    open_.push(best_.sizes);
    for (std::size_t looked = 0; !open_.empty() && looked < kMostDivisions; ++looked) {
      const StageSizes now = timed(open_.front());
      open_.pop();
      keep(now);
      if (!now.has_critical) continue;
      fill_behind(now);
      shift(now);
    }
    return best_;
  }

 private:
  void keep(const StageSizes& sizes) {
    if (sizes.time < best_.time) best_ = sizes;
  }
  void add(Sizes sizes) {
    if (seen_.insert(sizes).second) open_.push(std::move(sizes));
  }

  /// Stages behind the critical one take blocks from the stage behind them, as long as the critical
  /// stage stays.
  void fill_behind(const StageSizes& base) {
    const std::size_t critical = base.critical, stages = base.sizes.size();
    Sizes sizes = base.sizes;
    std::size_t at = critical + 1;
    double gap = 0;
    while (true) {
      const StepTime step(forward_, backward_, sizes);
      const StageSizes now = step.timed(sizes);
      if (at == stages) {
        keep(now);
        return;
      }
      if (!now.has_critical || now.critical != critical) return;
      keep(now);
      const auto room = [&](std::size_t to) {
        return static_cast<double>(to - critical) * step.backward(critical) + gap;
      };
      const auto taken = [&](std::size_t to) {
        double sum = 0;
        for (std::size_t i = critical + 1; i <= to; ++i) sum += step.load(i);
        return sum;
      };
      if (taken(at) <= room(at)) {
        ++at;
        continue;
      }
      const std::size_t into = first_with_room(step, sizes, critical, at);
      if (into == at) return;
      gap += std::max(0.0, taken(into) - room(into));
      ++sizes[into];
      --sizes[into + 1];
      at = into + 1;
    }
  }
  /// The first stage of (critical, end) that can take the next block and stay below the critical
  /// stage; `end`: none.
  std::size_t first_with_room(const StepTime& step, const Sizes& sizes, std::size_t critical,
                              std::size_t end) const {
    std::size_t next = std::accumulate(
        sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(critical) + 1, std::size_t{0});
    for (std::size_t i = critical + 1; i < end; ++i) {
      next += sizes[i];
      if (sizes[i + 1] > 1 && step.load(critical) > step.load(i) + load_[next]) return i;
    }
    return end;
  }

  /// The critical stage without its first block, those before it balanced anew; and without its
  /// last.
  void shift(const StageSizes& base) {
    const std::size_t critical = base.critical, stages = base.sizes.size();
    if (critical == 0) return;
    const std::size_t before =
        std::accumulate(base.sizes.begin(),
                        base.sizes.begin() + static_cast<std::ptrdiff_t>(critical), std::size_t{0});
    if (base.sizes[critical] == 1) return;
    const auto behind = [&](Sizes front, std::size_t from) {
      front.insert(front.end(), base.sizes.begin() + static_cast<std::ptrdiff_t>(from),
                   base.sizes.end());
      return front;
    };
    Sizes to_front = behind(balanced(before + 1, critical), critical);
    --to_front[critical];
    add(std::move(to_front));
    if (critical + 1 == stages) return;
    Sizes to_back = behind(balanced(before + base.sizes[critical] - 1, critical + 1), critical + 1);
    ++to_back[critical + 1];
    const StageSizes moved = timed(to_back);
    if (!moved.has_critical || moved.critical <= critical) add(std::move(to_back));
  }

  const std::vector<double>& forward_;
  const std::vector<double>& backward_;
  std::vector<double> load_;
  StageSizes best_;
  std::queue<Sizes> open_;
  std::set<Sizes> seen_;
};

}  // namespace

StageSizes autopipe(const std::vector<double>& forward, const std::vector<double>& backward,
                    std::size_t num_stages, AutoPipeRule rule) {
  const std::size_t count = std::min(num_stages, forward.size());
  if (count == 0) return {};
  Search search(forward, backward);
  return rule == AutoPipeRule::kExact ? search.timed(search.balanced(forward.size(), count))
                                      : search.search(count);
}

}  // namespace trainyard
