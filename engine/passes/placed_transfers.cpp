#include "engine/passes/placed_transfers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "engine/base/error.h"
#include "engine/passes/pool_slots.h"
#include "engine/passes/transfer_routes.h"

namespace trainyard {

namespace {

/// One transfer of the step: which call sends, which receives, when the unit-time run produces it.
struct TransferEvent {
  double time = 0;
  bool backward = false;
  std::int32_t from_stage = 0;
  std::int32_t to_stage = 0;
  Microbatch mb = 0;
  std::size_t transfer = 0;  // of those that the stage sends so
  // Where all of a pipeline rank are one class, indices into what is placed on either:
  std::size_t send = 0, receive = 0;
};

using PlacedOfClasses = Indexed<std::int32_t, std::vector<PlacedTransfer>>;

using ClassesOfRanks = Numbered<std::vector<std::int32_t>>;  // [pipeline rank]

/// What a class has of the event's transfer.
const StageTransfer& transfer_of(const ProgramDraft& draft, std::int32_t of_class,
                                 const TransferEvent& event) {
  const StageSegments& stage = draft.segments(of_class, event.from_stage, event.mb);
  return (event.backward ? stage.sends_backward : stage.sends_forward)[event.transfer];
}

/// When the unit-time run ends each forward and each backward that leads to what is sent.
class ActionEnds {
 public:
  ActionEnds(const ProgramDraft& draft, const Numbered<std::vector<PlannedCall>>& calls,
             const ScheduleTiming& timing, int num_microbatches)
      : ends_(draft.num_stages, num_microbatches, 0.0) {
    const ActionDurations durations;
    for (std::size_t rank = 0; rank < calls.size(); ++rank) {
      std::size_t i = 0;  // of the call's first action
      for (const PlannedCall& call : calls[rank]) {
        double end = timing.starts[rank][i];
        for (const Action* action : actions_of(call)) end += duration(*action, durations), ++i;
        for (const Action* action : actions_of(call))
          ends_.of(action->stage, part_of(action->phase), action->microbatch) = end;
      }
    }
  }
  double operator()(std::int32_t stage, bool forward, Microbatch mb) const {
    return ends_.of(stage, forward ? Part::kForward : Part::kBackward, mb);
  }

 private:
  ByAction<Part, kNumParts, double> ends_;
};

/// What is sent past other stages goes when these have run, as all that their reader waits for.
std::vector<TransferEvent> transfer_events(const ProgramDraft& draft,
                                           const ClassesOfRanks& classes_of,
                                           const Numbered<std::vector<PlannedCall>>& calls,
                                           const ActionEnds& ends) {
  std::vector<TransferEvent> events;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    for (const PlannedCall& call : calls[rank]) {
      for (const Action* action : actions_of(call)) {
        const bool forward = action->phase == ActionPhase::kForward;
        if (!forward && part_of(action->phase) != Part::kBackward) continue;
        const StageSegments& stage =
            draft.segments(classes_of[rank].front(), action->stage, action->microbatch);
        const auto& transfers = forward ? stage.sends_forward : stage.sends_backward;
        for (std::size_t t = 0; t < transfers.size(); ++t) {
          const std::int32_t to = transfers[t].to;
          const double time = ends(to + (forward ? -1 : 1), forward, action->microbatch);
          events.push_back({time, !forward, action->stage, to, action->microbatch, t});
        }
      }
    }
  }
  // At equal times what comes in goes before what goes out: each direction from its far end on.
  const auto key = [](const TransferEvent& e) {
    return std::tuple(e.time, e.backward, e.backward ? -e.from_stage : e.from_stage, e.mb);
  };
  std::stable_sort(events.begin(), events.end(),
                   [&](const TransferEvent& a, const TransferEvent& b) { return key(a) < key(b); });
  return events;
}

/// A place in its rank's list for each, in order, no later than what stands behind it may be.
void settle_places(PlacedOfClasses& placed) {
  for (auto& calls : placed) {
    std::int64_t cap = std::numeric_limits<std::int64_t>::max();
    for (auto it = calls.rbegin(); it != calls.rend(); ++it)
      it->latest = cap = std::min(cap, it->latest);
    std::int64_t before = 0;
    for (PlacedTransfer& call : calls) {
      before = call.desired = std::min(std::max(call.desired, before), call.latest);
      check(call.desired >= call.earliest, "a transfer is placed before what it sends");
    }
  }
}

/// Where an action's batches are: in front of [first] and of [second].
using BatchPlaces = std::vector<std::pair<std::int64_t, std::int64_t>>;

BatchPlaces batch_places(const std::vector<PlannedCall>& actions, bool several_stages) {
  BatchPlaces out;
  const auto count = std::ssize(actions);
  const auto forward = [&](std::int64_t at) {
    return at < count && actions[at].action.phase == ActionPhase::kForward;
  };
  for (std::int64_t i = 0; i < count; ++i) out.emplace_back(i, i + 1);
  if (!several_stages) return out;
  std::int64_t first = 0;  // backward
  while (forward(first)) ++first;
  bool again = false;  // a forward behind it
  for (std::int64_t i = first; i < count; ++i) again = again || forward(i);
  for (std::int64_t i = first - 1; again && i >= 0 && i + 1 < count; i += 2) {
    if (!forward(i) || forward(i + 1)) break;
    out[i].second = i + 2;
    out[i + 1].first = i;
  }
  return out;
}

/// What a rank sends and receives at each place, what it sends first.
void make_batches(const std::vector<PlannedCall>& actions, bool several_stages,
                  std::vector<PlacedTransfer>& transfers) {
  const BatchPlaces places = batch_places(actions, several_stages);
  for (PlacedTransfer& call : transfers)
    call.desired = call.sends ? places[call.earliest - 1].second : places[call.consumer].first;
  std::stable_sort(transfers.begin(), transfers.end(),
                   [](const PlacedTransfer& a, const PlacedTransfer& b) {
                     return std::pair(a.desired, !a.sends) < std::pair(b.desired, !b.sends);
                   });
}

/// Slots of the buffer that a segment's first op writes; nullptr: it writes none.
BufferSlots* slots_of(const Program& program, SegmentId segment,
                      std::map<PoolId, BufferSlots>& slots) {
  if (segment == kNoIndex) return nullptr;
  const ProgramOp& op = program.segments[segment].ops.front();
  const auto found = slots.find(program.values[op.writes[0].value].pool);
  return found == slots.end() ? nullptr : &found->second;
}

/// Chooses each transfer's way, in the global order of communication: direct where both ends have a
/// slot free, in the order in which they issue.
void choose_ways(const ProgramDraft& draft, const PipelineSchedule& schedule,
                 const std::vector<TransferEvent>& events, PlacedOfClasses& placed) {
  if (draft.links.empty()) {
    for (auto& calls : placed) {
      for (PlacedTransfer& call : calls) {
        if (call.transfer != nullptr) call.way = &call.transfer->direct;
      }
    }
    return;
  }
  std::map<PoolId, BufferSlots> slots;
  for (const auto& [pool, fit] : buffer_slots(draft.program)) slots.emplace(pool, fit);
  for (const TransferEvent& event : events) {
    PlacedTransfer& send = placed[schedule.rank_of(event.from_stage)][event.send];
    PlacedTransfer& receive = placed[schedule.rank_of(event.to_stage)][event.receive];
    const StageTransfer& transfer = *send.transfer;
    send.way = receive.way = &transfer.by_host;
    if (transfer.direct.send == kNoIndex) continue;
    BufferSlots* const out = slots_of(draft.program, transfer.direct.put, slots);
    BufferSlots* const in = slots_of(draft.program, transfer.direct.receive, slots);
    // A sender's slot is taken behind its producer, and free behind the action after the send; a
    // receiver's is free in front of the action that reads.
    const std::pair sent(send.earliest, send.desired + 2);
    const std::pair received(receive.desired, receive.consumer + 1);
    if ((out != nullptr && !out->has_free(sent.first, sent.second)) ||
        (in != nullptr && !in->has_free(received.first, received.second)))
      continue;
    if (out != nullptr) out->take(sent.first, sent.second);
    if (in != nullptr) in->take(received.first, received.second);
    send.way = receive.way = &transfer.direct;
  }
}

}  // namespace

