#include "engine/schedule/schedule_names.h"

#include <algorithm>
#include <optional>

#include "engine/base/near_names.h"
#include "engine/base/user_text.h"
#include "engine/schedule/automatic_zero_bubble.h"
#include "engine/schedule/early_recompute.h"
#include "engine/schedule/opportunistic.h"
#include "engine/schedule/place_stages.h"
#include "engine/schedule/zero_bubble.h"

namespace trainyard {

namespace {

/// Why a schedule cannot serve these numbers, beyond what make_schedule() says of its own.
std::optional<Infeasible> obstacle(const ScheduleName& entry, const ScheduleSize& size) {
  const auto [ranks, stages_per_rank, microbatches] = size;
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
  if (entry.obstacle != nullptr) {
    if (const std::string own = entry.obstacle(size); !own.empty())
      return Infeasible{own, "training.global_batch"};
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
  const auto idle = [&](const std::string& setting, bool given, bool ScheduleName::*takes,
                        const std::string& section = "schedule") -> std::optional<Infeasible> {
    if (!given || entry.*takes) return std::nullopt;
    return Infeasible{setting + " is for " + join_words(schedules_that(takes)) + ", not for " +
                          std::string(entry.name),
                      section + "." + setting};
  };
  for (const auto& problem :
       {idle("microbatch_group", settings.microbatch_group != 0,
             &ScheduleName::takes_microbatch_group),
        idle("memory_limit", settings.memory_limit != 0, &ScheduleName::takes_memory_limit),
        idle("active_microbatches", settings.active_microbatches != 0,
             &ScheduleName::takes_active_microbatches),
        idle("on", !settings.on.empty(), &ScheduleName::takes_stage_ranks, "partition")}) {
    if (problem) return problem;
  }
  return std::nullopt;
}

std::string groups_obstacle(const ScheduleSize& size) {
  const int groups = std::max(1, size.microbatches / size.ranks);
  if (size.microbatches % groups == 0) return "";
  return "interleaved-zb1p cannot divide " + std::to_string(size.microbatches) +
         " microbatches into " + std::to_string(groups) + " equal groups for " +
         std::to_string(size.ranks) + " ranks";
}

Numbered<ActionDurations> durations_of_stages(const ScheduleSize& size,
                                              const ScheduleSettings& settings) {
  Numbered<ActionDurations> of_stage = settings.of_stage;
  const auto stages = settings.on.empty() ? position(size.ranks) : settings.on.size();
  if (of_stage.empty()) of_stage.resize(stages);
  check(of_stage.size() == stages, "durations of every stage");
  return of_stage;
}

int given_or(int setting, int otherwise) { return setting == 0 ? otherwise : setting; }

using Size = ScheduleSize;
using Settings = ScheduleSettings;

MadeSchedule make_plain(const char* name, const Size& size, const Settings& settings) {
  if (settings.on.empty()) {
    return make_schedule(name, size.ranks, size.stages_per_rank, size.microbatches,
                         settings.microbatch_group);
  }
  MadeSchedule each =
      make_schedule(name, static_cast<int>(settings.on.size()), 1, size.microbatches);
  if (std::holds_alternative<Infeasible>(each)) return each;
  return place_stages(std::get<PipelineSchedule>(each), settings.on, settings.of_stage);
}

MadeSchedule make_zero_bubble(const Size& size, const Settings& settings, int memory_limit) {
  return automatic_zero_bubble(durations_of_stages(size, settings), settings.transfer,
                               size.microbatches, given_or(settings.memory_limit, memory_limit),
                               settings.steps_overlap);
}

MadeSchedule make_opportunistic(const Size& size, const Settings& settings) {
  return opportunistic(durations_of_stages(size, settings), settings.transfer, size.microbatches,
                       given_or(settings.active_microbatches, size.ranks + 2), settings.on);
}

/// A maker that asks for ranks and microbatches alone.
template <PipelineSchedule (*maker)(int ranks, int microbatches)>
MadeSchedule make_fixed(const Size& size, const Settings&) {
  return maker(size.ranks, size.microbatches);
}

}  // namespace

const std::vector<ScheduleName>& schedule_names() {
  using enum StagesPerRank;
  const auto recomputing = [](std::string_view name, std::string_view short_name,
                              std::string_view other_name, std::string_view description,
                              MadeSchedule (*make)(const Size&, const Settings&)) {
    return ScheduleName{.name = name,
                        .short_name = short_name,
                        .other_name = other_name,
                        .description = description,
                        .least_ranks = 2,
                        .on_one_rank = "1f1b",
                        .least_microbatches = 4,
                        .least_microbatches_per_rank = 1,
                        .microbatch_rule = "at least as many microbatches as stages, and 4",
                        .says_recompute = true,
                        .make = make};
  };
  static const std::vector<ScheduleName> kNames = {
      {.name = "gpipe",
       .other_name = "simple",
       .description = "all forwards, then all backwards",
       .takes_stage_ranks = true,
       .plain = true,
       .make = [](const Size& size,
                  const Settings& set) { return make_plain("gpipe", size, set); }},
      {.name = "1f1b",
       .description = "one forward, one backward: activations of at most p microbatches",
       .takes_stage_ranks = true,
       .plain = true,
       .make = [](const Size& size, const Settings& set) { return make_plain("1f1b", size, set); }},
      {.name = "interleaved",
       .other_name = "interleaved_1f1b",
       .description = "1f1b over several stages per rank",
       .stages = kSeveral,
       .least_ranks = 2,
       .on_one_rank = "1f1b",
       .takes_microbatch_group = true,
       .plain = true,
       .make = [](const Size& size,
                  const Settings& set) { return make_plain("interleaved", size, set); }},
      {.name = "zb-h1",
       .description = "1f1b with weight gradients put off into the bubble",
       .splits_backward = true,
       .make = make_fixed<zb_h1>},
      {.name = "zb-1p",
       .description = "split backwards in an order searched for, in the memory of p microbatches",
       .least_ranks = 2,
       .on_one_rank = "1f1b",
       .searched = true,
       .splits_backward = true,
       .takes_memory_limit = true,
       .make = [](const Size& size,
                  const Settings& set) { return make_zero_bubble(size, set, size.ranks); }},
      {.name = "zb-2p",
       .description = "the same in that of 2 p: no bubble but at the ends",
       .least_ranks = 2,
       .on_one_rank = "1f1b",
       .searched = true,
       .splits_backward = true,
       .takes_memory_limit = true,
       .make = [](const Size& size,
                  const Settings& set) { return make_zero_bubble(size, set, 2 * size.ranks); }},
      {.name = "opportunistic",
       .description = "SageMaker's: a backward that is ready, else a forward that is",
       .least_ranks = 2,
       .on_one_rank = "1f1b",
       .searched = true,
       .takes_active_microbatches = true,
       .takes_stage_ranks = true,
       .make = make_opportunistic},
      {.name = "interleaved-zb1p",
       .description = "zb-h1 over several stages per rank",
       .stages = kSeveral,
       .least_ranks = 2,
       .on_one_rank = "zb-h1",
       .splits_backward = true,
       .obstacle = groups_obstacle,
       .make = [](const Size& size, const Settings&) -> MadeSchedule {
         return interleaved_zb1p(size.ranks, size.stages_per_rank, size.microbatches);
       }},
      {.name = "zb-v",
       .description = "two stages per rank in a V, weight gradients put off",
       .stages = kTwo,
       .splits_backward = true,
       .make = make_fixed<zb_v>},
      {.name = "dualpipe-v",
       .description = "two stages per rank in a V, a forward and a backward together",
       .stages = kTwo,
       .least_microbatches_per_rank = 2,
       .microbatch_rule = "at least 2 microbatches per pipeline rank",
       .splits_backward = true,
       .make = make_fixed<dualpipe_v>},
      recomputing("scp", "", "full_critical_path_1f1b", "Merak's shifted critical path",
                  make_fixed<shifted_critical_path>),
      recomputing("pre-recompute-1f1b", "pre-recompute", "",
                  "1f1b that recomputes early in the cool-down",
                  make_fixed<pre_recompute_one_f_one_b>),
      recomputing("last-no-recompute-1f1b", "last-no-recompute", "",
                  "the same, and the last stage keeps its activations",
                  make_fixed<last_no_recompute_one_f_one_b>)};
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
  if (const auto problem = idle_setting(*entry, settings)) return *problem;
  const ScheduleSize size{num_ranks, stages_per_rank, num_microbatches};
  if (!entry->plain) {
    if (const auto problem = obstacle(*entry, size)) return *problem;
    return entry->make(size, settings);
  }
  MadeSchedule made = entry->make(size, settings);
  if (recompute && std::holds_alternative<PipelineSchedule>(made))
    return with_recompute(std::get<PipelineSchedule>(made));
  return made;
}

}  // namespace trainyard
