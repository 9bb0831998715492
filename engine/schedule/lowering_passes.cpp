#include "engine/schedule/lowering_passes.h"

#include <algorithm>
#include <set>

#include "engine/schedule/action_log.h"

namespace trainyard {

namespace {

/// The first `count` different stages of the actions from `position` on.
std::vector<int> next_stages(const LoweredRow& row, std::size_t position, int count) {
  std::vector<int> stages;
  for (std::size_t i = position; i < row.size() && static_cast<int>(stages.size()) < count; ++i) {
    if (std::find(stages.begin(), stages.end(), row[i].stage) == stages.end())
      stages.push_back(row[i].stage);
  }
  return stages;
}

bool may_run(const LoweredRow& row, std::size_t position, const ActionLog& log) {
  for (std::size_t i = 0; i < word_length(row, position); ++i) {
    if (log.waits_for(row[position + i])) return false;
  }
  return true;
}

/// The step simulation: rows, how far each has come, and what is done.
class StepCount {
 public:
  StepCount(const std::vector<LoweredRow>& rows, const StagePlacement& placement, bool direct)
      : rows_(rows),
        next_(rows.size()),
        log_(placement, count_microbatches(rows), direct) {}

  std::variant<std::int64_t, Infeasible> run() {
    std::int64_t steps = 0;
    for (; !ended(); ++steps) {
      std::vector<bool> had_turn(rows_.size());
      bool progress = false;
      for (const bool second : {false, true}) {
        for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
          if (had_turn[rank] || next_[rank] == rows_[rank].size()) continue;
          const bool ran = advance(rank);
          had_turn[rank] = ran;
          progress |= ran && !second;
        }
      }
      if (!progress) return Infeasible{stuck_ranks(rows_, next_, log_)};
    }
    return steps;
  }

 private:
  bool ended() const {
    for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
      if (next_[rank] != rows_[rank].size()) return false;
    }
    return true;
  }

  bool advance(std::size_t rank) {
    const LoweredRow& row = rows_[rank];
    const std::size_t at = next_[rank];
    const std::size_t length = word_length(row, at);
    // A send leaves although the receive beside it has yet to come.
    if (length == 2 && is_send(row[at].kind) && !log_.waits_for(row[at])) log_.add(row[at]);
    if (!may_run(row, at, log_)) return false;
    for (std::size_t i = 0; i < length; ++i) log_.add(row[at + i]);
    next_[rank] += length;
    return true;
  }

  const std::vector<LoweredRow>& rows_;
  std::vector<std::size_t> next_;  // [rank]
  ActionLog log_;
};

}  // namespace

StagePlacement placement_of(const PipelineSchedule& schedule) {
  StagePlacement placement;
  for (int stage = 0; stage < schedule.num_stages; ++stage)
    placement.rank_of.push_back(schedule.rank_of(stage));
  return placement;
}

std::optional<Message> message_of(const LoweredAction& action, const StagePlacement& placement) {
  const bool forward = action.kind == LoweredKind::kForward;
  if (!forward && !makes_input_gradient(action.kind)) return std::nullopt;
  const int other = action.stage + (forward ? 1 : -1);
  if (other < 0 || other == placement.num_stages() || placement.together(action.stage, other))
    return std::nullopt;
  return Message{
      {action.stage, forward ? LoweredKind::kSendForward : LoweredKind::kSendBackward,
       action.microbatch},
      {other, forward ? LoweredKind::kRecvForward : LoweredKind::kRecvBackward, action.microbatch}};
}

LoweredRow without_idle(LoweredRow row) {
  std::erase_if(row, [](const LoweredAction& a) { return a.kind == LoweredKind::kIdle; });
  return row;
}

LoweredRow add_unshard(const LoweredRow& given, int max_active) {
  const LoweredRow row = without_idle(given);
  std::set<int> whole;
  LoweredRow out;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::vector<int> next = next_stages(row, i, max_active);
    const bool inside_pair = i > 0 && row[i - 1].with_next;
    if (!inside_pair) {
      for (auto stage = whole.begin(); stage != whole.end();) {
        const bool kept = std::find(next.begin(), next.end(), *stage) != next.end();
        if (!kept) out.push_back({*stage, LoweredKind::kReshard});
        stage = kept ? std::next(stage) : whole.erase(stage);
      }
      for (const int stage : next) {
        if (whole.insert(stage).second) out.push_back({stage, LoweredKind::kUnshard});
      }
    }
    out.push_back(row[i]);
  }
  for (const int stage : whole) out.push_back({stage, LoweredKind::kReshard});
  return out;
}

