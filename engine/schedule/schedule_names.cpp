#include "engine/schedule/schedule_names.h"

#include <algorithm>
#include <optional>

#include "engine/base/near_names.h"
#include "engine/schedule/automatic_zero_bubble.h"
#include "engine/schedule/early_recompute.h"
#include "engine/schedule/opportunistic.h"
#include "engine/schedule/zero_bubble.h"

namespace trainyard {

namespace {

/// Why `name` cannot serve these numbers, beyond what make_schedule() says of its own.
std::optional<std::string> obstacle(const std::string& name, int ranks, int stages_per_rank,
                                    int microbatches) {
  if (microbatches < 1) return "the step has no microbatch";
  const auto numbers = [](int count, const char* noun) {
    return std::to_string(count) + " " + noun;
  };
  if (name == "zb-v" || name == "dualpipe-v") {
    if (stages_per_rank != 2)
      return name + " has exactly 2 stages per rank, not " + std::to_string(stages_per_rank);
    if (name == "dualpipe-v" && microbatches < 2 * ranks) {
      return "dualpipe-v needs at least 2 microbatches per rank: " + numbers(2 * ranks, "of them") +
             ", not " + std::to_string(microbatches);
    }
    return std::nullopt;
  }
  if (name == "interleaved-zb1p") {
    const int groups = std::max(1, microbatches / ranks);
    if (microbatches % groups == 0) return std::nullopt;
    return "interleaved-zb1p cannot divide " + numbers(microbatches, "microbatches") + " into " +
           numbers(groups, "equal groups") + " for " + numbers(ranks, "ranks");
  }
  if (stages_per_rank != 1)
    return "schedule " + name + " runs one stage per rank, not " + std::to_string(stages_per_rank);
  if ((name == "scp" || name == "last-no-recompute-1f1b") && ranks < 2)
    return name + " needs at least 2 stages";
  if (name == "scp" && microbatches < std::max(4, ranks)) {
    return "scp needs at least as many microbatches as stages, and 4: " +
           numbers(std::max(4, ranks), "of them") + ", not " + std::to_string(microbatches);
  }
  return std::nullopt;
}

bool made_for_durations(const std::string& name) {
  return name == "zb-1p" || name == "zb-2p" || name == "opportunistic";
}

/// What is wrong where a setting is given that `name` does not have.
std::optional<std::string> idle_setting(const std::string& name, const ScheduleSettings& settings) {
  if (settings.microbatch_group != 0 && name != "interleaved")
    return "microbatch_group is for interleaved, not for " + name;
  if (settings.memory_limit != 0 && name != "zb-1p" && name != "zb-2p")
    return "memory_limit is for zb-1p and zb-2p, not for " + name;
  if (settings.active_microbatches != 0 && name != "opportunistic")
    return "active_microbatches is for opportunistic, not for " + name;
  return std::nullopt;
}

PipelineSchedule timed_schedule(const std::string& name, int ranks, int microbatches,
                                const ScheduleSettings& settings) {
  std::vector<ActionDurations> of_stage = settings.of_stage;
  if (of_stage.empty()) of_stage.resize(static_cast<std::size_t>(ranks));
  check(of_stage.size() == static_cast<std::size_t>(ranks), "durations of every stage");
  const auto given_or = [](int setting, int otherwise) {
    return setting == 0 ? otherwise : setting;
  };
  if (name == "opportunistic") {
    return opportunistic(of_stage, settings.transfer, microbatches,
                         given_or(settings.active_microbatches, ranks + 2));
  }
  return automatic_zero_bubble(of_stage, settings.transfer, microbatches,
                               given_or(settings.memory_limit, name == "zb-1p" ? ranks : 2 * ranks),
                               settings.steps_overlap);
}

PipelineSchedule fixed_schedule(const std::string& name, int ranks, int stages_per_rank,
                                int microbatches) {
  if (name == "zb-h1") return zb_h1(ranks, microbatches);
  if (name == "interleaved-zb1p") return interleaved_zb1p(ranks, stages_per_rank, microbatches);
  if (name == "zb-v") return zb_v(ranks, microbatches);
  if (name == "dualpipe-v") return dualpipe_v(ranks, microbatches);
  if (name == "pre-recompute-1f1b") return pre_recompute_one_f_one_b(ranks, microbatches);
  if (name == "last-no-recompute-1f1b") return last_no_recompute_one_f_one_b(ranks, microbatches);
  check(name == "scp", "a schedule that schedule_names() has");
  return shifted_critical_path(ranks, microbatches);
}

}  // namespace

const std::vector<ScheduleName>& schedule_names() {
  static const std::vector<ScheduleName> kNames = {
      {"gpipe", "simple", "all forwards, then all backwards"},
      {"1f1b", "", "one forward, one backward: activations of at most p microbatches"},
      {"interleaved", "interleaved_1f1b", "1f1b over several stages per rank"},
      {"zb-h1", "", "1f1b with weight gradients put off into the bubble"},
      {"zb-1p", "zb1p",
       "split backwards in an order searched for, in the memory of p microbatches"},
      {"zb-2p", "zb2p", "the same in that of 2 p: no bubble but at the ends"},
      {"interleaved-zb1p", "interleaved_zb1p", "zb-h1 over several stages per rank"},
      {"zb-v", "zbv", "two stages per rank in a V, weight gradients put off"},
      {"dualpipe-v", "dualpipev", "two stages per rank in a V, a forward and a backward together"},
      {"pre-recompute-1f1b", "pre_recompute_1f1b", "1f1b that recomputes early in the cool-down"},
      {"last-no-recompute-1f1b", "last_no_recompute_1f1b",
       "the same, and the last stage keeps its activations"},
      {"scp", "full_critical_path_1f1b", "Merak's shifted critical path"},
      {"opportunistic", "", "SageMaker's: a backward that is ready, else a forward that is"}};
  return kNames;
}

std::variant<PipelineSchedule, Infeasible> schedule_by_name(const std::string& given, int num_ranks,
                                                            int stages_per_rank,
                                                            int num_microbatches, bool recompute,
                                                            const ScheduleSettings& settings) {
  std::string name = given;
  if (same_name(name, "pre-recompute") || same_name(name, "last-no-recompute")) name += "-1f1b";
  const auto known = std::find_if(
      schedule_names().begin(), schedule_names().end(), [&](const ScheduleName& entry) {
        return same_name(entry.name, name) || (same_name(entry.other_name, name) && !name.empty());
      });
  if (known == schedule_names().end()) {
    std::string list;
    std::vector<std::string> names;
    for (const ScheduleName& entry : schedule_names()) {
      names.emplace_back(entry.name);
      list += (list.empty() ? "" : ", ") + names.back();
    }
    return Infeasible{"no schedule is called '" + given + "'" + did_you_mean(given, names) +
                      "; there are " + list};
  }
  name = known->name;
  if (const auto problem = idle_setting(name, settings)) return Infeasible{*problem};
  if (name == "gpipe" || name == "1f1b" || name == "interleaved") {
    auto made = make_schedule(name, num_ranks, stages_per_rank, num_microbatches,
                              settings.microbatch_group);
    if (recompute && std::holds_alternative<PipelineSchedule>(made))
      return with_recompute(std::get<PipelineSchedule>(made));
    return made;
  }
  if (const auto problem = obstacle(name, num_ranks, stages_per_rank, num_microbatches))
    return Infeasible{*problem};
  return made_for_durations(name)
             ? timed_schedule(name, num_ranks, num_microbatches, settings)
             : fixed_schedule(name, num_ranks, stages_per_rank, num_microbatches);
}

}  // namespace trainyard
