#include "engine/passes/lower.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engine/passes/action_places.h"
#include "engine/passes/placed_transfers.h"
#include "engine/passes/planned_calls.h"
#include "engine/passes/pool_slots.h"
#include "engine/passes/post_validation.h"
#include "engine/program/communication_order.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

namespace {

/// What is called before or behind an action: [action] -> segment, microbatch.
using CallsAt = std::multimap<std::int64_t, std::pair<SegmentId, Microbatch>>;

struct AroundCalls {
  CallsAt before, behind;
  CallsAt puts;  // behind what the action frees
};

/// What is called for an action, and right before it, or nothing.
struct ActionCall {
  SegmentId before = kNoIndex, segment = kNoIndex;
  Microbatch second = -1;  // of a segment of two microbatches
};

class Lowering {
 public:
  Lowering(ProgramDraft& draft, const PipelineSchedule& schedule, const SoftwareProfile& software)
      : draft_(draft),
        step_(draft.step),
        schedule_(without_late_recompute(schedule)),
        calls_(planned_calls(schedule_)),
        software_(software),
        places_(draft, schedule_, calls_) {}

  std::optional<Infeasible> run() {
    auto timed = time_schedule(schedule_, {});
    if (auto* reason = std::get_if<Infeasible>(&timed)) return *reason;
    const auto& timing = std::get<ScheduleTiming>(timed);
    const auto validation = validation_calls(draft_, calls_, timing);
    const auto fill = [&](TransferOrder order) {
      fill_lists(place_transfers(draft_, schedule_, calls_, places_, timing, validation, order));
    };
    // A host that waits for a receive would not issue the action before it until then.
    if (!draft_.host_waits) {
      fill(TransferOrder::kAhead);
    } else if (!validation.empty() || !draft_.links.empty()) {
      fill(TransferOrder::kInSeries);
    } else {
      fill(TransferOrder::kBatched);
      if (!has_communication_order(draft_.program)) fill(TransferOrder::kInSeries);
    }
    count_slots(draft_.program);
    return std::nullopt;
  }

 private:
  void fill_lists(const Indexed<std::int32_t, std::vector<PlacedTransfer>>& placed) {
    Program& program = draft_.program;
    program.num_microbatches = schedule_.num_microbatches;
    program.body.clear();
    for (const std::int32_t c : draft_.classes.keys()) {
      RankClass& list = program.body.emplace_back();
      list.ranks = ranks_at(program.mesh, draft_.classes[c].rank);
      list.ranks.replicas = draft_.classes[c].replicas;
      add_calls(c, placed[c], list.calls);
    }
  }

  /// What puts into a sender's buffer, behind the actions that make it; what takes from a
  /// receiver's, and frees what came by its host, around the actions that read it.
  static AroundCalls around_actions(const std::vector<PlacedTransfer>& transfers) {
    AroundCalls out;
    for (const PlacedTransfer& call : transfers) {
      if (call.transfer == nullptr) continue;
      if (call.sends) {
        // At once: the send may stand further behind, and the copy would wait with the compute
        // stream.
        if (call.way->put != kNoIndex)
          out.puts.emplace(call.earliest - 1, std::pair(call.way->put, call.mb));
        continue;
      }
      const std::int64_t at = call.consumer;
      if (call.way->take != kNoIndex) out.before.emplace(at, std::pair(call.way->take, call.mb));
      if (call.way->release != kNoIndex)
        out.behind.emplace(at, std::pair(call.way->release, call.mb));
    }
    return out;
  }

