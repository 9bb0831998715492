#include "engine/partition/task_graph.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <queue>

namespace trainyard {

namespace {

/// [task]: those that it waits for; with duplicates.
std::vector<std::vector<std::size_t>> tasks_before(const TaskGraph& graph) {
  std::vector<std::vector<std::size_t>> out(graph.tasks.size());
  for (const TaskValue& value : graph.values) {
    if (value.producer == kOutside) continue;
    for (const std::size_t reader : value.readers) out[reader].push_back(value.producer);
  }
  return out;
}

/// A cycle among tasks each of which waits for one that is not `done`.
TaskCycle cycle_among(const std::vector<std::vector<std::size_t>>& before,
                      const std::vector<bool>& done) {
  const auto open = [&](std::size_t task) { return !done[task]; };
  std::vector<bool> seen(before.size(), false);
  std::size_t at = (std::ranges::find(done, false) - done.begin());
  TaskCycle out;
  while (!seen[at]) {
    seen[at] = true;
    out.tasks.push_back(at);
    at = *std::ranges::find_if(before[at], open);
  }
  out.tasks.erase(out.tasks.begin(), std::ranges::find(out.tasks, at));
  std::ranges::reverse(out.tasks);
  return out;
}

}  // namespace

TaskCost& TaskCost::operator+=(const TaskCost& other) {
  forward += other.forward;
  backward += other.backward;
  memory += other.memory;
  activation += other.activation;
  parameters += other.parameters;
  return *this;
}

std::variant<std::vector<std::size_t>, TaskCycle> task_order(const TaskGraph& graph) {
  const auto before = tasks_before(graph);
  std::vector<std::vector<std::size_t>> after(graph.tasks.size());
  std::vector<std::size_t> waits_for(graph.tasks.size());
  for (std::size_t task = 0; task < before.size(); ++task) {
    waits_for[task] = before[task].size();
    for (const std::size_t earlier : before[task]) after[earlier].push_back(task);
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t task = 0; task < waits_for.size(); ++task) {
    if (waits_for[task] == 0) ready.push(task);
  }
  std::vector<std::size_t> out;
  std::vector<bool> done(graph.tasks.size(), false);
  while (!ready.empty()) {
    const std::size_t task = ready.top();
    ready.pop();
    done[task] = true;
    out.push_back(task);
    for (const std::size_t later : after[task]) {
      if (--waits_for[later] == 0) ready.push(later);
    }
  }
  if (out.size() < graph.tasks.size()) return cycle_among(before, done);
  return out;
}

std::vector<TaskAtom> atoms_of(const TaskGraph& graph, const std::vector<std::size_t>& order) {
  const auto before = tasks_before(graph);
  std::vector<bool> varies(graph.tasks.size(), false);
  bool has_input = false;
  for (const TaskValue& value : graph.values) {
    if (value.producer != kOutside) continue;
    has_input = true;
    for (const std::size_t reader : value.readers) varies[reader] = true;
  }
  std::vector<std::vector<std::size_t>> constants(graph.tasks.size());  // that it needs
  std::vector<TaskAtom> out;
  for (const std::size_t task : order) {
    if (!has_input && before[task].empty()) varies[task] = true;
    std::vector<std::size_t>& needed = constants[task];
    for (const std::size_t earlier : before[task]) {
      if (varies[earlier]) {
        varies[task] = true;
        continue;
      }
      std::vector<std::size_t> both;
      std::ranges::set_union(needed, constants[earlier], std::back_inserter(both));
      needed.swap(both);
    }
    if (varies[task])
      out.push_back({task, needed});
    else
      needed.insert(std::ranges::lower_bound(needed, task), task);
  }
  return out;
}

}  // namespace trainyard
