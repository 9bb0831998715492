#include "engine/program/lower.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "engine/program/planned_calls.h"
#include "engine/program/pool_slots.h"
#include "engine/program/post_validation.h"
#include "engine/schedule/schedule_timing.h"
#include "engine/schedule/stage_form.h"

namespace trainyard {

namespace {

/// One transfer of the step: which call sends, which receives, when the unit-time run produces it.
struct TransferEvent {
  double time = 0;
  bool backward = false;
  std::int32_t from_stage = 0;
  std::int32_t to_stage = 0;
  Microbatch mb = 0;
  const StageTransfer* transfer = nullptr;
  // Indices into what is placed on either rank:
  std::size_t send = 0, receive = 0;
};

/// A send or receive of one rank, or a call of the validation, on its way to a place in the list of calls.
struct PlacedCall {
  const StageTransfer* transfer = nullptr;
  bool sends = false;
  Microbatch mb = 0;
  std::int64_t earliest = 0;  // sends: after their producer. Counted in actions: issued before action k
  std::int64_t desired = 0;
  std::int64_t latest = 0;    // receives: before their consumer
  std::int64_t consumer = 0;  // receives: what reads it
  const WaySegments* way = nullptr;  // of `transfer`
  SegmentId validation = -1;         // -1: a send or receive
};

/// What is called before or behind an action: [action] -> segment, microbatch.
using CallsAt = std::multimap<std::size_t, std::pair<SegmentId, Microbatch>>;

struct AroundCalls {
  CallsAt before, behind;
  CallsAt puts;  // behind what the action frees
};

/// What a stage does once for a microbatch: its place in the list of the rank.
enum class Part : std::uint8_t { kForward, kRecompute, kBackward, kWeight };
constexpr std::size_t kNumParts = 4;

constexpr Part part_of(ActionPhase phase) {
  switch (phase) {
    case ActionPhase::kForward:
      return Part::kForward;
    case ActionPhase::kRecompute:
    case ActionPhase::kEarlyRecompute:
      return Part::kRecompute;
    case ActionPhase::kBackwardWeight:
      return Part::kWeight;
    default:
      return Part::kBackward;
  }
}

class Lowering {
 public:
  Lowering(ProgramDraft& draft, const StepSegments& step, const PipelineSchedule& schedule,
           const SoftwareProfile& software)
      : draft_(draft),
        step_(step),
        schedule_(without_late_recompute(schedule)),
        calls_(planned_calls(schedule_)),
        software_(software) {}

  std::optional<Infeasible> run() {
    auto timed = time_schedule(schedule_, {});
    if (auto* reason = std::get_if<Infeasible>(&timed)) return *reason;
    index_actions();
    auto events = transfers(std::get<ScheduleTiming>(timed));
    const auto placed = place(events, validation_calls(step_, calls_, std::get<ScheduleTiming>(timed)));
    Program& program = draft_.program;
    program.num_microbatches = schedule_.num_microbatches;
    program.body.clear();
    for (std::int32_t rank = 0; rank < draft_.num_ranks; ++rank) {
      RankClass& list = program.body.emplace_back();
      list.ranks.at[index(Axis::kPp)] = rank;
      add_calls(rank, placed[static_cast<std::size_t>(rank)], list.calls);
    }
    count_slots(program);
    return std::nullopt;
  }

 private:
  const StageSegments& segments(std::int32_t stage, Microbatch mb) const { return draft_.segments(stage, mb); }
  std::int32_t num_stages() const { return draft_.num_stages; }

  /// Index of the action's call on its rank; -1: there is none.
  std::int32_t& position(std::int32_t stage, Part part, Microbatch mb) {
    return position_[(static_cast<std::size_t>(stage) * kNumParts +
                      static_cast<std::size_t>(part)) *
                         static_cast<std::size_t>(schedule_.num_microbatches) +
                     static_cast<std::size_t>(mb)];
  }

  void index_actions() {
    stages_of_.resize(schedule_.actions.size());
    for (std::int32_t stage = 0; stage < num_stages(); ++stage) {
      stages_of_[static_cast<std::size_t>(schedule_.rank_of(stage))].push_back(stage);
    }
    position_.assign(static_cast<std::size_t>(num_stages()) * kNumParts *
                         static_cast<std::size_t>(schedule_.num_microbatches),
                     -1);
    for (const auto& calls : calls_) {
      for (std::size_t i = 0; i < calls.size(); ++i) {
        for (const Action* action : actions_of(calls[i])) {
          position(action->stage, part_of(action->phase), action->microbatch) =
              static_cast<std::int32_t>(i);
        }
      }
    }
  }

