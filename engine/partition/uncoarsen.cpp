#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "engine/base/sort_unique.h"
#include "engine/partition/atom_groups.h"

namespace trainyard {

namespace {

/// Groups of all levels, from which groups of the level below go over to others.
class Boundaries {
 public:
  Boundaries(const AtomGraph& graph, std::vector<GroupLevel> levels)
      : graph_(graph),
        levels_(std::move(levels)),
        atoms_(levels_.size()),
        group_(levels_.size()),
        place_(levels_.size()) {
    std::vector<std::size_t> group(graph.size());
    std::iota(group.begin(), group.end(), 0);
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      atoms_[level].resize(levels_[level].groups.size());
      for (std::size_t atom = 0; atom < graph.size(); ++atom) {
        if (level > 0) group[atom] = levels_[level - 1].parent[group[atom]];
        atoms_[level][group[atom]].push_back(atom);
      }
      group_[level] = group;
      place_[level].resize(atoms_[level].size());
      std::iota(place_[level].begin(), place_[level].end(), 0);
    }
    order_ = place_;  // levels number their groups in order
    crossings_.resize(levels_.size());
    for (std::size_t level = 1; level < levels_.size(); ++level) count_crossings(level);
  }

  /// Moves halves of pairs of `level`, which are the children of groups above that have two.
  void adjust(std::size_t level, std::vector<BlockMove>& moves) {
    std::vector<std::vector<std::size_t>> children(levels_[level + 1].groups.size());
    const std::vector<std::size_t>& parent = levels_[level].parent;
    for (std::size_t group = 0; group < parent.size(); ++group)
      children[parent[group]].push_back(group);
    for (const std::vector<std::size_t>& pair : children) {
      if (pair.size() == 2) move_best(level, pair, moves);
    }
  }

  const std::vector<std::size_t>& group_of_atom() const { return group_.back(); }

 private:
  /// Readers of values by group, at one level.
  struct Crossings {
    std::unordered_map<std::uint64_t, std::size_t> readers;  // [key(value, group)]
    std::vector<std::size_t> groups;                         // [value]: that read it
    double sent = 0;                                         // bytes

    static std::uint64_t key(std::size_t value, std::size_t group) {
      return (std::uint64_t{value} << 32) | group;
    }
    std::size_t readers_in(std::size_t value, std::size_t group) const {
      const auto at = readers.find(key(value, group));
      return at == readers.end() ? 0 : at->second;
    }
  };

  void count_crossings(std::size_t level) {
    Crossings& out = crossings_[level];
    out.groups.assign(graph_.values().size(), 0);
    for (std::size_t v = 0; v < graph_.values().size(); ++v) {
      const AtomGraph::Value& value = graph_.values()[v];
      for (const std::size_t reader : value.readers) {
        if (out.readers[Crossings::key(v, group_[level][reader])]++ == 0) ++out.groups[v];
      }
      const bool at_home = out.readers_in(v, group_[level][value.producer]) > 0;
      out.sent += value.bytes * static_cast<double>(out.groups[v] - (at_home ? 1 : 0));
    }
  }

  using Touched =
      std::vector<std::pair<std::size_t, std::size_t>>;  // values, and how many read them

  struct Choice {
    double gain = 0;
    std::size_t group = 0, to = 0;
  };

  void move_best(std::size_t level, const std::vector<std::size_t>& pair,
                 std::vector<BlockMove>& moves) {
    std::vector<Choice> choices;
    for (const std::size_t group : pair) {
      const std::size_t from = levels_[level].parent[group];
      const Touched values = touched(atoms_[level][group]);
      for (const std::size_t to : beside(level + 1, from)) {
        const double gain = gain_of(level + 1, atoms_[level][group], values, from, to);
        if (gain > 0) choices.push_back({gain, group, to});
      }
    }
    std::ranges::stable_sort(choices,
                             [](const Choice& a, const Choice& b) { return a.gain > b.gain; });
    for (const Choice& choice : choices) {
      if (!allowed(level, choice)) continue;
      const double before = crossings_[level + 1].sent;
      const std::vector<std::size_t> atoms = atoms_[level][choice.group];
      move(level, choice);
      BlockMove done{level, {}, before, before - choice.gain};
      for (const std::size_t atom : atoms) done.tasks.push_back(graph_.task_of(atom));
      moves.push_back(std::move(done));
      return;
    }
  }

  /// Groups that `group` sends values to or has values from, ascending.
  std::vector<std::size_t> beside(std::size_t level, std::size_t group) const {
    std::vector<std::size_t> out;
    for (const std::size_t atom : atoms_[level][group]) {
      for (const std::size_t v : graph_.values_at(atom)) {
        const AtomGraph::Value& value = graph_.values()[v];
        const auto add = [&](std::size_t other) {
          if (group_[level][other] != group) out.push_back(group_[level][other]);
        };
        add(value.producer);
        if (value.producer != atom) continue;
        for (const std::size_t reader : value.readers) add(reader);
      }
    }
    sort_unique(out);
    return out;
  }