  void add_calls(std::int32_t of_class, const std::vector<PlacedTransfer>& transfers,
                 std::vector<Call>& calls) {
    const std::int32_t rank = draft_.classes[of_class].rank;
    const auto& actions = calls_[rank];
    const auto add = [&](SegmentId segment, Microbatch mb, Microbatch second = -1) {
      if (segment == kNoIndex) return false;
      Call call;
      call.segment = segment;
      call.mb = {mb, second};
      calls.push_back(std::move(call));
      return true;
    };
    for (std::int32_t stage = 0; stage < draft_.num_stages; ++stage) {
      if (schedule_.rank_of(stage) == rank) add(step_.zero[stage], -1);
    }
    add(step_.gather[rank], -1);
    const std::vector<ActionCall> own = find_calls(of_class);
    const BucketCalls bucket_calls = find_bucket_calls(rank, own);
    const CallsAt turn_frees = find_turn_frees(of_class, transfers);
    const CallsAt loads = find_loads(of_class);
    const AroundCalls around = around_actions(transfers);
    const auto add_at = [&](const CallsAt& what, std::size_t at) {
      const auto [first, last] = what.equal_range(at);
      for (auto it = first; it != last; ++it) add(it->second.first, it->second.second);
    };
    std::vector<std::pair<SegmentId, Microbatch>> to_free;  // sent before the action just issued
    std::size_t next = 0;
    for (std::size_t i = 0; i <= actions.size(); ++i) {
      std::vector<std::pair<SegmentId, Microbatch>> sent;
      for (; next < transfers.size() && transfers[next].desired <= static_cast<std::int64_t>(i);
           ++next) {
        const PlacedTransfer& transfer = transfers[next];
        if (add(transfer.validation, -1)) continue;
        add(transfer.sends ? transfer.way->send : transfer.way->receive, transfer.mb);
        if (transfer.sends && transfer.way->free != kNoIndex)
          sent.emplace_back(transfer.way->free, transfer.mb);
      }
      if (i == actions.size()) {
        to_free.insert(to_free.end(), sent.begin(), sent.end());
      } else {
        add_at(loads, i);
        add_at(around.before, i);
        add(own[i].before, actions[i].action.microbatch);
        add(own[i].segment, actions[i].action.microbatch, own[i].second);
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
    add_tail(of_class, calls, add);
  }

  /// What is called for each action of a rank. A call whose next one finds its first units gathered
  /// gathers them; what gathers for the first of all is called before it.
  std::vector<ActionCall> find_calls(std::int32_t of_class) const {
    const auto& actions = calls_[draft_.classes[of_class].rank];
    std::vector<ActionCall> out;
    SegmentId last = kNoIndex;  // before it became one that gathers ahead
    std::size_t last_at = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      ActionCall& call = out.emplace_back();
      call.segment = places_.segment_of(of_class, actions[i]);
      if (actions[i].with) call.second = actions[i].with->microbatch;
      if (call.segment == kNoIndex) continue;
      const Microbatch mb = actions[i].action.microbatch;
      if (last == kNoIndex) {
        const auto first = draft_.gathers_first.find(call.segment);
        if (first != draft_.gathers_first.end()) call.before = first->second;
      } else {
        const bool same = actions[last_at].action.microbatch == mb;
        const auto ahead = draft_.gathers_ahead.find({last, call.segment, same});
        if (ahead != draft_.gathers_ahead.end()) {
          out[last_at].segment = ahead->second;
          if (!same) out[last_at].second = mb;
        }
      }
      last = call.segment;
      last_at = i;
    }
    return out;
  }

  std::size_t last_compute_call(const std::vector<Call>& calls) const {
    std::size_t last = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const Phase phase = draft_.program.segments[calls[i].segment].phase;
      if (phase <= Phase::kRecompute) last = i;
    }
    return last;
  }

  bool overlaps(const Bucket& bucket) const {
    return software_.overlap_data_parallel && bucket.partial == 0;
  }

  /// What is called inside the call of an action: [action] -> (op, reduction of a bucket, or its
  /// copy to the host), ascending.
  using BucketCalls = std::map<std::size_t, std::vector<std::pair<std::uint32_t, SegmentId>>>;

  /// Whether the gradient goes to the host as soon as it is whole.
  bool copies_inside(std::size_t i) const {
    const Bucket& bucket = draft_.plan.buckets[i];
    return step_.buckets[i].copy_out != kNoIndex && overlaps(bucket) && bucket.tied.empty();
  }

