// A model as tasks and the values between them, with what a cost model says of each: what is
// divided into blocks and stages. Nothing of a study is in it.
#pragma once

#include <cstddef>
#include <limits>
#include <variant>
#include <vector>

namespace trainyard {

/// What a task, or several, costs.
struct TaskCost {
  double forward = 0, backward = 0;  // of a sample, in any unit of time
  double memory = 0;                 // that does not depend on the batch, bytes
  double activation = 0;             // at its peak, bytes of a sample
  double parameters = 0;             // bytes

  TaskCost& operator+=(const TaskCost& other);
  double time() const { return forward + backward; }
};

inline constexpr std::size_t kOutside = std::numeric_limits<std::size_t>::max();

struct TaskValue {
  std::size_t producer = kOutside;   // the task that makes it; kOutside: the model's input
  double bytes = 0;                  // of a sample
  std::vector<std::size_t> readers;  // tasks
  bool leaves = false;               // it is the model's output
};

struct TaskGraph {
  std::vector<TaskCost> tasks;
  std::vector<TaskValue> values;
};

/// Tasks that wait for one another, each for the one before it and the first for the last.
struct TaskCycle {
  std::vector<std::size_t> tasks;
};

/// The tasks in an order in which they can run, of those that can the lowest number first.
std::variant<std::vector<std::size_t>, TaskCycle> task_order(const TaskGraph& graph);

/// One task whose result depends on the model's input, and the tasks that it needs which do not:
/// RaNNC's atomic component.
struct TaskAtom {
  std::size_t task = 0;
  std::vector<std::size_t> constants;  // ascending
};

/// The atoms of a graph, in the order `order`. A constant task is in every atom that needs it, and
/// in none where none does. Without a value that is the model's input every task that reads nothing
/// is taken to read it. Tanaka et al., RaNNC (arXiv:2103.16063), III-A.
std::vector<TaskAtom> atoms_of(const TaskGraph& graph, const std::vector<std::size_t>& order);

}  // namespace trainyard
