#include "engine/schedule/automatic_zero_bubble.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "engine/schedule/whole_backwards.h"
#include "engine/schedule/zero_bubble.h"

namespace trainyard {

namespace {

struct Choices {
  bool delay_first_backward = false;
  bool leave_forwards_out = false;
  bool fill_short_gaps = false;
};

/// How long a pipeline takes.
struct Length {
  double makespan = 0;
  double longest_span = 0;
};

/// Sums of the same durations in another order differ by rounding.
bool shorter(const Length& a, const Length& b, bool steps_overlap) {
  const double same = 1e-9 * b.makespan;
  const double of_makespans = a.makespan - b.makespan, of_spans = a.longest_span - b.longest_span;
  const double first = steps_overlap ? of_spans : of_makespans;
  return (std::abs(first) > same ? first : steps_overlap ? of_makespans : of_spans) < -same;
}

class OrderSearch {
 public:
  OrderSearch(const Numbered<ActionDurations>& of_stage, double transfer, int num_microbatches,
              int memory_limit, const Choices& choices)
      : of_stage_(of_stage),
        transfer_(transfer),
        num_microbatches_(num_microbatches),
        memory_limit_(memory_limit),
        choices_(choices),
        ranks_(of_stage.size()) {}

  PipelineSchedule make() {
    warm_up();
    for (int mb = 1; mb < num_microbatches_; ++mb) {
      forwards_of_a_round();
      for (std::size_t s = ranks_.size(); s-- > 0;) {
        fill_gap(s, backward_arrives(s));
        backward(s);
      }
    }
    for (std::size_t s = 0; s < ranks_.size(); ++s) {
      while (ranks_[s].owed() > 0) weight(s);
    }
    PipelineSchedule schedule{static_cast<int>(ranks_.size()), num_microbatches_, {}};
    for (Rank& rank : ranks_) schedule.actions.push_back(std::move(rank.actions));
    return schedule;
  }

  Length length() const {
    Length length;
    for (const Rank& rank : ranks_) {
      length.longest_span = std::max(length.longest_span, rank.free - rank.first_start);
      length.makespan = std::max(length.makespan, rank.free);
    }
    return length;
  }

 private:
  struct Rank {
    std::vector<double> forward_ends;   // [microbatch]
    std::vector<double> backward_ends;  // [microbatch]: of I
    int weights = 0;
    double free = 0;  // end of its last action
    double first_start = 0;
    double idle = 0;  // since its first start
    std::vector<Action> actions;

    int forwards() const { return static_cast<int>(forward_ends.size()); }
    int backwards() const { return static_cast<int>(backward_ends.size()); }
    int held() const { return forwards() - weights; }
    int owed() const { return backwards() - weights; }
  };

  double forward_arrives(std::size_t s) const {
    return s == 0 ? 0 : ranks_[s - 1].forward_ends[ranks_[s].forward_ends.size()] + transfer_;
  }
  double backward_arrives(std::size_t s) const {
    if (s + 1 == ranks_.size()) return 0;
    return ranks_[s + 1].backward_ends[ranks_[s].backward_ends.size()] + transfer_;
  }

  void run(std::size_t s, ActionPhase phase, int microbatch, double ready, double time) {
    Rank& rank = ranks_[s];
    const double start = std::max(rank.free, ready);
    if (rank.actions.empty()) {
      rank.first_start = start;
    } else {
      rank.idle += start - rank.free;
    }
    longest_idle_ = std::max(longest_idle_, rank.idle);
    rank.free = start + time;
    rank.actions.push_back({static_cast<int>(s), phase, microbatch});
  }
  void forward(std::size_t s) {
    run(s, ActionPhase::kForward, ranks_[s].forwards(), forward_arrives(s), of_stage_[s].forward);
    ranks_[s].forward_ends.push_back(ranks_[s].free);
  }
  void backward(std::size_t s) {
    run(s, ActionPhase::kBackwardInput, ranks_[s].backwards(), backward_arrives(s),
        of_stage_[s].input);
    ranks_[s].backward_ends.push_back(ranks_[s].free);
  }
  void weight(std::size_t s) {
    run(s, ActionPhase::kBackwardWeight, ranks_[s].weights, 0, of_stage_[s].weight);
    ++ranks_[s].weights;
  }