  SegmentId segment_of(const PlannedCall& call) {
    const SegmentId first = segment_of(call.action);
    return call.with ? draft_.pairs.at({first, segment_of(*call.with)}) : first;
  }

  SegmentId segment_of(const Action& action) {
    const StageSegments& stage = segments(action.stage, action.microbatch);
    // A stage whose R would do nothing has none to call, and its backwards are alike.
    const bool behind = position(action.stage, Part::kRecompute, action.microbatch) >= 0;
    switch (action.phase) {
      case ActionPhase::kForward:
        return stage.forward;
      case ActionPhase::kBackward:
        return stage.backward[behind ? 1 : 0];
      case ActionPhase::kBackwardInput:
        return stage.input[behind ? 1 : 0];
      case ActionPhase::kBackwardWeight:
        return stage.weight;
      case ActionPhase::kRecompute:
      case ActionPhase::kEarlyRecompute:
        return stage.recompute;
    }
    return -1;
  }

  std::vector<TransferEvent> transfers(const ScheduleTiming& timing) const {
    std::vector<TransferEvent> events;
    const ActionDurations durations;
    for (std::size_t rank = 0; rank < calls_.size(); ++rank) {
      std::size_t i = 0;  // of the call's first action
      for (const PlannedCall& call : calls_[rank]) {
        double end = timing.starts[rank][i];
        for (const Action* action : actions_of(call)) end += duration(*action, durations), ++i;
        for (const Action* action : actions_of(call)) {
          const bool forward = action->phase == ActionPhase::kForward;
          if (!forward && part_of(action->phase) != Part::kBackward) continue;
          const StageSegments& stage = segments(action->stage, action->microbatch);
          for (const StageTransfer& transfer :
               forward ? stage.sends_forward : stage.sends_backward) {
            events.push_back({end, !forward, action->stage, action->stage + (forward ? 1 : -1),
                              action->microbatch, &transfer});
          }
        }
      }
    }
    // At equal times what comes in goes before what goes out: each direction from its far end on.
    const auto key = [](const TransferEvent& e) {
      return std::tuple(e.time, e.backward, e.backward ? -e.from_stage : e.from_stage, e.mb);
    };
    std::stable_sort(
        events.begin(), events.end(),
        [&](const TransferEvent& a, const TransferEvent& b) { return key(a) < key(b); });
    return events;
  }

  /// Both in the order of communication.
  std::vector<std::vector<PlacedCall>> place(std::vector<TransferEvent>& events,
                                             const std::vector<ValidationCall>& validation) {
    std::vector<std::vector<PlacedCall>> placed(static_cast<std::size_t>(draft_.num_ranks));
    constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
    // A host that waits for a receive would not issue the action before it until then.
    const std::int64_t ahead = software_.host_waits_for_transfers(any_splits(stage_forms(schedule_))) ? 0 : 1;
    std::size_t next = 0;  // of `validation`
    const auto validate_until = [&](double time) {
      for (; next < validation.size() && validation[next].time < time; ++next) {
        const ValidationCall& call = validation[next];
        placed[static_cast<std::size_t>(call.rank)].push_back(
            {.desired = call.desired, .latest = call.latest, .validation = call.segment});
      }
    };
    for (TransferEvent& event : events) {
      validate_until(event.time);
      const Part part = event.backward ? Part::kBackward : Part::kForward;
      const std::int64_t producer = position(event.from_stage, part, event.mb);
      const std::int64_t consumer = position(event.to_stage, part, event.mb);
      auto& of_sender = placed[static_cast<std::size_t>(schedule_.rank_of(event.from_stage))];
      event.send = of_sender.size();
      of_sender.push_back({event.transfer, true, event.mb, producer + 1, producer + 1, kNever});
      auto& of_receiver = placed[static_cast<std::size_t>(schedule_.rank_of(event.to_stage))];
      event.receive = of_receiver.size();
      of_receiver.push_back({event.transfer, false, event.mb, 0,
                             std::max<std::int64_t>(0, consumer - ahead), consumer, consumer});
    }
    validate_until(std::numeric_limits<double>::infinity());
    for (auto& calls : placed) {
      std::int64_t cap = kNever;
      for (auto it = calls.rbegin(); it != calls.rend(); ++it) it->latest = cap = std::min(cap, it->latest);
      std::int64_t before = 0;
      for (PlacedCall& call : calls) {
        before = call.desired = std::min(std::max(call.desired, before), call.latest);
        check(call.desired >= call.earliest, "a transfer is placed before what it sends");
      }
    }
    choose_ways(events, placed);
    return placed;
  }