Indexed<std::int32_t, std::vector<PlacedTransfer>> place_transfers(
    const ProgramDraft& draft, const PipelineSchedule& schedule,
    const Numbered<std::vector<PlannedCall>>& calls, const ActionPlaces& places,
    const ScheduleTiming& timing, const std::vector<ValidationCall>& validation,
    TransferOrder order) {
  ClassesOfRanks classes_of(draft.num_ranks);
  for (const std::int32_t c : draft.classes.keys()) classes_of[draft.classes[c].rank].push_back(c);
  std::vector<TransferEvent> events = transfer_events(
      draft, classes_of, calls, ActionEnds(draft, calls, timing, schedule.num_microbatches));
  PlacedOfClasses placed(draft.classes.size());
  constexpr std::int64_t kNoUse = std::numeric_limits<std::int64_t>::max();
  const bool ahead = order == TransferOrder::kAhead;
  std::size_t next = 0;  // of `validation`
  const auto validate_until = [&](double time) {
    for (; next < validation.size() && validation[next].time < time; ++next) {
      const ValidationCall& call = validation[next];
      placed[call.of_class].push_back(
          {.desired = call.desired, .latest = call.latest, .validation = call.segment});
    }
  };
  for (TransferEvent& event : events) {
    validate_until(event.time);
    const Part part = event.backward ? Part::kBackward : Part::kForward;
    const std::int64_t producer = places(event.from_stage, part, event.mb);
    const std::int64_t consumer = places(event.to_stage, part, event.mb);
    for (const std::int32_t sender : classes_of[schedule.rank_of(event.from_stage)]) {
      event.send = placed[sender].size();
      placed[sender].push_back(
          {&transfer_of(draft, sender, event), true, event.mb, producer + 1, producer + 1, kNoUse});
    }
    for (const std::int32_t receiver : classes_of[schedule.rank_of(event.to_stage)]) {
      event.receive = placed[receiver].size();
      placed[receiver].push_back({&transfer_of(draft, receiver, event), false, event.mb, 0,
                                  std::max<std::int64_t>(0, consumer - (ahead ? 1 : 0)), consumer,
                                  consumer});
    }
  }
  validate_until(std::numeric_limits<double>::infinity());
  if (order == TransferOrder::kBatched) {
    check(validation.empty() && draft.links.empty(), "batches have no validation and no buffers");
    for (const std::int32_t c : draft.classes.keys())
      make_batches(calls[draft.classes[c].rank], draft.num_stages > draft.num_ranks, placed[c]);
  } else {
    settle_places(placed);
  }
  choose_ways(draft, schedule, events, placed);
  return placed;
}

}  // namespace trainyard
