#include "engine/exec/lists/kernel_runs.h"

#include <algorithm>

namespace trainyard {

namespace {

bool waits_for_values(const TimedOp& op, const TimedRank& rank) {
  for (std::size_t i = 0; i < op.num_dependencies; ++i) {
    if (rank.dependencies[op.first_dependency + i].waits) return true;
  }
  return false;
}

bool runs_on(const TimedOp& op, const TimedRank& rank) {
  return op.kind == TimedKind::kKernel && op.stream == StreamId::kMain && !op.host_sync &&
         op.pool_taken < 0 && op.work < 0 && !waits_for_values(op, rank);
}

bool plain_free(const TimedOp& op) {
  return op.kind == TimedKind::kFree && op.num_dependencies == 0 && op.num_pools_given == 0 &&
         op.waits == 0;
}

/// The end of the run that begins at op `first`.
std::size_t run_end(const std::vector<TimedOp>& ops, std::size_t first, const TimedRank& rank) {
  std::size_t k = first;
  while (k < ops.size() &&
         (plain_free(ops[k]) || (runs_on(ops[k], rank) && (k == first || ops[k].waits == 0))))
    ++k;
  return k;
}

TimedKernels make_run(const std::vector<TimedOp>& ops, std::size_t first, std::size_t end,
                      TimedRank& rank) {
  TimedKernels run;
  run.num_ops = static_cast<std::uint32_t>(end - first);
  run.first_launch = ops[first].launch;
  run.first_note = static_cast<std::uint32_t>(rank.notes.size());
  std::int32_t latest = 0;  // kernel of the run
  for (std::size_t k = first; k < end; ++k) {
    if (plain_free(ops[k])) {
      run.last_free = latest;
      continue;
    }
    run.launch += ops[k].launch;
    if (k > first) run.slack = std::max(run.slack, run.launch - run.duration);
    run.duration += ops[k].duration;
    run.flop += ops[k].flop;
    ++run.num_events;
    latest = static_cast<std::int32_t>(k - first);
    for (std::size_t i = 0; i < ops[k].num_dependencies; ++i) {
      rank.notes.push_back({rank.dependencies[ops[k].first_dependency + i], run.duration,
                            static_cast<std::uint32_t>(k - first)});
    }
  }
  run.num_notes = static_cast<std::uint32_t>(rank.notes.size()) - run.first_note;
  return run;
}

}  // namespace

void find_runs(TimedSegment& segment, TimedRank& rank) {
  auto& ops = segment.ops;
  for (std::size_t first = 0; first < ops.size();) {
    if (!runs_on(ops[first], rank)) {
      ++first;
      continue;
    }
    const std::size_t end = run_end(ops, first, rank);
    ops[first].run = static_cast<std::int32_t>(segment.runs.size());
    segment.runs.push_back(make_run(ops, first, end, rank));
    first = end;
  }
}

}  // namespace trainyard
