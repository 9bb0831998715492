#include "engine/schedule/pipeline_schedule.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace trainyard {

namespace {

constexpr std::string_view kLetters = "FBIWRR";  // [phase]; the second R has a star behind it

/// Why microbatches cannot go in groups of `group`; 0: of default_group().
std::optional<Infeasible> interleaved_obstacle(int ranks, int microbatches, int group) {
  const auto text = [](int number) { return std::to_string(number); };
  if (ranks < 2)
    return Infeasible{"the interleaved schedule needs at least 2 pipeline ranks",
                      "parallel.pipeline"};
  const int groups = std::max(1, microbatches / ranks);
  if (group == 0 && microbatches % groups != 0) {
    return Infeasible{"the interleaved schedule cannot divide " + text(microbatches) +
                          " microbatches into " + text(groups) + " equal groups for " +
                          text(ranks) + " pipeline ranks",
                      "training.global_batch"};
  }
  if (group == 0) return std::nullopt;
  if (group < ranks || group > microbatches) {
    return Infeasible{"a microbatch_group is from " + text(ranks) + ", the pipeline ranks, to " +
                          text(microbatches) + ", the microbatches, not " + text(group),
                      "schedule.microbatch_group"};
  }
  const int left = microbatches % group;
  if (left == 0 || left >= ranks) return std::nullopt;
  return Infeasible{text(microbatches) + " microbatches in groups of " + text(group) + " leave " +
                        text(left) + ", fewer than the " + text(ranks) +
                        " pipeline ranks, which would wait for them",
                    "schedule.microbatch_group"};
}

}  // namespace

std::string to_string(const Action& action) {
  return std::to_string(action.stage) + kLetters[static_cast<std::size_t>(action.phase)] +
         std::to_string(action.microbatch) +
         (action.phase == ActionPhase::kEarlyRecompute ? "*" : "");
}

std::vector<std::string> to_text(const std::vector<Action>& actions) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (!actions[i].with_next || i + 1 == actions.size()) {
      words.push_back(to_string(actions[i]));
      continue;
    }
    words.push_back("(" + to_string(actions[i]) + ";" + to_string(actions[i + 1]) + ")OVERLAP_F_B");
    ++i;
  }
  return words;
}

StageRanks one_each(int num_ranks) {
  StageRanks on;
  for (int rank = 0; rank < num_ranks; ++rank) on.push_back(rank);
  return on;
}

StageRanks in_a_v(int num_ranks) {
  StageRanks on;
  for (int stage = 0; stage < 2 * num_ranks; ++stage)
    on.push_back(std::min(stage, 2 * num_ranks - 1 - stage));
  return on;
}

PipelineSchedule gpipe(int num_stages, int num_microbatches) {
  PipelineSchedule schedule{num_stages, num_microbatches, {}};
  for (int stage = 0; stage < num_stages; ++stage) {
    auto& actions = schedule.actions.emplace_back();
    for (int mb = 0; mb < num_microbatches; ++mb)
      actions.push_back({stage, ActionPhase::kForward, mb});
    for (int mb = 0; mb < num_microbatches; ++mb)
      actions.push_back({stage, ActionPhase::kBackward, mb});
  }
  return schedule;
}

PipelineSchedule one_f_one_b(int num_stages, int num_microbatches) {
  PipelineSchedule schedule{num_stages, num_microbatches, {}};
  for (int stage = 0; stage < num_stages; ++stage) {
    auto& actions = schedule.actions.emplace_back();
    const int warmup = std::min(num_microbatches, num_stages - stage - 1);
    for (int mb = 0; mb < warmup; ++mb) actions.push_back({stage, ActionPhase::kForward, mb});
    for (int mb = 0; mb < num_microbatches; ++mb) {
      if (warmup + mb < num_microbatches) {
        actions.push_back({stage, ActionPhase::kForward, warmup + mb});
      }
      actions.push_back({stage, ActionPhase::kBackward, mb});
    }
  }
  return schedule;
}

Action RoundOrder::action(int rank, ActionPhase phase, int k) const {
  const int first = k / (group * stages_per_rank) * group;  // microbatch of its group
  const int size = std::min(group, num_microbatches - first);
  const int within = k - first * stages_per_rank;
  const int round = within / size;
  const int chunk = phase == ActionPhase::kForward ? round : stages_per_rank - 1 - round;
  return {chunk * num_ranks + rank, phase, first + within % size};
}

int default_group(int num_ranks, int num_microbatches) {
  return num_microbatches / std::max(1, num_microbatches / num_ranks);
}

PipelineSchedule interleaved(int num_ranks, int stages_per_rank, int num_microbatches, int group) {
  if (group == 0) group = default_group(num_ranks, num_microbatches);
  const RoundOrder order{num_ranks, stages_per_rank, num_microbatches, group};
  PipelineSchedule schedule{num_ranks * stages_per_rank, num_microbatches, {}};
  for (int rank = 0; rank < num_ranks; ++rank) {
    auto& actions = schedule.actions.emplace_back();
    const auto add = [&](ActionPhase phase, int k) {
      actions.push_back(order.action(rank, phase, k));
    };
    const int warmup =
        std::min(order.total(), (stages_per_rank - 1) * group + 2 * (num_ranks - 1 - rank));
    for (int k = 0; k < warmup; ++k) add(ActionPhase::kForward, k);
    for (int k = 0; k < order.total(); ++k) {
      if (warmup + k < order.total()) add(ActionPhase::kForward, warmup + k);
      add(ActionPhase::kBackward, k);
    }
  }
  return schedule;
}

std::variant<PipelineSchedule, Infeasible> make_schedule(const std::string& method, int num_ranks,
                                                         int stages_per_rank, int num_microbatches,
                                                         int group) {
  if (num_microbatches < 1)
    return Infeasible{"the step has no microbatch", "training.global_batch"};
  if (method == "interleaved") {
    if (auto obstacle = interleaved_obstacle(num_ranks, num_microbatches, group)) return *obstacle;
    return interleaved(num_ranks, stages_per_rank, num_microbatches, group);
  }
  if (stages_per_rank != 1) {
    return Infeasible{"schedule " + method + " runs one stage per rank, not " +
                          std::to_string(stages_per_rank) + "; interleaved runs several",
                      "parallel.virtual_stages"};
  }
  if (method == "gpipe") return gpipe(num_ranks, num_microbatches);
  if (method == "1f1b") return one_f_one_b(num_ranks, num_microbatches);
  return Infeasible{
      "no schedule is called '" + method + "'; this version has gpipe, 1f1b, interleaved",
      "schedule"};
}

}  // namespace trainyard
