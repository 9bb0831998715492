#include "engine/planner/search_cuts.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

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
  Search(const Graph& graph, Numbered<OpId> pieces, const CutSearch& search,
         const EvaluateCuts& evaluate)
      : graph_(graph),
        pieces_(std::move(pieces)),
        search_(search),
        evaluate_(evaluate) {}

  const std::optional<EvaluatedCuts>& step() const { return found_; }
  int evaluations() const { return evaluations_; }
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

  /// Whether it is the best so far.
  bool try_cuts(const Begins& begins) {
    if (!ascends(begins) || spent() || !tried_.insert(begins).second) return false;
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

  bool improve_by(std::int64_t step) {
    for (std::size_t cut = 0; cut < best_.size(); ++cut) {
      for (const bool later : {false, true}) {
        for (const std::size_t end : {cut + 1, best_.size()}) {
          Begins moved = best_;
          for (std::size_t i = cut; i < end; ++i) moved[i] += later ? step : -step;
          if (try_cuts(moved)) return true;
        }
      }
    }
    return false;
  }

  const Graph& graph_;
  const Numbered<OpId> pieces_;
  const CutSearch& search_;
  const EvaluateCuts& evaluate_;
  std::set<Begins> tried_;
  int evaluations_ = 0;
  Begins best_;
  std::optional<EvaluatedCuts> found_;
};

std::string reason_for(const SearchedCuts& found, bool spent) {
  std::string text = "search: a step of " + duration_text(found.step.period);
  if (found.bound > 0) {
    text += format(", %.1f %% above what kernels alone allow",
                   100 * (found.step.period / found.bound - 1));
  }
  text += "; " + std::to_string(found.evaluations);
  if (found.all_tried) {
    text += " ways to cut, all there are";
  } else {
    text += spent ? " ways to cut tried, as many as the budget has"
                  : " ways to cut tried, no move helps any more";
  }
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
  Search found(graph, std::move(pieces), search, evaluate);
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
  out.bound = step_bound(profile, search);
  out.reason = reason_for(out, found.spent());
  return out;
}

}  // namespace trainyard