  /// How much less groups of `level` send once `atoms` are in the group `to`, not in `from`.
  double gain_of(std::size_t level, const std::vector<std::size_t>& atoms, const Touched& values,
                 std::size_t from, std::size_t to) const {
    if (from == to) return 0;
    double gain = 0;
    for (const auto& [v, readers] : values) {
      const AtomGraph::Value& value = graph_.values()[v];
      const Crossings& now = crossings_[level];
      const std::size_t in_from = now.readers_in(v, from), in_to = now.readers_in(v, to);
      const std::size_t maker = group_[level][value.producer];
      const std::size_t makes = std::ranges::binary_search(atoms, value.producer) ? to : maker;
      // Groups with readers, before and after; the one that makes it is not sent it.
      const std::size_t before = now.groups[v] - (now.readers_in(v, maker) > 0 ? 1 : 0);
      const std::size_t left = in_from - readers, joined = in_to + readers;
      const std::size_t groups =
          now.groups[v] - (in_from > 0 && left == 0 ? 1 : 0) + (in_to == 0 && joined > 0 ? 1 : 0);
      const std::size_t with_maker =
          makes == from ? left : (makes == to ? joined : now.readers_in(v, makes));
      const std::size_t after = groups - (with_maker > 0 ? 1 : 0);
      gain += value.bytes * (static_cast<double>(before) - static_cast<double>(after));
    }
    return gain;
  }

  /// The values that `atoms` make or read, each with how many of them read it.
  Touched touched(const std::vector<std::size_t>& atoms) const {
    std::vector<std::size_t> values;
    for (const std::size_t atom : atoms)
      values.insert(values.end(), graph_.values_at(atom).begin(), graph_.values_at(atom).end());
    std::ranges::sort(values);
    Touched out;
    for (const std::size_t v : values) {
      if (out.empty() || out.back().first != v) out.emplace_back(v, 0);
      ++out.back().second;
    }
    for (auto& [v, times] : out) {
      if (std::ranges::binary_search(atoms, graph_.values()[v].producer)) --times;
    }
    return out;
  }

  /// The group of `level` that the group of a level below is in.
  std::size_t above(std::size_t from, std::size_t group, std::size_t level) const {
    for (; from < level; ++from) group = levels_[from].parent[group];
    return group;
  }

  bool allowed(std::size_t level, const Choice& choice) {
    const std::vector<std::size_t>& atoms = atoms_[level][choice.group];
    const std::size_t top = levels_.size() - 1;
    if (gain_of(top, atoms, touched(atoms), above(level, choice.group, top),
                above(level + 1, choice.to, top)) < 0)
      return false;
    for (std::size_t at = level + 1; at <= top; ++at) {
      const std::size_t from = above(level, choice.group, at);
      const std::size_t to = above(level + 1, choice.to, at);
      if (from == to) return true;  // from here on nothing changes
      const AtomGroup grown =
          graph_.merged(levels_[at].groups[to], levels_[level].groups[choice.group]);
      if (!graph_.fits(grown) || waits_for_itself(at, atoms, to)) return false;
    }
    return true;
  }

  /// The places of a level between which its order is no longer one with `atoms` in `to`.
  struct Window {
    std::size_t first = 0, last = 0;
    bool none = true;
  };
  Window window(std::size_t level, const std::vector<std::size_t>& atoms, std::size_t to) const {
    const std::vector<std::size_t>& place = place_[level];
    Window out{place[to], place[to], true};
    const auto look = [&](std::size_t atom, bool before) {
      if (std::ranges::binary_search(atoms, atom)) return;
      const std::size_t at = place[group_[level][atom]];
      out.none = out.none && (before ? at <= place[to] : at >= place[to]);
      if (before)
        out.last = std::max(out.last, at);
      else
        out.first = std::min(out.first, at);
    };
    for (const std::size_t atom : atoms) {
      for (const std::size_t later : graph_.after(atom)) look(later, false);
      for (const std::size_t v : graph_.values_at(atom)) {
        const std::size_t maker = graph_.values()[v].producer;
        if (maker != atom) look(maker, true);
      }
    }
    return out;
  }

  /// Whether some group of `level` would wait for itself with `atoms` of `from` in `to`: then a way
  /// leads out of `to` and back, through groups that are not placed behind all that lead there.
  bool waits_for_itself(std::size_t level, const std::vector<std::size_t>& atoms,
                        std::size_t to) const {
    const Window within = window(level, atoms, to);
    if (within.none) return false;
    std::vector<bool> moved(graph_.size(), false), seen(levels_[level].groups.size(), false);
    for (const std::size_t atom : atoms) moved[atom] = true;
    std::vector<std::size_t> open = {to};
    bool back = false;
    const auto go_on = [&](std::size_t atom, std::size_t group) {
      for (const std::size_t later : graph_.after(atom)) {
        const std::size_t next = moved[later] ? to : group_[level][later];
        if (next == group) continue;
        if (next == to) back = true;
        if (next == to || seen[next] || place_[level][next] > within.last) continue;
        seen[next] = true;
        open.push_back(next);
      }
    };
    while (!open.empty() && !back) {
      const std::size_t group = open.back();
      open.pop_back();
      for (const std::size_t atom : atoms_[level][group]) {
        if (!moved[atom]) go_on(atom, group);
      }
      if (group != to) continue;
      for (const std::size_t atom : atoms) go_on(atom, to);
    }
    return back;
  }

