#include "engine/partition/atom_groups.h"

#include <algorithm>
#include <iterator>

#include "engine/base/sort_unique.h"

namespace trainyard {

AtomGraph::AtomGraph(const TaskGraph& graph, const std::vector<TaskAtom>& atoms,
                     const BlockOptions& options)
    : graph_(graph),
      atoms_(atoms),
      options_(options),
      values_at_(atoms.size()),
      after_(atoms.size()) {
  std::vector<std::size_t> atom_of(graph.tasks.size(), kOutside);
  for (std::size_t atom = 0; atom < atoms.size(); ++atom) atom_of[atoms[atom].task] = atom;
  for (const TaskValue& value : graph.values) {
    if (value.producer == kOutside || atom_of[value.producer] == kOutside) continue;
    Value between{atom_of[value.producer], value.bytes, {}};
    for (const std::size_t reader : value.readers) between.readers.push_back(atom_of[reader]);
    sort_unique(between.readers);
    if (between.readers.empty()) continue;
    values_at_[between.producer].push_back(values_.size());
    for (const std::size_t reader : between.readers) {
      values_at_[reader].push_back(values_.size());
      after_[between.producer].push_back(reader);
    }
    values_.push_back(std::move(between));
  }
}

AtomGroup AtomGraph::group_of(std::size_t atom) const {
  AtomGroup out{graph_.tasks[atoms_[atom].task], atoms_[atom].constants};
  for (const std::size_t task : out.constants) out.cost += graph_.tasks[task];
  return out;
}

AtomGroup AtomGraph::merged(const AtomGroup& a, const AtomGroup& b) const {
  AtomGroup out = a;
  out.cost += b.cost;
  if (b.constants.empty()) return out;
  out.constants.clear();
  std::ranges::set_union(a.constants, b.constants, std::back_inserter(out.constants));
  std::vector<std::size_t> both;
  std::ranges::set_intersection(a.constants, b.constants, std::back_inserter(both));
  for (const std::size_t task : both) {
    const TaskCost& twice = graph_.tasks[task];
    out.cost.forward -= twice.forward;
    out.cost.backward -= twice.backward;
    out.cost.memory -= twice.memory;
    out.cost.activation -= twice.activation;
    out.cost.parameters -= twice.parameters;
  }
  return out;
}

bool AtomGraph::fits(const AtomGroup& group) const {
  return group.cost.memory + group.cost.activation * options_.samples +
             group.cost.parameters * options_.state_per_parameter <=
         options_.memory;
}

TaskBlock AtomGraph::block_of(const std::vector<std::size_t>& atoms) const {
  TaskBlock out;
  for (const std::size_t atom : atoms) {
    out.tasks.push_back(atoms_[atom].task);
    out.tasks.insert(out.tasks.end(), atoms_[atom].constants.begin(), atoms_[atom].constants.end());
  }
  sort_unique(out.tasks);
  for (const std::size_t task : out.tasks) out.cost += graph_.tasks[task];
  return out;
}

}  // namespace trainyard
