// A Program prepared for one run on one cluster: who is simulated for whom, how long every message
// takes alone, and the queues of everybody's streams.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <vector>

#include "engine/exec/channels/fold.h"
#include "engine/exec/channels/message_times.h"
#include "engine/exec/executor.h"
#include "engine/exec/lists/stream_list.h"

namespace trainyard {

struct RunPlan {
  const Program* program = nullptr;
  Lanes lanes;
  Folds folds;
  MessageTimes times;
  std::deque<StreamList> lists;  // never moved: items point into them
  struct ListKey {
    std::size_t list = 0;  // index into Program::body
    double speed = 1;
    std::int32_t owner = -1;  // of FoldClass
    LaneSet lanes;            // that bodies may be made of
    friend bool operator==(const ListKey&, const ListKey&) = default;
  };
  std::vector<ListKey> list_keys;             // [list]
  Indexed<FoldClassId, std::size_t> list_of;  // index into lists
  Indexed<FoldClassId, bool> records;         // rows are kept; nothing else depends on it
  Indexed<ChannelId, bool> contends;          // over the interconnect; empty: none
  const WorkTable* works = nullptr;           // of the costs
  Slowdown slowdown;  // any(): everything is timed in order (slowdown_clock.h)
};

/// `network`: distinguish ranks and channels by what they share; null: by closed forms alone.
/// Bodies are not reused yet where `contends` says that their group meets others: make_lists()
/// again after changing it. `costs` outlives the plan.
RunPlan make_run_plan(const Program& program, const Costs& costs, const RunOptions& options,
                      const Network* network);

void make_lists(RunPlan& plan, const Costs& costs, const RunOptions& options);

}  // namespace trainyard
