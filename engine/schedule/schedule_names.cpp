#include "engine/schedule/schedule_names.h"

#include <algorithm>
#include <optional>

#include "engine/base/near_names.h"
#include "engine/base/user_text.h"
#include "engine/schedule/automatic_zero_bubble.h"
#include "engine/schedule/early_recompute.h"
#include "engine/schedule/opportunistic.h"
#include "engine/schedule/zero_bubble.h"

namespace trainyard {

namespace {

/// Why a schedule cannot serve these numbers, beyond what make_schedule() says of its own.
std::optional<Infeasible> obstacle(const ScheduleName& entry, int ranks, int stages_per_rank,
                                   int microbatches) {
  if (microbatches < 1) return Infeasible{"the step has no microbatch", "training.global_batch"};
  const std::string name(entry.name);
  const auto numbers = [](int count, const char* noun) {
    return std::to_string(count) + " " + noun;
  };
  if (ranks < entry.least_ranks)
    return Infeasible{name + " needs at least " + numbers(entry.least_ranks, "pipeline ranks"),
                      "parallel.pipeline"};
  if (entry.stages == StagesPerRank::kTwo && stages_per_rank != 2)
    return Infeasible{
        name + " has exactly 2 stages per rank, not " + std::to_string(stages_per_rank),
        "parallel.virtual_stages"};
  if (entry.stages == StagesPerRank::kOne && stages_per_rank != 1)
    return Infeasible{
        "schedule " + name + " runs one stage per rank, not " + std::to_string(stages_per_rank),
        "parallel.virtual_stages"};
  if (name == "interleaved-zb1p") {
    const int groups = std::max(1, microbatches / ranks);
    if (microbatches % groups != 0) {
      return Infeasible{name + " cannot divide " + numbers(microbatches, "microbatches") +
                            " into " + numbers(groups, "equal groups") + " for " +
                            numbers(ranks, "ranks"),
                        "training.global_batch"};
    }
  }
  if (const int least = entry.least_microbatches_of(ranks); microbatches < least) {
    return Infeasible{name + " needs " + std::string(entry.microbatch_rule) + ": " +
                          numbers(least, "of them") + ", not " + std::to_string(microbatches),
                      "training.global_batch"};
  }
  return std::nullopt;
}

/// What is wrong where a setting is given that the schedule does not take.
std::optional<Infeasible> idle_setting(const ScheduleName& entry,
                                       const ScheduleSettings& settings) {
  const auto idle = [&](const std::string& setting, int value,
                        bool ScheduleName::*takes) -> std::optional<Infeasible> {
    if (value == 0 || entry.*takes) return std::nullopt;
    return Infeasible{setting + " is for " + join_words(schedules_that(takes)) + ", not for " +
                          std::string(entry.name),
                      "schedule." + setting};
  };
  for (const auto& problem :
       {idle("microbatch_group", settings.microbatch_group, &ScheduleName::takes_microbatch_group),
        idle("memory_limit", settings.memory_limit, &ScheduleName::takes_memory_limit),
        idle("active_microbatches", settings.active_microbatches,
             &ScheduleName::takes_active_microbatches)}) {
    if (problem) return problem;
  }
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
  using enum StagesPerRank;
  const auto recomputing = [](std::string_view name, std::string_view short_name,
                              std::string_view other_name, std::string_view description) {
    return ScheduleName{.name = name,
                        .short_name = short_name,
                        .other_name = other_name,
                        .description = description,
                        .least_ranks = 2,
                        .on_one_rank = "1f1b",
                        .least_microbatches = 4,
                        .least_microbatches_per_rank = 1,
                        .microbatch_rule = "at least as many microbatches as stages, and 4",
                        .says_recompute = true};
  };
  static const std::vector<ScheduleName> kNames = {
      {.name = "gpipe", .other_name = "simple", .description = "all forwards, then all backwards"},
      {.name = "1f1b",
       .description = "one forward, one backward: activations of at most p microbatches"},
      {.name = "interleaved",
       .other_name = "interleaved_1f1b",
       .description = "1f1b over several stages per rank",
       .stages = kSeveral,
       .least_ranks = 2,
       .on_one_rank = "1f1b",
       .takes_microbatch_group = true},
      {.name = "zb-h1", .description = "1f1b with weight gradients put off into the bubble"},
      {.name = "zb-1p",
       .description = "split backwards in an order searched for, in the memory of p microbatches",
       .least_ranks = 2,
       .on_one_rank = "1f1b",
       .searched = true,
       .takes_memory_limit = true},
      {.name = "zb-2p",
       .description = "the same in that of 2 p: no bubble but at the ends",
       .least_ranks = 2,
       .on_one_rank = "1f1b",
       .searched = true,
       .takes_memory_limit = true},
      {.name = "opportunistic",
       .description = "SageMaker's: a backward that is ready, else a forward that is",
       .least_ranks = 2,
       .on_one_rank = "1f1b",
       .searched = true,
       .takes_active_microbatches = true},
      {.name = "interleaved-zb1p",
       .description = "zb-h1 over several stages per rank",
       .stages = kSeveral,
       .least_ranks = 2,
       .on_one_rank = "zb-h1"},
      {.name = "zb-v",
       .description = "two stages per rank in a V, weight gradients put off",
       .stages = kTwo},
      {.name = "dualpipe-v",
       .description = "two stages per rank in a V, a forward and a backward together",
       .stages = kTwo,
       .least_microbatches_per_rank = 2,
       .microbatch_rule = "at least 2 microbatches per pipeline rank"},
      recomputing("scp", "", "full_critical_path_1f1b", "Merak's shifted critical path"),
      recomputing("pre-recompute-1f1b", "pre-recompute", "",
                  "1f1b that recomputes early in the cool-down"),
      recomputing("last-no-recompute-1f1b", "last-no-recompute", "",
                  "the same, and the last stage keeps its activations")};
  return kNames;
}

int ScheduleName::least_microbatches_of(int ranks) const {
  return std::max(least_microbatches, least_microbatches_per_rank * ranks);
}

const ScheduleName* find_schedule(std::string_view name) {
  for (const ScheduleName& entry : schedule_names()) {
    for (const std::string_view one : {entry.name, entry.short_name, entry.other_name})
      if (!one.empty() && same_name(one, name)) return &entry;
  }
  return nullptr;
}

std::vector<std::string> schedules_that(bool ScheduleName::*does) {
  std::vector<std::string> names;
  for (const ScheduleName& entry : schedule_names())
    if (entry.*does) names.emplace_back(entry.name);
  return names;
}

bool is_searched_schedule(std::string_view name) {
  const ScheduleName* entry = find_schedule(name);
  return entry != nullptr && entry->searched;
}

std::variant<PipelineSchedule, Infeasible> schedule_by_name(const std::string& given, int num_ranks,
                                                            int stages_per_rank,
                                                            int num_microbatches, bool recompute,
                                                            const ScheduleSettings& settings) {
  const ScheduleName* const entry = find_schedule(given);
  if (entry == nullptr) {
    std::string list;
    std::vector<std::string> names;
    for (const ScheduleName& known : schedule_names()) {
      names.emplace_back(known.name);
      list += (list.empty() ? "" : ", ") + names.back();
    }
    return Infeasible{"no schedule is called '" + given + "'" + did_you_mean(given, names) +
                          "; there are " + list,
                      "schedule"};
  }
  const std::string name(entry->name);
  if (const auto problem = idle_setting(*entry, settings)) return *problem;
  if (name == "gpipe" || name == "1f1b" || name == "interleaved") {
    auto made = make_schedule(name, num_ranks, stages_per_rank, num_microbatches,
                              settings.microbatch_group);
    if (recompute && std::holds_alternative<PipelineSchedule>(made))
      return with_recompute(std::get<PipelineSchedule>(made));
    return made;
  }
  if (const auto problem = obstacle(*entry, num_ranks, stages_per_rank, num_microbatches))
    return *problem;
  return entry->searched ? timed_schedule(name, num_ranks, num_microbatches, settings)
                         : fixed_schedule(name, num_ranks, stages_per_rank, num_microbatches);
}

}  // namespace trainyard