  /// Each bucket of the rank is reduced inside the last call that adds to it, behind the last op
  /// that does, and copied to the host behind that.
  BucketCalls find_bucket_calls(std::int32_t rank, const std::vector<ActionCall>& calls) {
    std::map<SegmentId, std::vector<std::pair<std::uint32_t, std::size_t>>> adds;  // (op, bucket)
    std::size_t left = 0;
    for (const std::size_t i : draft_.plan.of_rank[rank]) {
      const bool reduces = overlaps(draft_.plan.buckets[i]) && step_.buckets[i].reduce != kNoIndex;
      if (!reduces && !copies_inside(i)) continue;
      check(!step_.buckets[i].added_by.empty(), "something adds to every bucket");
      for (const auto& [segment, op] : step_.buckets[i].added_by) adds[segment].emplace_back(op, i);
      ++left;
    }
    BucketCalls out;
    std::vector<bool> found(step_.buckets.size(), false);
    for (std::size_t i = calls.size(); i-- > 0 && left > 0;) {
      const auto of_segment = adds.find(calls[i].segment);
      if (of_segment == adds.end()) continue;
      for (const auto& [op, bucket] : of_segment->second) {
        if (found[bucket]) continue;
        found[bucket] = true;
        if (step_.buckets[bucket].reduce != kNoIndex)
          out[i].emplace_back(op, step_.buckets[bucket].reduce);
        if (copies_inside(bucket)) out[i].emplace_back(op, step_.buckets[bucket].copy_out);
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

  /// What an action needs back from the host at its begin is copied beside the action before,
  /// unless that is the forward that sends it there.
  CallsAt find_loads(std::int32_t of_class) {
    const std::vector<PlannedCall>& calls = calls_[draft_.classes[of_class].rank];
    CallsAt out;
    for (std::size_t i = 0; i < calls.size() && !draft_.loads_ahead.empty(); ++i) {
      for (const Action* action : actions_of(calls[i])) {
        const auto load = draft_.loads_ahead.find(places_.segment_of(of_class, *action));
        if (load == draft_.loads_ahead.end()) continue;
        const auto forward =
            static_cast<std::size_t>(places_(action->stage, Part::kForward, action->microbatch));
        out.emplace(std::max(i - 1, forward + 1), std::pair(load->second, action->microbatch));
      }
    }
    return out;
  }

  static bool is_in(const std::vector<StageTransfer>& all, const StageTransfer* one) {
    return std::any_of(all.begin(), all.end(), [&](const StageTransfer& it) { return &it == one; });
  }

  /// Behind the last action of the stages that touch it, and the one behind its sends.
  CallsAt find_turn_frees(std::int32_t of_class, const std::vector<PlacedTransfer>& transfers) {
    const std::int32_t rank = draft_.classes[of_class].rank;
    CallsAt out;
    for (const HandedOver& handed : draft_.handed_over) {
      if (schedule_.rank_of(handed.by_stage.front().first) != rank) continue;
      Numbered<std::int64_t> last(schedule_.num_microbatches, 0);
      const auto see = [&](Microbatch mb, std::int64_t at) { last[mb] = std::max(last[mb], at); };
      const auto see_stage = [&](std::int32_t stage, TouchSet touches) {
        for (const auto& [touch, part] :
             {std::pair(kForward, Part::kForward), std::pair(kRecompute, Part::kRecompute),
              std::pair(kBackward, Part::kBackward), std::pair(kWeight, Part::kWeight)}) {
          if ((touches & touch) == 0) continue;
          // Where a microbatch has no R or W of its own, its backward does that.
          for (Microbatch mb = 0; mb < schedule_.num_microbatches; ++mb) {
            see(mb, std::max(places_(stage, part, mb),
                             touch == kForward ? -1 : places_(stage, Part::kBackward, mb)));
          }
        }
        for (const PlacedTransfer& call : transfers) {
          if (call.transfer == nullptr) continue;
          const StageSegments& of_stage = draft_.segments(of_class, stage, call.mb);
          const bool sends =
              call.sends &&
              (((touches & kSendF) != 0 && is_in(of_stage.sends_forward, call.transfer)) ||
               ((touches & kSendB) != 0 && is_in(of_stage.sends_backward, call.transfer)));
          if (sends) see(call.mb, call.desired);
        }
      };
      for (const auto& [stage, touches] : handed.by_stage) see_stage(stage, touches);
      for (Microbatch mb = 0; mb < schedule_.num_microbatches; ++mb) {
        const std::size_t size = draft_.size_of.empty() ? 0 : draft_.size_of[mb];
        if (draft_.classes[of_class].local[size] != handed.size) continue;
        out.emplace(last[mb], std::pair(handed.free, mb));
      }
    }
    return out;
  }

  template <typename Add>
  void add_tail(std::int32_t of_class, std::vector<Call>& calls, const Add& add) {
    const std::int32_t rank = draft_.classes[of_class].rank;
    const auto& own = draft_.plan.of_rank[rank];
    // A framework that does not overlap starts its reductions when the whole backward has ended.
    const CallRef last_compute{static_cast<std::uint32_t>(last_compute_call(calls))};
    for (const std::size_t i : own) {
      add(step_.buckets[i].reduce_tensor, -1);
      if (overlaps(draft_.plan.buckets[i]) || !add(step_.buckets[i].reduce, -1)) continue;
      if (!software_.overlap_data_parallel) calls.back().after.push_back(last_compute);
    }
    for (const std::size_t i : own) add(step_.buckets[i].reduce_tied, -1);
    for (const std::size_t i : own) {
      if (copies_inside(i) || !add(step_.buckets[i].copy_out, -1)) continue;
      if (!software_.overlap_data_parallel) calls.back().after.push_back(last_compute);
    }
    add(step_.loss[rank], -1);
    add(step_.norm_of_class.empty() ? step_.norm[rank] : step_.norm_of_class[of_class], -1);
    add(step_.update[rank], -1);
  }

  ProgramDraft& draft_;
  const StepSegments& step_;
  const PipelineSchedule schedule_;                 // of calls
  const Numbered<std::vector<PlannedCall>> calls_;  // [rank]
  const SoftwareProfile& software_;
  const ActionPlaces places_;
};

}  // namespace

std::optional<Infeasible> lower(ProgramDraft& draft, const PipelineSchedule& schedule,
                                const SoftwareProfile& software) {
  return Lowering(draft, schedule, software).run();
}

}  // namespace trainyard