  /// Of each transfer, in the global order of communication: direct where both ends have a slot
  /// free, in the order in which they issue.
  void choose_ways(const std::vector<TransferEvent>& events,
                   std::vector<std::vector<PlacedCall>>& placed) {
    std::map<PoolId, BufferSlots> slots;
    if (!draft_.links.empty()) {
      for (const auto& [pool, fit] : buffer_slots(draft_.program)) slots.emplace(pool, fit);
    }
    for (const TransferEvent& event : events) {
      PlacedCall& send =
          placed[static_cast<std::size_t>(schedule_.rank_of(event.from_stage))][event.send];
      PlacedCall& receive =
          placed[static_cast<std::size_t>(schedule_.rank_of(event.to_stage))][event.receive];
      const StageTransfer& transfer = *event.transfer;
      send.way = receive.way = &transfer.by_host;
      if (transfer.direct.send < 0) continue;
      BufferSlots* const out = slots_of(transfer.direct.put, slots);
      BufferSlots* const in = slots_of(transfer.direct.receive, slots);
      if ((out != nullptr && !out->has_free(send.earliest)) ||
          (in != nullptr && !in->has_free(receive.desired)))
        continue;
      // A sender's slot is taken behind its producer, and free behind the action after the send; a
      // receiver's is free in front of the action that reads.
      if (out != nullptr) out->take(send.desired + 2);
      if (in != nullptr) in->take(receive.consumer + 1);
      send.way = receive.way = &transfer.direct;
    }
  }

  /// Of the buffer that a segment's first op writes; nullptr: of none.
  BufferSlots* slots_of(SegmentId segment, std::map<PoolId, BufferSlots>& slots) const {
    if (segment < 0) return nullptr;
    const ProgramOp& op = draft_.program.segments[static_cast<std::size_t>(segment)].ops.front();
    const auto found =
        slots.find(draft_.program.values[static_cast<std::size_t>(op.writes[0].value)].pool);
    return found == slots.end() ? nullptr : &found->second;
  }

  /// What puts into a sender's buffer, behind the actions that make it; what takes from a receiver's,
  /// and frees what came by its host, around the actions that read it.
  static AroundCalls around_actions(const std::vector<PlacedCall>& transfers) {
    AroundCalls out;
    for (const PlacedCall& call : transfers) {
      if (call.transfer == nullptr) continue;
      if (call.sends) {
        // At once: the send may stand further behind, and the copy would wait with the compute stream.
        if (call.way->put >= 0)
          out.puts.emplace(static_cast<std::size_t>(call.earliest - 1), std::pair(call.way->put, call.mb));
        continue;
      }
      const auto at = static_cast<std::size_t>(call.consumer);
      if (call.way->take >= 0) out.before.emplace(at, std::pair(call.way->take, call.mb));
      if (call.way->release >= 0) out.behind.emplace(at, std::pair(call.way->release, call.mb));
    }
    return out;
  }

