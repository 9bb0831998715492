#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/sort_unique.h"
#include "engine/partition/atom_groups.h"

namespace trainyard {

namespace {

constexpr std::size_t kNone = kOutside;

/// Groups of one level while pairs of them are merged. Places are an order in which they can run;
/// two groups may be merged where no third is on a way between them.
class Contraction {
 public:
  Contraction(const AtomGraph& graph, const std::vector<std::size_t>& group_of_atom,
              std::size_t num_groups)
      : after_(num_groups),
        before_(num_groups),
        first_(num_groups),
        members_(num_groups) {
    for (std::size_t atom = 0; atom < graph.size(); ++atom) {
      for (const std::size_t later : graph.after(atom)) {
        const std::size_t from = group_of_atom[atom], to = group_of_atom[later];
        if (from != to) after_[from].push_back(to);
      }
    }
    for (std::size_t from = 0; from < num_groups; ++from) {
      sort_unique(after_[from]);
      for (const std::size_t to : after_[from]) before_[to].push_back(from);
    }
    std::iota(first_.begin(), first_.end(), 0);
    at_ = first_;
    order_ = first_;
    mark_.assign(num_groups, 0);
    for (std::size_t group = 0; group < num_groups; ++group) members_[group] = {group};
  }

  const std::vector<std::size_t>& after(std::size_t group) const { return after_[group]; }
  const std::vector<std::size_t>& before(std::size_t group) const { return before_[group]; }

  /// Merges two neighbours, none of which has been merged; false: a third is between them.
  bool merge(std::size_t v, std::size_t w) {
    if (at_[v] > at_[w]) std::swap(v, w);
    const std::size_t begin = at_[v], end = at_[w];
    if (only(after_[v], w)) {
      order_[begin] = kNone;
    } else if (only(before_[w], v)) {
      order_[end] = kNone;
      order_[begin] = w;
      at_[w] = begin;
    } else if (!mark_between(v, w)) {
      return false;
    } else {
      reorder(begin, end, w);
    }
    first_[v] = w;
    members_[w].push_back(v);
    return true;
  }

  /// Groups in order, those of a pair as one.
  std::vector<std::vector<std::size_t>> in_order() const {
    std::vector<std::vector<std::size_t>> out;
    for (const std::size_t group : order_) {
      if (group != kNone) out.push_back(members_[group]);
    }
    return out;
  }

 private:
  bool only(const std::vector<std::size_t>& groups, std::size_t group) const {
    return std::ranges::all_of(groups, [&](std::size_t g) { return first_[g] == first_[group]; });
  }

  /// Marks what comes behind v in front of w's place; false: w comes behind some of it.
  bool mark_between(std::size_t v, std::size_t w) {
    ++stamp_;
    const std::size_t end = at_[w];
    std::vector<std::size_t> open = {v};
    while (!open.empty()) {
      const std::size_t group = open.back();
      open.pop_back();
      for (const std::size_t member : members_[group]) {
        for (const std::size_t next_member : after_[member]) {
          const std::size_t next = first_[next_member];
          if (next == w && group != v) return false;
          if (next == w || at_[next] > end || mark_[next] == stamp_) continue;
          mark_[next] = stamp_;
          open.push_back(next);
        }
      }
    }
    return true;
  }

  /// What is marked in [begin, end] goes behind `merged`, the rest in front of it.
  void reorder(std::size_t begin, std::size_t end, std::size_t merged) {
    std::vector<std::size_t> front, behind;
    for (std::size_t place = begin + 1; place < end; ++place) {
      const std::size_t group = order_[place];
      if (group == kNone) continue;
      (mark_[group] == stamp_ ? behind : front).push_back(group);
    }
    front.push_back(merged);
    front.insert(front.end(), behind.begin(), behind.end());
    for (std::size_t place = begin; place <= end; ++place) {
      const std::size_t i = place - begin;
      order_[place] = i < front.size() ? front[i] : kNone;
      if (i < front.size()) at_[front[i]] = place;
    }
  }

  std::vector<std::vector<std::size_t>> after_, before_;
  std::vector<std::size_t> first_;  // the group that stands for it
  std::vector<std::vector<std::size_t>> members_;
  std::vector<std::size_t> at_, order_;
  std::vector<std::size_t> mark_;
  std::size_t stamp_ = 0;
};

/// The next level, and where the groups of this one go; false: no two can be merged.
bool next_level(const AtomGraph& graph, std::size_t least, std::vector<std::size_t>& group_of_atom,
                GroupLevel& level, GroupLevel& next) {
  const std::size_t n = level.groups.size();
  Contraction contraction(graph, group_of_atom, n);
  std::vector<std::size_t> by_time(n);
  std::iota(by_time.begin(), by_time.end(), 0);
  std::ranges::stable_sort(by_time, {}, [&](std::size_t g) { return level.groups[g].cost.time(); });
  std::vector<bool> taken(n, false);
  std::size_t count = n;
  for (const std::size_t v : by_time) {
    if (count <= least) break;
    if (taken[v]) continue;
    std::vector<std::pair<double, std::size_t>> choices;
    for (const auto* beside : {&contraction.before(v), &contraction.after(v)}) {
      for (const std::size_t w : *beside) {
        if (taken[w]) continue;
        const AtomGroup both = graph.merged(level.groups[v], level.groups[w]);
        if (graph.fits(both)) choices.emplace_back(both.cost.time(), w);
      }
    }
    std::ranges::sort(choices);
    for (const auto& [time, w] : choices) {
      if (!contraction.merge(v, w)) continue;
      taken[v] = taken[w] = true;
      --count;
      break;
    }
  }
  if (count == n) return false;
  level.parent.assign(n, 0);
  for (const std::vector<std::size_t>& members : contraction.in_order()) {
    AtomGroup group = level.groups[members.front()];
    for (std::size_t m = 1; m < members.size(); ++m)
      group = graph.merged(group, level.groups[members[m]]);
    for (const std::size_t member : members) level.parent[member] = next.groups.size();
    next.groups.push_back(std::move(group));
  }
  for (std::size_t& group : group_of_atom) group = level.parent[group];
  return true;
}

}  // namespace

std::vector<GroupLevel> coarsen(const AtomGraph& graph, std::size_t least) {
  std::vector<GroupLevel> levels(1);
  for (std::size_t atom = 0; atom < graph.size(); ++atom)
    levels.front().groups.push_back(graph.group_of(atom));
  std::vector<std::size_t> group_of_atom(graph.size());
  std::iota(group_of_atom.begin(), group_of_atom.end(), 0);
  while (levels.back().groups.size() > least) {
    GroupLevel next;
    if (!next_level(graph, least, group_of_atom, levels.back(), next)) break;
    levels.push_back(std::move(next));
  }
  return levels;
}

}  // namespace trainyard