  /// W until `arrival`, when what the rank runs next is there.
  void fill_gap(std::size_t s, double arrival) {
    Rank& rank = ranks_[s];
    while (rank.owed() > 0 && rank.free + of_stage_[s].weight <= arrival) weight(s);
    if (!choices_.fill_short_gaps || rank.owed() == 0 || rank.free >= arrival) return;
    if (rank.idle + arrival - rank.free > longest_idle_) weight(s);
  }

  /// Forwards of each stage before its first backward, beyond the very first: [stage].
  std::vector<int> warm_up_forwards() const {
    std::vector<int> more(ranks_.size());
    double gradient = 0;  // when the first gradient leaves the stage behind
    for (std::size_t s = ranks_.size(); s-- > 0;) {
      const bool last = s + 1 == ranks_.size();
      const double arrival = last ? 0 : gradient + transfer_;
      double free = ranks_[s].free;
      while (!last && 1 + more[s] < std::min(num_microbatches_, memory_limit_)) {
        const double until = choices_.delay_first_backward ? free : free + of_stage_[s].forward;
        if (choices_.delay_first_backward ? until >= arrival : until > arrival) break;
        free += of_stage_[s].forward;
        ++more[s];
      }
      gradient = std::max(free, arrival) + of_stage_[s].input;
    }
    // A stage has more than the next one, or both have all.
    for (std::size_t s = 1; s < more.size(); ++s) {
      const bool all = 1 + more[s - 1] == num_microbatches_;
      more[s] = std::min(more[s], all ? more[s - 1] : std::max(0, more[s - 1] - 1));
    }
    return more;
  }

  void warm_up() {
    for (std::size_t s = 0; s < ranks_.size(); ++s) forward(s);
    const std::vector<int> more = warm_up_forwards();
    for (std::size_t s = 0; s < ranks_.size(); ++s) {
      for (int i = 0; i < more[s]; ++i) forward(s);
    }
    for (std::size_t s = ranks_.size(); s-- > 0;) backward(s);
  }

  /// Whether the stage, ahead of the next by two forwards or more, should leave one out: it, and
  /// the W that make room for it, would end after the next stage wants to send a gradient back, and
  /// the time it would otherwise idle makes no rank's idle time the longest.
  bool leaves_forward_out(std::size_t s) const {
    if (!choices_.leave_forwards_out || s + 1 == ranks_.size()) return false;
    const Rank& rank = ranks_[s];
    const Rank& next = ranks_[s + 1];
    if (rank.forwards() < next.forwards() + 2) return false;
    const ActionDurations& of_next = of_stage_[s + 1];
    const double gradient = next.free + of_next.forward + of_next.input + transfer_;
    if (rank.free >= gradient) return true;
    const int room = std::min(rank.owed(), std::max(0, rank.held() + 1 - memory_limit_));
    const double end = rank.free + room * of_stage_[s].weight + of_stage_[s].forward;
    if (end <= gradient) return false;
    const double filled = std::min(gradient - rank.free, rank.owed() * of_stage_[s].weight);
    return gradient - rank.free - filled <= longest_idle_ - rank.idle;
  }

  /// One forward of each stage, but for those that leave it out and all before them.
  void forwards_of_a_round() {
    std::size_t first = 0;
    for (std::size_t s = 0; s < ranks_.size(); ++s) {
      if (ranks_[s].forwards() < num_microbatches_ && leaves_forward_out(s)) first = s + 1;
    }
    for (std::size_t s = first; s < ranks_.size(); ++s) {
      if (ranks_[s].forwards() == num_microbatches_) continue;
      while (ranks_[s].held() >= memory_limit_) weight(s);
      fill_gap(s, forward_arrives(s));
      forward(s);
    }
  }