  void add_calls(std::int32_t rank, const std::vector<PlacedCall>& transfers, std::vector<Call>& calls) {
    const auto& actions = calls_[static_cast<std::size_t>(rank)];
    const auto add = [&](SegmentId segment, Microbatch mb, Microbatch second = -1) {
      if (segment < 0) return false;
      Call call;
      call.segment = segment;
      call.mb = {mb, second};
      calls.push_back(std::move(call));
      return true;
    };
    for (const std::int32_t stage : stages_of_[static_cast<std::size_t>(rank)]) {
      add(step_.zero[static_cast<std::size_t>(stage)], -1);
    }
    const BucketCalls bucket_calls = find_bucket_calls(rank);
    const CallsAt turn_frees = find_turn_frees(rank, transfers);
    const CallsAt loads = find_loads(actions);
    const AroundCalls around = around_actions(transfers);
    const auto add_at = [&](const CallsAt& what, std::size_t at) {
      const auto [first, last] = what.equal_range(at);
      for (auto it = first; it != last; ++it) add(it->second.first, it->second.second);
    };
    std::vector<std::pair<SegmentId, Microbatch>> to_free;   // sent before the action just issued
    std::size_t next = 0;
    for (std::size_t i = 0; i <= actions.size(); ++i) {
      std::vector<std::pair<SegmentId, Microbatch>> sent;
      for (; next < transfers.size() && transfers[next].desired <= static_cast<std::int64_t>(i); ++next) {
        const PlacedCall& transfer = transfers[next];
        if (add(transfer.validation, -1)) continue;
        add(transfer.sends ? transfer.way->send : transfer.way->receive, transfer.mb);
        if (transfer.sends && transfer.way->free >= 0)
          sent.emplace_back(transfer.way->free, transfer.mb);
      }
      if (i == actions.size()) {
        to_free.insert(to_free.end(), sent.begin(), sent.end());
      } else {
        add_at(loads, i);
        add_at(around.before, i);
        add(segment_of(actions[i]), actions[i].action.microbatch,
            actions[i].with ? actions[i].with->microbatch : -1);
        if (const auto found = bucket_calls.find(i); found != bucket_calls.end()) {
          calls.back().inside.assign(found->second.begin(), found->second.end());
        }
      }
      add_at(around.behind, i);
      // What was sent before the previous action has had a whole action's time to leave.
      for (const auto& [segment, mb] : to_free) add(segment, mb);
      to_free = std::move(sent);
      if (i == actions.size()) to_free.clear();
      add_at(around.puts, i);
      add_at(turn_frees, i);
    }
    add_tail(rank, calls, add);
  }

  std::size_t last_compute_call(const std::vector<Call>& calls) const {
    std::size_t last = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const Phase phase = draft_.program.segments[static_cast<std::size_t>(calls[i].segment)].phase;
      if (phase <= Phase::kRecompute) last = i;
    }
    return last;
  }

  bool overlaps(const Bucket& bucket) const {
    return software_.overlap_data_parallel && !bucket.partial;
  }

  /// What is called inside the call of an action: [action] -> (op, reduction of a bucket),
  /// ascending.
  using BucketCalls = std::map<std::size_t, std::vector<std::pair<std::uint32_t, SegmentId>>>;

