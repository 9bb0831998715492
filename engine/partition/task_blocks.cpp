#include "engine/partition/task_blocks.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <set>

#include "engine/partition/atom_groups.h"

namespace trainyard {

namespace {

/// The groups that have atoms, in an order in which they can run; of those that can, the one with
/// the lowest atom first.
std::vector<std::vector<std::size_t>> groups_in_order(const AtomGraph& graph,
                                                      const std::vector<std::size_t>& group_of) {
  std::vector<std::vector<std::size_t>> atoms(graph.size());
  for (std::size_t atom = 0; atom < graph.size(); ++atom) atoms[group_of[atom]].push_back(atom);
  std::vector<std::vector<std::size_t>> after(graph.size());
  std::vector<std::size_t> waits_for(graph.size(), 0);
  for (std::size_t group = 0; group < graph.size(); ++group) {
    for (const std::size_t atom : atoms[group]) {
      for (const std::size_t later : graph.after(atom)) {
        if (group_of[later] != group) after[group].push_back(group_of[later]);
      }
    }
    for (const std::size_t later : after[group]) ++waits_for[later];
  }
  using Place = std::pair<std::size_t, std::size_t>;  // lowest atom, group
  std::priority_queue<Place, std::vector<Place>, std::greater<>> ready;
  for (std::size_t group = 0; group < graph.size(); ++group) {
    if (!atoms[group].empty() && waits_for[group] == 0) ready.emplace(atoms[group].front(), group);
  }
  std::vector<std::vector<std::size_t>> out;
  while (!ready.empty()) {
    const std::size_t group = ready.top().second;
    ready.pop();
    for (const std::size_t later : after[group]) {
      if (--waits_for[later] == 0) ready.emplace(atoms[later].front(), later);
    }
    out.push_back(std::move(atoms[group]));
  }
  return out;
}

/// Merges neighbours in `lists` until there are `count`, or memory allows no more; how many merges.
std::size_t compact(const AtomGraph& graph, std::size_t count,
                    std::vector<std::vector<std::size_t>>& lists) {
  std::vector<AtomGroup> groups;
  for (const std::vector<std::size_t>& atoms : lists) {
    AtomGroup group = graph.group_of(atoms.front());
    for (std::size_t a = 1; a < atoms.size(); ++a)
      group = graph.merged(group, graph.group_of(atoms[a]));
    groups.push_back(std::move(group));
  }
  const std::size_t n = lists.size();
  std::vector<std::size_t> next(n + 1), previous(n + 1);  // of n: the ends
  for (std::size_t i = 0; i <= n; ++i) {
    next[i] = i == n ? 0 : i + 1;
    previous[i] = i == 0 ? n : i - 1;
  }
  std::set<std::pair<double, std::size_t>> by_time;
  for (std::size_t i = 0; i < n; ++i) by_time.emplace(groups[i].cost.time(), i);
  std::size_t left = n;
  while (left > count && !by_time.empty()) {
    const std::size_t v = by_time.begin()->second;
    by_time.erase(by_time.begin());
    std::vector<std::pair<double, std::size_t>> beside;
    for (const std::size_t w : {previous[v], next[v]}) {
      if (w == n) continue;
      const AtomGroup both = graph.merged(groups[v], groups[w]);
      if (graph.fits(both)) beside.emplace_back(groups[w].cost.time(), w);
    }
    if (beside.empty()) continue;  // neighbours may still take each other's
    const std::size_t w = std::ranges::min(beside).second;
    by_time.erase({groups[w].cost.time(), w});
    groups[w] = graph.merged(groups[v], groups[w]);
    lists[w].insert(lists[w].end(), lists[v].begin(), lists[v].end());
    lists[v].clear();
    next[previous[v]] = next[v];
    previous[next[v]] = previous[v];
    by_time.emplace(groups[w].cost.time(), w);
    --left;
  }
  std::erase_if(lists, [](const std::vector<std::size_t>& atoms) { return atoms.empty(); });
  return n - left;
}

}  // namespace

TaskBlocks atoms_as_blocks(const TaskGraph& graph, const std::vector<TaskAtom>& atoms) {
  TaskBlocks out;
  const BlockOptions any;
  const AtomGraph between(graph, atoms, any);
  for (std::size_t atom = 0; atom < atoms.size(); ++atom)
    out.blocks.push_back(between.block_of({atom}));
  out.levels = {atoms.size()};
  return out;
}

TaskBlocks blocks_of(const TaskGraph& graph, const std::vector<TaskAtom>& atoms,
                     const BlockOptions& options) {
  TaskBlocks out;
  if (atoms.empty()) return out;
  const AtomGraph between(graph, atoms, options);
  std::vector<GroupLevel> levels = coarsen(between, options.count);
  for (const GroupLevel& level : levels) out.levels.push_back(level.groups.size());
  std::vector<std::size_t> group_of(atoms.size());
  std::iota(group_of.begin(), group_of.end(), 0);
  if (options.uncoarsen) {
    group_of = uncoarsen(between, std::move(levels), out.moves);
  } else {
    for (const GroupLevel& level : levels) {
      for (std::size_t& group : group_of)
        group = level.parent.empty() ? group : level.parent[group];
    }
  }
  std::vector<std::vector<std::size_t>> lists = groups_in_order(between, group_of);
  out.compacted = compact(between, options.count, lists);
  for (const std::vector<std::size_t>& list : lists) out.blocks.push_back(between.block_of(list));
  return out;
}

}  // namespace trainyard
