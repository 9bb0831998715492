#include "engine/planner/search_cuts.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/partition/stage_partition.h"
#include "engine/planner/choose_cuts.h"

namespace trainyard {

namespace {

/// The piece that each stage but the first begins with, ascending and not 0.
using Begins = std::vector<std::int64_t>;

/// Less is better.
bool is_better(const EvaluatedCuts& a, const EvaluatedCuts& b) {
  return std::tie(a.excess, a.period) < std::tie(b.excess, b.period);
}

class Search {
 public:
  Search(const Graph& graph, const Indexed<OpId, OpProfile>& profile, Numbered<OpId> pieces,
         const CutSearch& search, const EvaluateCuts& evaluate)
      : graph_(graph),
        pieces_(std::move(pieces)),
        search_(search),
        evaluate_(evaluate) {
    Seconds before = 0;
    auto piece = pieces_.begin();
    for (const OpId op : profile.keys()) {
      for (; piece != pieces_.end() && *piece <= op; ++piece) before_.push_back(before);
      before += profile[op].forward + profile[op].backward;
    }
    before_.front() = 0;
    before_.push_back(before);
  }

  const std::optional<EvaluatedCuts>& step() const { return found_; }
  int evaluations() const { return evaluations_; }
  int ruled_out() const { return ruled_out_; }
  std::vector<StageCut> cuts() const { return cuts_of(best_); }

  /// The number of ways to cut, as far as it is at most `most`.
  bool has_at_most(std::int64_t most) const {
    double ways = 1;
    for (int i = 1; i < search_.num_stages; ++i)
      ways *= static_cast<double>(std::ssize(pieces_) - i) / i;
    return std::round(ways) <= static_cast<double>(most);
  }

  void try_all() {
    Begins begins;
    try_from(begins, 1);
  }

  void try_start(const std::vector<StageCut>& cuts) {
    Begins begins;
    for (const StageCut& cut : cuts) {
      const OpId op = op_of_cut(graph_, cut);
      // A start may cut where no op computes: then with the next one that does.
      begins.push_back(std::lower_bound(pieces_.begin(), pieces_.end(), op) - pieces_.begin());
    }
    try_cuts(begins);
  }

  void improve() {
    std::int64_t step =
        std::max<std::int64_t>(1, std::ssize(pieces_) / (std::int64_t{2} * search_.num_stages));
    while (step > 0 && !spent()) {
      if (!improve_by(step)) step /= 2;
    }
  }

  bool spent() const { return evaluations_ >= search_.budget; }

 private:
  std::vector<StageCut> cuts_of(const Begins& begins) const {
    std::vector<StageCut> cuts;
    for (const std::int64_t piece : begins) cuts.push_back(cut_at(graph_, pieces_[piece]).value());
    return cuts;
  }

  bool ascends(const Begins& begins) const {
    std::int64_t before = 0;
    for (const std::int64_t piece : begins) {
      if (piece <= before || piece >= std::ssize(pieces_)) return false;
      before = piece;
    }
    return true;
  }

  bool cannot_win(const Begins& begins) const {
    if (!found_ || found_->excess > 0) return false;
    if (!search_.one_stage_per_rank || search_.num_microbatches == 0) return false;
    std::vector<Seconds> stages;
    std::int64_t first = 0;
    for (const std::int64_t begin : begins)
      stages.push_back(before_[begin] - before_[std::exchange(first, begin)]);
    stages.push_back(before_[std::ssize(pieces_)] - before_[first]);
    return stages_bound(stages, search_.num_microbatches) >= found_->period;
  }

  /// Whether it is the best so far.
  bool try_cuts(const Begins& begins) {
    if (!ascends(begins) || spent() || !tried_.insert(begins).second) return false;
    if (cannot_win(begins)) {
      ++ruled_out_;
      return false;
    }
    ++evaluations_;
    const auto step = evaluate_(cuts_of(begins));
    if (!step || (found_ && !is_better(*step, *found_))) return false;
    found_ = step;
    best_ = begins;
    return true;
  }