  /// Gives the groups in these places of a level an order in which they can run.
  void order_again(std::size_t level, const Window& within) {
    std::vector<std::size_t>& place = place_[level];
    const auto inside = [&](std::size_t group) {
      return place[group] >= within.first && place[group] <= within.last;
    };
    const std::vector<std::size_t> groups(
        order_[level].begin() + static_cast<std::ptrdiff_t>(within.first),
        order_[level].begin() + static_cast<std::ptrdiff_t>(within.last) + 1);
    waits_for_.resize(place.size(), 0);
    const auto each_later = [&](std::size_t group, const auto& visit) {
      for (const std::size_t atom : atoms_[level][group]) {
        for (const std::size_t later : graph_.after(atom)) {
          const std::size_t next = group_[level][later];
          if (next != group && inside(next)) visit(next);
        }
      }
    };
    for (const std::size_t group : groups)
      each_later(group, [&](std::size_t next) { ++waits_for_[next]; });
    std::vector<std::size_t> sorted;
    for (const std::size_t group : groups) {
      if (waits_for_[group] == 0) sorted.push_back(group);
    }
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      each_later(sorted[i], [&](std::size_t next) {
        if (--waits_for_[next] == 0) sorted.push_back(next);
      });
    }
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      order_[level][within.first + i] = sorted[i];
      place[sorted[i]] = within.first + i;
    }
  }

  void move(std::size_t level, const Choice& choice) {
    const std::vector<std::size_t> atoms = atoms_[level][choice.group];
    const Touched values = touched(atoms);
    for (std::size_t at = level + 1; at < levels_.size(); ++at) {
      const std::size_t from = above(level, choice.group, at);
      const std::size_t to = above(level + 1, choice.to, at);
      if (from == to) break;
      const Window within = window(at, atoms, to);
      crossings_[at].sent -= gain_of(at, atoms, values, from, to);
      move_readers(crossings_[at], values, from, to);
      std::vector<std::size_t> rest, grown;
      std::ranges::set_difference(atoms_[at][from], atoms, std::back_inserter(rest));
      std::ranges::set_union(atoms_[at][to], atoms, std::back_inserter(grown));
      atoms_[at][from] = std::move(rest);
      atoms_[at][to] = std::move(grown);
      for (const std::size_t atom : atoms) group_[at][atom] = to;
      if (!within.none) order_again(at, within);
      for (const std::size_t changed : {from, to}) recount(at, changed);
    }
    levels_[level].parent[choice.group] = choice.to;
  }
  static void move_readers(Crossings& crossings, const Touched& values, std::size_t from,
                           std::size_t to) {
    for (const auto& [v, readers] : values) {
      if (readers == 0) continue;
      std::size_t& joined = crossings.readers[Crossings::key(v, to)];
      if (joined == 0) ++crossings.groups[v];
      joined += readers;
      const auto left = crossings.readers.find(Crossings::key(v, from));
      left->second -= readers;
      if (left->second > 0) continue;
      crossings.readers.erase(left);
      --crossings.groups[v];
    }
  }
  void recount(std::size_t level, std::size_t group) {
    const TaskBlock block = graph_.block_of(atoms_[level][group]);
    AtomGroup& counted = levels_[level].groups[group];
    counted.cost = block.cost;
    counted.constants.clear();
    std::vector<std::size_t> own;
    for (const std::size_t atom : atoms_[level][group]) own.push_back(graph_.task_of(atom));
    std::ranges::sort(own);
    std::ranges::set_difference(block.tasks, own, std::back_inserter(counted.constants));
  }

  const AtomGraph& graph_;
  std::vector<GroupLevel> levels_;
  std::vector<std::vector<std::vector<std::size_t>>> atoms_;  // [level][group], ascending
  std::vector<std::vector<std::size_t>> group_;               // [level][atom]
  std::vector<std::vector<std::size_t>> place_,
      order_;                           // [level]: an order in which groups can run
  std::vector<std::size_t> waits_for_;  // [group], zero in between
  std::vector<Crossings> crossings_;    // [level], but for atoms'
};

}  // namespace

std::vector<std::size_t> uncoarsen(const AtomGraph& graph, std::vector<GroupLevel> levels,
                                   std::vector<BlockMove>& moves) {
  const std::size_t num_levels = levels.size();
  Boundaries boundaries(graph, std::move(levels));
  for (std::size_t level = num_levels - 1; level-- > 0;) boundaries.adjust(level, moves);
  return boundaries.group_of_atom();
}

}  // namespace trainyard
