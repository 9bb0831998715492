// Where the calls of a validation stand (post_validation.h).
#include <algorithm>
#include <limits>

#include "engine/base/error.h"
#include "engine/passes/post_validation.h"

namespace trainyard {

namespace {

bool is_backward(ActionPhase phase) {
  return phase == ActionPhase::kBackward || phase == ActionPhase::kBackwardInput ||
         phase == ActionPhase::kBackwardWeight;
}

/// When a rank's calls begin, and the first of them that adds to gradients.
struct RankBegins {
  Numbered<double> at;  // [call], ascending
  std::int64_t backward = 0;
  double first_backward() const { return at[backward]; }
  std::int64_t call_at(double time) const {
    return std::lower_bound(at.begin(), at.end(), time) - at.begin();
  }
};

RankBegins begins(const std::vector<PlannedCall>& calls, const std::vector<double>& starts) {
  RankBegins out;
  out.backward = static_cast<std::int64_t>(calls.size());
  std::size_t action = 0;
  for (const PlannedCall& call : calls) {
    const auto actions = actions_of(call);
    const bool adds = std::any_of(actions.begin(), actions.end(),
                                  [](const Action* one) { return is_backward(one->phase); });
    if (adds) out.backward = std::min(out.backward, static_cast<std::int64_t>(out.at.size()));
    out.at.push_back(starts[action]);
    action += actions.size();
  }
  check(out.backward < static_cast<std::int64_t>(calls.size()), "every rank has a backward");
  return out;
}

}  // namespace

std::vector<ValidationCall> validation_calls(const ProgramDraft& draft,
                                             const Numbered<std::vector<PlannedCall>>& calls,
                                             const ScheduleTiming& timing) {
  std::vector<ValidationCall> out;
  const StepSegments& step = draft.step;
  if (step.validate.empty()) return out;
  const auto for_classes = [&](std::int32_t of_rank, const auto& visit) {
    for (const std::int32_t c : draft.classes.keys()) {
      if (draft.classes[c].rank == of_rank) visit(c);
    }
  };
  std::vector<RankBegins> of_rank;
  std::vector<double> time;  // [rank]: the earliest first backward of the ranks up to it
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    of_rank.push_back(begins(calls[rank], timing.starts[rank]));
    const double own = of_rank.back().first_backward();
    time.push_back(rank == 0 ? own : std::min(time.back(), own));
  }
  for (std::size_t rank = calls.size(); rank-- > 0;) {
    const auto r = static_cast<std::int32_t>(rank);
    if (rank + 1 < calls.size()) {
      for_classes(r + 1, [&](std::int32_t c) {
        if (step.pass_norm[c] == kNoIndex) return;
        out.push_back({time[rank], c, step.pass_norm[c], of_rank[rank + 1].call_at(time[rank]),
                       std::numeric_limits<std::int64_t>::max()});
      });
    }
    const RankBegins& own = of_rank[rank];
    for_classes(r, [&](std::int32_t c) {
      const auto add = [&](SegmentId segment) {
        out.push_back({time[rank], c, segment, own.call_at(time[rank]), own.backward});
      };
      add(step.validate[c]);
      add(step.correct[c]);
      for (const SegmentId zero : step.zero_of_rank[rank]) add(zero);
    });
  }
  for (const std::int32_t c : draft.classes.keys()) {
    if (step.receive_norm[c] == kNoIndex) continue;
    out.push_back({std::numeric_limits<double>::max(), c, step.receive_norm[c],
                   std::ssize(calls[draft.classes[c].rank]) - 1,
                   std::numeric_limits<std::int64_t>::max()});
  }
  return out;
}

}  // namespace trainyard