  void try_from(Begins& begins, std::int64_t piece) {
    if (std::ssize(begins) + 1 == search_.num_stages) {
      try_cuts(begins);
      return;
    }
    const std::int64_t more = search_.num_stages - 2 - std::ssize(begins);  // behind this one
    for (; piece + more < std::ssize(pieces_) && !spent(); ++piece) {
      begins.push_back(piece);
      try_from(begins, piece + 1);
      begins.pop_back();
    }
  }

  /// Moves take their turns, from the one that helped last on.
  bool improve_by(std::int64_t step) {
    const std::size_t moves = 4 * best_.size();
    for (std::size_t i = 0; i < moves; ++i) {
      const std::size_t move = (next_move_ + i) % moves, cut = move / 4;
      const bool later = move / 2 % 2 == 1, alone = move % 2 == 0;
      Begins moved = best_;
      for (std::size_t c = cut; c < (alone ? cut + 1 : best_.size()); ++c)
        moved[c] += later ? step : -step;
      if (!try_cuts(moved)) continue;
      next_move_ = move;
      return true;
    }
    return false;
  }

  const Graph& graph_;
  const Numbered<OpId> pieces_;
  const CutSearch& search_;
  const EvaluateCuts& evaluate_;
  Numbered<Seconds> before_;  // [piece] of all kernels before it; behind the last: of all
  std::set<Begins> tried_;
  int evaluations_ = 0, ruled_out_ = 0;
  std::size_t next_move_ = 0;
  Begins best_;
  std::optional<EvaluatedCuts> found_;
};

std::string reason_for(const SearchedCuts& found, bool spent) {
  std::string text = "search: a step of " + duration_text(found.step.period);
  if (found.bound > 0) {
    text += format(", %.1f %% above what kernels alone allow",
                   100 * (found.step.period / found.bound - 1));
  }
  text += "; " + std::to_string(found.evaluations + found.ruled_out) + " ways to cut";
  if (found.all_tried) {
    text += ", all there are";
  } else {
    text += spent ? " tried, as many as the budget has" : " tried, no move helps any more";
  }
  if (found.ruled_out > 0)
    text += "; " + std::to_string(found.ruled_out) + " of them by kernels alone";
  if (found.step.excess > 0) text += "; none that was tried fits the memory";
  return text;
}

}  // namespace

Seconds step_bound(const Indexed<OpId, OpProfile>& profile, const CutSearch& search) {
  Seconds all = 0, longest = 0;
  for (const OpProfile& op : profile) {
    all += op.forward + op.backward;
    longest = std::max(longest, op.forward + op.backward);
  }
  const double m = search.num_microbatches;
  if (m == 0) return 0;
  const auto p = static_cast<double>(search.num_ranks);
  const Seconds shared =
      search.one_stage_per_rank ? all / (1 - std::pow(1 - 1 / m, p)) : std::max(all, m * all / p);
  return std::max(shared, m * longest);
}

Seconds stages_bound(const std::vector<Seconds>& stages, double num_microbatches) {
  Seconds most = 0, before = 0;
  for (const Seconds stage : stages) {
    most = std::max(most, num_microbatches * stage + before);
    before += stage;
  }
  return most;
}

std::variant<SearchedCuts, Infeasible> search_cuts(const Graph& graph,
                                                   const Indexed<OpId, OpProfile>& profile,
                                                   const CutSearch& search,
                                                   const EvaluateCuts& evaluate) {
  Numbered<OpId> pieces = pieces_between(graph, profile, PartitionConfig::Between::kOps);
  if (std::ssize(pieces) < search.num_stages) {
    return Infeasible{"the model has " + std::to_string(pieces.size()) +
                          " ops that a stage could begin with for " +
                          std::to_string(search.num_stages) + " stages",
                      "partition"};
  }
  Search found(graph, profile, std::move(pieces), search, evaluate);
  SearchedCuts out;
  out.all_tried = found.has_at_most(search.budget);
  if (out.all_tried) {
    found.try_all();
  } else {
    for (const auto& start : search.starts) found.try_start(start);
    if (found.step()) found.improve();
  }
  if (!found.step()) return Infeasible{"search: no cuts lead to a Program", "partition"};
  out.cuts = found.cuts();
  out.step = *found.step();
  out.evaluations = found.evaluations();
  out.ruled_out = found.ruled_out();
  out.bound = step_bound(profile, search);
  out.reason = reason_for(out, found.spent());
  return out;
}

}  // namespace trainyard
