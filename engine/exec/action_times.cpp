#include "engine/exec/action_times.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace trainyard {

namespace {

struct Span {
  Seconds begin = std::numeric_limits<double>::infinity(), end = 0;
};

/// From the first start to the last end of each call's own ops.
std::map<std::pair<SegmentId, Microbatch>, Span> spans_of(const Program& program,
                                                          std::span<const TraceRow> rows) {
  std::map<std::pair<SegmentId, Microbatch>, Span> spans;
  for (const TraceRow& row : rows) {
    const Segment& segment = program.segments[static_cast<std::size_t>(row.segment)];
    if (segment.ops[row.op].kind == OpKind::kFree) continue;
    Span& span = spans[{row.segment, row.mb}];
    span.begin = std::min(span.begin, row.start);
    span.end = std::max(span.end, row.end);
  }
  return spans;
}

void append(std::vector<Seconds>& to, const std::vector<Seconds>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

void ActionTimes::add(const Program& program, std::span<const TraceRow> rows) {
  for (const auto& [call, span] : spans_of(program, rows)) {
    const Segment& segment = program.segments[static_cast<std::size_t>(call.first)];
    if (segment.phase == Phase::kCommunicate) {
      if (segment.ops.front().kind == OpKind::kSend) transfers.push_back(span.end - span.begin);
    } else if (call.second >= 0) {
      of_stage[static_cast<std::size_t>(segment.stage)][segment.phase].push_back(span.end -
                                                                                 span.begin);
    }
  }
}

void ActionTimes::add(const ActionTimes& other) {
  for (std::size_t stage = 0; stage < of_stage.size(); ++stage) {
    for (const auto& [phase, times] : other.of_stage[stage]) append(of_stage[stage][phase], times);
  }
  append(transfers, other.transfers);
}

Seconds mean_time(const std::vector<Seconds>& times) {
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

ScheduleSettings durations_of(const ActionTimes& times, const PickTime& pick) {
  ScheduleSettings settings;
  if (!times.transfers.empty())
    settings.transfer = *std::min_element(times.transfers.begin(), times.transfers.end());
  for (const ActionTimes::OfPhase& of_stage : times.of_stage) {
    const auto of = [&](Phase phase) {
      const auto found = of_stage.find(phase);
      return found == of_stage.end() ? 0 : pick(found->second);
    };
    ActionDurations durations;
    durations.forward = of(Phase::kForward);
    durations.input = of(Phase::kBackwardInput);
    durations.weight = of(Phase::kBackwardWeight);
    const double whole = of(Phase::kBackward);
    durations.backward = whole > 0 ? whole : durations.input + durations.weight;
    settings.of_stage.push_back(durations);
  }
  return settings;
}

}  // namespace trainyard