  const Numbered<ActionDurations>& of_stage_;
  double transfer_;
  int num_microbatches_;
  int memory_limit_;
  Choices choices_;
  std::vector<Rank> ranks_;
  double longest_idle_ = 0;
};

/// The shortest of what is offered, of equal ones the first.
class Best {
 public:
  explicit Best(bool steps_overlap) : steps_overlap_(steps_overlap) {}
  void offer(const Length& length, PipelineSchedule schedule) {
    if (!best_ || shorter(length, best_->first, steps_overlap_))
      best_ = {length, std::move(schedule)};
  }
  const Length& length() const { return best_->first; }
  const PipelineSchedule& schedule() const { return best_->second; }
  PipelineSchedule take() { return std::move(best_->second); }

 private:
  bool steps_overlap_;
  std::optional<std::pair<Length, PipelineSchedule>> best_;
};

/// An order made elsewhere, if it keeps the limit.
void offer_made(PipelineSchedule schedule, const Numbered<ActionDurations>& of_stage,
                double transfer, int memory_limit, Best& best) {
  for (int rank = 0; rank < schedule.num_ranks(); ++rank)
    if (peak_in_flight(schedule, rank) > memory_limit) return;
  const auto timed = time_schedule(schedule, of_stage, transfer);
  const auto& timing = std::get<ScheduleTiming>(timed);
  Length length{timing.makespan, 0};
  for (std::size_t rank = 0; rank < timing.starts.size(); ++rank) {
    const Action& last = schedule.actions[rank].back();
    const double end = timing.starts[rank].back() + duration(last, of_stage[last.stage]);
    length.longest_span = std::max(length.longest_span, end - timing.starts[rank].front());
  }
  best.offer(length, std::move(schedule));
}

/// 1F1B, every backward as an I with its W behind it.
PipelineSchedule halved_one_f_one_b(int num_stages, int num_microbatches) {
  PipelineSchedule schedule = one_f_one_b(num_stages, num_microbatches);
  for (auto& actions : schedule.actions) {
    std::vector<Action> halves;
    for (const Action& action : actions) {
      if (action.phase != ActionPhase::kBackward) {
        halves.push_back(action);
        continue;
      }
      halves.push_back({action.stage, ActionPhase::kBackwardInput, action.microbatch});
      halves.push_back({action.stage, ActionPhase::kBackwardWeight, action.microbatch});
    }
    actions = std::move(halves);
  }
  return schedule;
}

}  // namespace

PipelineSchedule automatic_zero_bubble(const Numbered<ActionDurations>& of_stage, double transfer,
                                       int num_microbatches, int memory_limit, bool steps_overlap) {
  const auto num_stages = static_cast<int>(of_stage.size());
  Best best(steps_overlap);
  std::vector<PipelineSchedule> in_halves;
  const auto search = [&](int limit) {
    Best of_limit(steps_overlap);
    for (const bool delay : {false, true}) {
      for (const bool leave : {false, true}) {
        for (const bool fill : {false, true}) {
          OrderSearch order(of_stage, transfer, num_microbatches, limit, {delay, leave, fill});
          PipelineSchedule schedule = order.make();
          of_limit.offer(order.length(), std::move(schedule));
        }
      }
    }
    in_halves.push_back(of_limit.schedule());
    best.offer(of_limit.length(), of_limit.take());
  };
  search(memory_limit);
  if (memory_limit > num_stages) search(num_stages);
  offer_made(zb_h1(num_stages, num_microbatches), of_stage, transfer, memory_limit, best);
  offer_made(halved_one_f_one_b(num_stages, num_microbatches), of_stage, transfer, memory_limit,
             best);
  if (whole_is_faster(of_stage)) {
    in_halves.push_back(zb_h1(num_stages, num_microbatches));
    in_halves.push_back(halved_one_f_one_b(num_stages, num_microbatches));
    for (PipelineSchedule& halves : in_halves)
      offer_made(with_whole_backwards(std::move(halves)), of_stage, transfer, memory_limit, best);
    offer_made(one_f_one_b(num_stages, num_microbatches), of_stage, transfer, memory_limit, best);
  }
  return best.take();
}

}  // namespace trainyard