LoweredRow add_reduce_grad(const LoweredRow& given, int num_microbatches) {
  const LoweredRow row = without_idle(given);
  Numbered<int> done;  // [stage]
  std::vector<int> due;
  LoweredRow out;
  for (const LoweredAction& action : row) {
    out.push_back(action);
    if (action.kind == LoweredKind::kBackward || action.kind == LoweredKind::kBackwardWeight) {
      if (!done.has(action.stage)) done.resize(action.stage + 1);
      if (++done[action.stage] == num_microbatches) due.push_back(action.stage);
    }
    if (action.with_next) continue;
    for (const int stage : due) out.push_back({stage, LoweredKind::kReduceGrad});
    due.clear();
  }
  return out;
}

LoweredRow merge_backward(const LoweredRow& given) {
  const LoweredRow row = without_idle(given);
  LoweredRow out;
  for (std::size_t i = 0; i < row.size(); ++i) {
    LoweredAction weight = row[i];
    weight.kind = LoweredKind::kBackwardWeight;
    out.push_back(row[i]);
    if (row[i].kind != LoweredKind::kBackwardInput || i + 1 == row.size() || row[i + 1] != weight)
      continue;
    out.back().kind = LoweredKind::kBackward;
    ++i;
  }
  return out;
}

std::variant<std::vector<LoweredRow>, Infeasible> add_send_recv(const std::vector<LoweredRow>& rows,
                                                                const StagePlacement& placement) {
  std::vector<LoweredRow> out(rows.size());
  std::vector<std::size_t> next(rows.size());
  ActionLog log(placement, count_microbatches(rows));
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t rank = 0; rank < rows.size(); ++rank) {
      const LoweredRow& row = rows[rank];
      if (next[rank] == row.size() || !may_run(row, next[rank], log)) continue;
      progress = true;
      const std::size_t end = next[rank] + word_length(row, next[rank]);
      const std::size_t begin = next[rank];
      next[rank] = end;
      if (row[begin].kind == LoweredKind::kIdle) continue;
      for (std::size_t i = begin; i < end; ++i) {
        out[rank].push_back(row[i]);
        log.add(row[i]);
      }
      for (std::size_t i = begin; i < end; ++i) {
        const auto message = message_of(row[i], placement);
        if (!message) continue;
        out[rank].push_back(message->send);
        out[placement.rank_of[message->receive.stage]].push_back(message->receive);
        log.add(message->send);
        log.add(message->receive);
      }
    }
  }
  if (const std::string stuck = stuck_ranks(rows, next, log); !stuck.empty())
    return Infeasible{stuck};
  return out;
}

std::variant<std::int64_t, Infeasible> count_steps(const std::vector<LoweredRow>& rows,
                                                   const StagePlacement& placement) {
  bool direct = true;
  for (const LoweredRow& row : rows) {
    for (const LoweredAction& action : row)
      direct &= !is_send(action.kind) && !is_receive(action.kind);
  }
  return StepCount(rows, placement, direct).run();
}

std::vector<int> buffers_per_stage(const std::vector<LoweredRow>& rows, int num_stages) {
  Numbered<int> most(num_stages);
  for (const LoweredRow& row : rows) {
    Numbered<std::set<int>> held(most.size());
    for (const LoweredAction& action : row) {
      const int stage = action.stage;
      if (action.kind == LoweredKind::kRecvForward || action.kind == LoweredKind::kForward) {
        held[stage].insert(action.microbatch);
        most[stage] = std::max(most[stage], static_cast<int>(held[stage].size()));
      }
      if (action.kind == LoweredKind::kBackward || action.kind == LoweredKind::kBackwardWeight)
        held[stage].erase(action.microbatch);
    }
  }
  return most;
}

}  // namespace trainyard
