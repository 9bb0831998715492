// Tasks grouped into blocks of like time that send one another little: RaNNC's block level.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "engine/partition/task_graph.h"

namespace trainyard {

struct BlockOptions {
  std::size_t count = 32;  // of blocks, where as many can be made
  bool uncoarsen = true;
  double samples = 1;                                       // for which memory is counted
  double memory = std::numeric_limits<double>::infinity();  // that a block may take, bytes
  double state_per_parameter = 2;  // optimizer state, bytes for each byte of parameters
};

struct TaskBlock {
  std::vector<std::size_t> tasks;  // ascending, constant ones that it needs among them
  TaskCost cost;                   // each task once
};

/// A group of a level that went over to another group of the level above.
struct BlockMove {
  std::size_t level = 0;
  std::vector<std::size_t> tasks;            // that depend on the model's input
  double bytes_before = 0, bytes_after = 0;  // that groups of the level above send, of a sample
};

struct TaskBlocks {
  std::vector<TaskBlock> blocks;    // in an order in which they can run one after another
  std::vector<std::size_t> levels;  // groups at each level of coarsening, atoms first
  std::vector<BlockMove> moves;     // of uncoarsening, in order
  std::size_t compacted = 0;        // merges of compaction
};

/// Every atom is a block: what `blocks: none` means.
TaskBlocks atoms_as_blocks(const TaskGraph& graph, const std::vector<TaskAtom>& atoms);

/// Blocks by coarsening, uncoarsening and compaction. Groups of a block's tasks are convex, and no
/// two blocks wait for each other.
///   coarsening    level by level, each group in ascending order of time is merged with the group
///                 beside it that makes the least time, where memory and the order of groups allow
///   uncoarsening  from the last level down, one half of a merged pair goes to a group beside it
///                 where groups then send less, and blocks not more
///   compaction    the group of least time is merged with its neighbour of less time in the order
///                 of groups, until there are as many as wanted
/// Fewer atoms than blocks are wanted are blocks by themselves; memory can leave more. Tanaka et
/// al., RaNNC (arXiv:2103.16063), III-B.
TaskBlocks blocks_of(const TaskGraph& graph, const std::vector<TaskAtom>& atoms,
                     const BlockOptions& options);

}  // namespace trainyard
