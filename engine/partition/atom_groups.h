// Groups of atoms while blocks are made of them.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/partition/task_blocks.h"

namespace trainyard {

/// What a group costs, tasks that several of its atoms need counted once.
struct AtomGroup {
  TaskCost cost;
  std::vector<std::size_t> constants;  // ascending
};

/// A graph's atoms with the values between them, and sums over groups.
class AtomGraph {
 public:
  AtomGraph(const TaskGraph& graph, const std::vector<TaskAtom>& atoms,
            const BlockOptions& options);

  std::size_t size() const { return atoms_.size(); }
  AtomGroup group_of(std::size_t atom) const;
  AtomGroup merged(const AtomGroup& a, const AtomGroup& b) const;
  bool fits(const AtomGroup& group) const;
  /// The costs and tasks of these atoms as one block.
  TaskBlock block_of(const std::vector<std::size_t>& atoms) const;
  std::size_t task_of(std::size_t atom) const { return atoms_[atom].task; }

  /// A value that atoms send one another; its readers have no duplicates.
  struct Value {
    std::size_t producer = 0;
    double bytes = 0;
    std::vector<std::size_t> readers;
  };
  const std::vector<Value>& values() const { return values_; }
  /// Values that the atom makes or reads.
  const std::vector<std::size_t>& values_at(std::size_t atom) const { return values_at_[atom]; }
  const std::vector<std::size_t>& after(std::size_t atom) const { return after_[atom]; }

 private:
  const TaskGraph& graph_;
  const std::vector<TaskAtom>& atoms_;
  const BlockOptions& options_;
  std::vector<Value> values_;
  std::vector<std::vector<std::size_t>> values_at_, after_;
};

/// A level of coarsening: its groups in an order in which they can run, and where each goes.
struct GroupLevel {
  std::vector<AtomGroup> groups;
  std::vector<std::size_t> parent;  // at the next level; empty at the last
};

/// Levels from atoms up to the last.
std::vector<GroupLevel> coarsen(const AtomGraph& graph, std::size_t least);

/// Moves halves of pairs; answers the group of the last level that each atom is in.
std::vector<std::size_t> uncoarsen(const AtomGraph& graph, std::vector<GroupLevel> levels,
                                   std::vector<BlockMove>& moves);

}  // namespace trainyard
