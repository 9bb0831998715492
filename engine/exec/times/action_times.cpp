#include "engine/exec/times/action_times.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace trainyard {

namespace {

/// A call's own ops on all streams.
struct CallRows {
  Seconds begin = std::numeric_limits<double>::infinity(), end = 0;
  std::vector<std::pair<Seconds, Seconds>> compute;  // of the compute stream
  Seconds copying = 0, sending = 0;                  // without the waits between them

  /// From the first start to the last end, less what the compute stream waited until `received`: a
  /// backward may begin to recompute before its gradient has come.
  Seconds length(Seconds received) const {
    if (received <= begin) return end - begin;
    const Seconds until = std::min(received, end);
    Seconds busy = 0;
    for (const auto& [from, to] : compute) busy += std::max(0.0, std::min(to, until) - from);
    return busy + end - until;
  }
};

using CallKey = std::pair<SegmentId, Microbatch>;

std::map<CallKey, CallRows> rows_of_calls(const Program& program, std::span<const TraceRow> rows) {
  std::map<CallKey, CallRows> calls;
  for (const TraceRow& row : rows) {
    const ProgramOp& op = program.segments[row.segment].ops[row.op];
    if (op.kind == OpKind::kFree) continue;
    CallRows& call = calls[{row.segment, row.mb}];
    call.begin = std::min(call.begin, row.start);
    call.end = std::max(call.end, row.end);
    if (op.stream == StreamId::kMain) call.compute.emplace_back(row.start, row.end);
    if (op.kind == OpKind::kCopy) call.copying += row.end - row.start;
    if (op.kind == OpKind::kSend) call.sending += row.end - row.start;
  }
  return calls;
}

bool has(const Segment& segment, OpKind kind) {
  return std::any_of(segment.ops.begin(), segment.ops.end(),
                     [&](const ProgramOp& op) { return op.kind == kind; });
}

/// Which segments receive what a segment reads, or copy it from the host behind that.
Indexed<SegmentId, std::vector<SegmentId>> receivers_of(const Program& program) {
  std::map<ValueId, SegmentId> receiver;
  for (const SegmentId i : program.segments.keys()) {
    const Segment& segment = program.segments[i];
    if (segment.phase != Phase::kCommunicate || !has(segment, OpKind::kRecv)) continue;
    for (const ProgramOp& op : segment.ops) {
      for (const Operand& written : op.writes) receiver[storage_root(program, written.value)] = i;
    }
  }
  Indexed<SegmentId, std::vector<SegmentId>> out(program.segments.size());
  for (const SegmentId i : program.segments.keys()) {
    for (const ProgramOp& op : program.segments[i].ops) {
      for (const Operand& read : op.reads) {
        const auto found = receiver.find(storage_root(program, read.value));
        if (found != receiver.end()) out[i].push_back(found->second);
      }
    }
  }
  return out;
}

void append(std::vector<Seconds>& to, const std::vector<Seconds>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

Seconds shortest_transfer(const ActionTimes& times) {
  const auto shortest = [](const std::vector<Seconds>& all) {
    return all.empty() ? kForever : *std::min_element(all.begin(), all.end());
  };
  const Seconds found = std::min(shortest(times.transfers),
                                 shortest(times.sends_by_host) + shortest(times.copies_from_host));
  return found == kForever ? 0 : found;
}

}  // namespace

void ActionTimes::add(const Program& program, std::span<const TraceRow> rows) {
  const std::map<CallKey, CallRows> calls = rows_of_calls(program, rows);
  const Indexed<SegmentId, std::vector<SegmentId>> receivers = receivers_of(program);
  for (const auto& [key, call] : calls) {
    const Segment& segment = program.segments[key.first];
    if (segment.phase == Phase::kCommunicate) {
      const bool by_host = has(segment, OpKind::kCopy);
      if (has(segment, OpKind::kSend)) {
        if (by_host) {
          sends_by_host.push_back(call.copying + call.sending);
        } else {
          transfers.push_back(call.end - call.begin);
        }
      }
      if (by_host && has(segment, OpKind::kRecv)) copies_from_host.push_back(call.copying);
      continue;
    }
    if (key.second < 0) continue;
    Seconds received = 0;
    for (const SegmentId receiver : receivers[key.first]) {
      const auto found = calls.find({receiver, key.second});
      if (found != calls.end()) received = std::max(received, found->second.end);
    }
    of_stage[segment.stage][segment.phase].push_back(call.length(received));
  }
}

void ActionTimes::add(const ActionTimes& other) {
  for (const std::int32_t stage : of_stage.keys()) {
    for (const auto& [phase, times] : other.of_stage[stage]) append(of_stage[stage][phase], times);
  }
  append(transfers, other.transfers);
  append(sends_by_host, other.sends_by_host);
  append(copies_from_host, other.copies_from_host);
}

Seconds mean_time(const std::vector<Seconds>& times) {
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

ScheduleSettings durations_of(const ActionTimes& times, const PickTime& pick) {
  ScheduleSettings settings;
  settings.transfer = shortest_transfer(times);
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
    if (durations.input + durations.weight == 0) durations.input = durations.weight = whole / 2;
    settings.of_stage.push_back(durations);
  }
  return settings;
}

}  // namespace trainyard