  /// Each bucket of the rank is reduced inside the last call that adds to it, behind the last op
  /// that does.
  BucketCalls find_bucket_calls(std::int32_t rank) {
    std::map<SegmentId, std::vector<std::pair<std::uint32_t, std::size_t>>> adds;  // (op, bucket)
    std::size_t left = 0;
    for (const std::size_t i : draft_.plan.of_rank[static_cast<std::size_t>(rank)]) {
      if (!overlaps(draft_.plan.buckets[i]) || step_.buckets[i].reduce < 0) continue;
      check(!step_.buckets[i].added_by.empty(), "something adds to every bucket");
      for (const auto& [segment, op] : step_.buckets[i].added_by) adds[segment].emplace_back(op, i);
      ++left;
    }
    BucketCalls out;
    std::vector<bool> found(step_.buckets.size(), false);
    const auto& actions = calls_[static_cast<std::size_t>(rank)];
    for (std::size_t i = actions.size(); i-- > 0 && left > 0;) {
      const auto of_segment = adds.find(segment_of(actions[i]));
      if (of_segment == adds.end()) continue;
      for (const auto& [op, bucket] : of_segment->second) {
        if (found[bucket]) continue;
        found[bucket] = true;
        out[i].emplace_back(op, step_.buckets[bucket].reduce);
        --left;
      }
      adds.erase(of_segment);
    }
    for (auto& [action, inside] : out) {
      std::stable_sort(inside.begin(), inside.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    return out;
  }

  /// What an action needs back from the host at its begin is copied beside the action before, unless that is the
  /// forward that sends it there.
  CallsAt find_loads(const std::vector<PlannedCall>& calls) {
    CallsAt out;
    for (std::size_t i = 0; i < calls.size() && !draft_.loads_ahead.empty(); ++i) {
      for (const Action* action : actions_of(calls[i])) {
        const auto load = draft_.loads_ahead.find(segment_of(*action));
        if (load == draft_.loads_ahead.end()) continue;
        const auto forward =
            static_cast<std::size_t>(position(action->stage, Part::kForward, action->microbatch));
        out.emplace(std::max(i - 1, forward + 1), std::pair(load->second, action->microbatch));
      }
    }
    return out;
  }

  static bool is_in(const std::vector<StageTransfer>& all, const StageTransfer* one) {
    return std::any_of(all.begin(), all.end(), [&](const StageTransfer& it) { return &it == one; });
  }

  /// Behind the last action of both stages at the turn that touches it, and the one behind its
  /// sends.
  CallsAt find_turn_frees(std::int32_t rank, const std::vector<PlacedCall>& transfers) {
    CallsAt out;
    for (const HandedOver& handed : draft_.handed_over) {
      if (schedule_.rank_of(handed.turning_stage) != rank) continue;
      std::vector<std::int64_t> last(static_cast<std::size_t>(schedule_.num_microbatches), 0);
      const auto see = [&](Microbatch mb, std::int64_t at) {
        last[static_cast<std::size_t>(mb)] = std::max(last[static_cast<std::size_t>(mb)], at);
      };
      const auto see_stage = [&](std::int32_t stage, TouchSet touches) {
        for (const auto& [touch, part] :
             {std::pair(kForward, Part::kForward), std::pair(kRecompute, Part::kRecompute),
              std::pair(kBackward, Part::kBackward), std::pair(kWeight, Part::kWeight)}) {
          if ((touches & touch) == 0) continue;
          // Where a microbatch has no R or W of its own, its backward does that.
          for (Microbatch mb = 0; mb < schedule_.num_microbatches; ++mb) {
            see(mb, std::max(position(stage, part, mb),
                             touch == kForward ? -1 : position(stage, Part::kBackward, mb)));
          }
        }
        for (const PlacedCall& call : transfers) {
          if (call.transfer == nullptr) continue;
          const StageSegments& of_stage = segments(stage, call.mb);
          const bool sends =
              call.sends &&
              (((touches & kSendF) != 0 && is_in(of_stage.sends_forward, call.transfer)) ||
               ((touches & kSendB) != 0 && is_in(of_stage.sends_backward, call.transfer)));
          if (sends) see(call.mb, call.desired);
        }
      };
      see_stage(handed.turning_stage, handed.by_turning);
      see_stage(handed.turning_stage - 1, handed.by_before);
      for (Microbatch mb = 0; mb < schedule_.num_microbatches; ++mb) {
        if (!draft_.size_of.empty() && draft_.size_of[static_cast<std::size_t>(mb)] != handed.size) continue;
        out.emplace(static_cast<std::size_t>(last[static_cast<std::size_t>(mb)]),
                    std::pair(handed.free, mb));
      }
    }
    return out;
  }

  template <typename Add>
  void add_tail(std::int32_t rank, std::vector<Call>& calls, const Add& add) {
    const auto& own = draft_.plan.of_rank[static_cast<std::size_t>(rank)];
    // A framework that does not overlap starts its reductions when the whole backward has ended.
    const CallRef last_compute{static_cast<std::uint32_t>(last_compute_call(calls))};
    for (const std::size_t i : own) {
      add(step_.buckets[i].reduce_tensor, -1);
      if (overlaps(draft_.plan.buckets[i]) || !add(step_.buckets[i].reduce, -1)) continue;
      if (!software_.overlap_data_parallel) calls.back().after.push_back(last_compute);
    }
    for (const std::size_t i : own) add(step_.buckets[i].reduce_tied, -1);
    add(step_.loss[static_cast<std::size_t>(rank)], -1);
    add(step_.norm[static_cast<std::size_t>(rank)], -1);
    add(step_.update[static_cast<std::size_t>(rank)], -1);
  }

  ProgramDraft& draft_;
  const StepSegments& step_;
  const PipelineSchedule schedule_;  // of calls
  const std::vector<std::vector<PlannedCall>> calls_;  // [rank]
  const SoftwareProfile& software_;
  std::vector<std::vector<std::int32_t>> stages_of_;  // [rank], ascending
  std::vector<std::int32_t> position_;  // [stage][part][microbatch] -> index on its rank
};

}  // namespace

std::variant<bool, Infeasible> lower(ProgramDraft& draft, const StepSegments& step,
                                     const PipelineSchedule& schedule,
                                     const SoftwareProfile& software) {
  if (auto reason = Lowering(draft, step, schedule, software).run()) return *reason;
  return true;
}

}  // namespace trainyard
