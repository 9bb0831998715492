#include "engine/schedule/zero_bubble.h"

#include <algorithm>
#include <array>
#include <deque>

namespace trainyard {

namespace {

/// One rank's list of a V-shaped schedule: each of its two stages takes its microbatches in order.
class VRank {
 public:
  explicit VRank(int rank, int num_ranks, int num_microbatches)
      : stages_{rank, 2 * num_ranks - 1 - rank},
        num_microbatches_(num_microbatches) {}

  void forward(int half) { add(half, ActionPhase::kForward, forwards_[half]++); }
  void forward_with_next(int half) {
    forward(half);
    actions_.back().with_next = true;
  }
  void backward(int half) { add(half, ActionPhase::kBackward, backwards_[half]++); }
  void input(int half) {
    waiting_.push_back({half, backwards_[half]});
    add(half, ActionPhase::kBackwardInput, backwards_[half]++);
  }
  /// W of the longest waiting input half, of `half` or of either.
  void weight(int half) {
    const auto oldest = std::find_if(waiting_.begin(), waiting_.end(),
                                     [&](const Waiting& w) { return w.half == half; });
    put(oldest);
  }
  void weight() { put(waiting_.begin()); }

  int forwards(int half) const { return forwards_[half]; }
  bool owes(int half) const {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [&](const Waiting& w) { return w.half == half; });
  }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  struct Waiting {
    int half;
    int microbatch;
  };
  void put(const std::deque<Waiting>::iterator& which) {
    add(which->half, ActionPhase::kBackwardWeight, which->microbatch);
    waiting_.erase(which);
  }
  /// Microbatches past the last are those of a warm-up that is longer than the step.
  void add(int half, ActionPhase phase, int microbatch) {
    if (microbatch < num_microbatches_) actions_.push_back({stages_[half], phase, microbatch});
  }

  IndexedArray<int, int, 2> stages_;
  int num_microbatches_;
  IndexedArray<int, int, 2> forwards_{};
  IndexedArray<int, int, 2> backwards_{};
  std::deque<Waiting> waiting_;  // input halves without their W, oldest first
  std::vector<Action> actions_;
};

std::vector<Action> zb_v_rank(int rank, int num_ranks, int num_microbatches) {
  VRank list(rank, num_ranks, num_microbatches);
  const int count = std::max(2 * num_ranks - 1, num_microbatches);  // the warm-up of rank 0
  const auto whole = [&](int half) {
    list.input(half);
    list.weight(half);
  };
  for (int i = 0; i < 2 * (num_ranks - rank) - 1; ++i) list.forward(0);
  for (int i = 0; i < rank; ++i) {
    list.forward(1);
    list.forward(0);
  }
  for (int i = 0; i < num_ranks - rank; ++i) {
    list.forward(1);
    whole(1);
  }
  while (list.forwards(1) < list.forwards(0) || list.forwards(0) < count) {
    if (list.forwards(0) < count) list.forward(0);
    whole(0);
    list.forward(1);
    whole(1);
  }
  for (int i = 0; i < rank; ++i) {
    list.input(0);
    list.input(1);
  }
  for (int i = 0; i < num_ranks - rank; ++i) {
    list.input(0);
    list.weight(0);
  }
  for (const int half : {1, 0}) {
    while (list.owes(half)) list.weight(half);
  }
  return list.take();
}

std::vector<Action> dualpipe_v_rank(int rank, int num_ranks, int num_microbatches) {
  VRank list(rank, num_ranks, num_microbatches);
  const int after = num_ranks - rank - 1;  // ranks behind this one
  for (int i = 0; i < 2 * after; ++i) list.forward(0);
  for (int i = 0; i < rank + 1; ++i) {
    list.forward(0);
    list.forward(1);
  }
  for (int i = 0; i < after; ++i) {
    list.input(1);
    list.weight();
    list.forward(1);
  }
  for (int i = 0; i < num_microbatches - 2 * num_ranks + rank + 1; ++i) {
    // On the last rank the first backward needs the forward in front of it.
    if (i == 0 && after == 0) {
      list.forward(0);
    } else {
      list.forward_with_next(0);
    }
    list.backward(1);
    list.forward_with_next(1);
    list.backward(0);
  }
  for (int i = 0; i < after; ++i) {
    list.backward(1);
    list.forward_with_next(1);
    list.backward(0);
  }
  // In the middle of what is left, backwards begin to leave their W for the end.
  const auto backward = [&](int half, int done) {
    done < rank + 1 ? list.backward(half) : list.input(half);
  };
  for (int i = 0; i < rank + 1; ++i) {
    backward(1, 2 * i);
    backward(0, 2 * i + 1);
  }
  for (int i = 0; i < after; ++i) {
    list.weight();
    list.input(0);
  }
  for (int i = 0; i < rank + 1; ++i) list.weight();
  return list.take();
}

}  // namespace

PipelineSchedule interleaved_zb1p(int num_ranks, int stages_per_rank, int num_microbatches) {
  const RoundOrder order{num_ranks, stages_per_rank, num_microbatches,
                         default_group(num_ranks, num_microbatches)};
  PipelineSchedule schedule{num_ranks * stages_per_rank, num_microbatches, {}};
  for (int rank = 0; rank < num_ranks; ++rank) {
    auto& actions = schedule.actions.emplace_back();
    const auto add = [&](ActionPhase phase, int k) {
      actions.push_back(order.action(rank, phase, k));
    };
    const int total = order.total();
    const int warmup = std::min(total, (stages_per_rank - 1) * order.group + num_ranks - 1 - rank);
    for (int k = 0; k < warmup; ++k) add(ActionPhase::kForward, k);
    for (int k = 0; k < total; ++k) {
      if (warmup + k < total) add(ActionPhase::kForward, warmup + k);
      add(ActionPhase::kBackwardInput, k);
      if (k >= rank) add(ActionPhase::kBackwardWeight, k - rank);
    }
    for (int k = std::max(0, total - rank); k < total; ++k) add(ActionPhase::kBackwardWeight, k);
  }
  return schedule;
}

PipelineSchedule zb_h1(int num_stages, int num_microbatches) {
  return interleaved_zb1p(num_stages, 1, num_microbatches);
}

PipelineSchedule zb_v(int num_ranks, int num_microbatches) {
  PipelineSchedule schedule{2 * num_ranks, num_microbatches, {}, in_a_v(num_ranks)};
  for (int rank = 0; rank < num_ranks; ++rank) {
    schedule.actions.push_back(zb_v_rank(rank, num_ranks, num_microbatches));
  }
  return schedule;
}

PipelineSchedule dualpipe_v(int num_ranks, int num_microbatches) {
  PipelineSchedule schedule{2 * num_ranks, num_microbatches, {}, in_a_v(num_ranks)};
  for (int rank = 0; rank < num_ranks; ++rank) {
    schedule.actions.push_back(dualpipe_v_rank(rank, num_ranks, num_microbatches));
  }
  return schedule;
}

}  // namespace trainyard
