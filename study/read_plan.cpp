// `partition` and `schedule`, each a word or a map with its details; and `offload`.
#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>

#include "engine/base/user_text.h"
#include "engine/plan/plan_limits.h"
#include "engine/schedule/schedule_csv.h"
#include "engine/schedule/schedule_names.h"
#include "study/planned_pipeline.h"
#include "study/study_keys.h"
#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

bool is_number(const std::string& text) {
  return text.find_first_not_of("+-0123456789") == std::string::npos;
}

/// Where stage 1, 2, ... begin: a layer, or the name of a module or an op.
void read_cuts(const YamlNode& node, Study& study, const std::string& key) {
  PartitionConfig& partition = study.partition;
  partition.method = "cuts";
  constexpr std::int64_t kMost = 2 * kMaxLayers;
  std::int64_t least = 1;  // of the next one: each is held against the one before, wrong or not
  std::int64_t number = 0;
  node.each_item([&](const YamlNode& item) {
    study.origins[key + "[" + std::to_string(number++) + "]"] = origin_of(item);
    if (item.is_scalar() && !is_number(item.as_string())) {
      partition.cuts.push_back({0, item.as_string()});
      return;
    }
    const std::int64_t cut = item.as_integer();
    partition.cuts.push_back(
        {item.as_integer(std::exchange(least, std::min(cut, kMost) + 1), kMost), ""});
  });
}

/// The pipeline rank of each stage.
void read_on(Section& section, PartitionConfig& partition) {
  const auto node = section.given("on");
  if (!node) return;
  node->each_item([&](const YamlNode& item) {
    partition.on.push_back(static_cast<std::int32_t>(item.as_integer(0, kMaxRanks - 1)));
  });
  if (partition.on.empty()) node->fail("expected the pipeline rank of each stage, got nothing");
}

void read_replicas(Section& section, PartitionConfig& partition) {
  const auto node = section.given("replicas");
  if (!node) return;
  node->each_item([&](const YamlNode& item) {
    partition.replicas.push_back(static_cast<int>(item.as_integer(1, kMaxRanks)));
  });
  if (partition.replicas.empty())
    node->fail("expected the number of replicas of each pipeline rank, got nothing");
}

/// `ends: layers` or `ends: true`: embedding and head count as layers.
void read_ends(Section& section, PartitionConfig& partition) {
  if (const auto node = section.given("ends")) {
    partition.ends = read_bool_or(*node, "layers").value_or(true);
  }
}

void read_budget(Section& section, PartitionConfig& partition) {
  const auto node = section.given("budget");
  if (!node) return;
  constexpr Seconds kMost = 24 * 3600;
  partition.budget = node->as_duration();
  if (partition.budget * PartitionConfig::kEvaluationsPerSecond < 1 || partition.budget > kMost)
    node->fail("expected 50 ms (one step evaluated) to 86400 s");
}

/// `blocks: 32`, or `blocks: none`.
void read_blocks(Section& section, PartitionConfig& partition) {
  const auto node = section.given("blocks");
  if (!node) return;
  const bool none = node->is_scalar() && node->as_string() == "none";
  partition.blocks = none ? 0 : section.integer_of(*node, "blocks");
}

/// Pipeline ranks of modules by pattern.
void read_assign(Section& section, PartitionConfig& partition) {
  const auto node = section.given("assign");
  if (!node) return;
  node->each_entry([&](const std::string& pattern, const YamlNode& rank) {
    // What is wrong with it only the number of ranks tells.
    section.study().origins["partition.assign." + pattern] = origin_of(rank);
    partition.assign.emplace_back(pattern,
                                  static_cast<std::int32_t>(rank.as_integer(0, kMaxRanks - 1)));
  });
}

void read_default(Section& section, PartitionConfig& partition) {
  if (const auto node = section.given("default"))
    partition.fallback = static_cast<std::int32_t>(section.integer_of(*node, "default"));
}

/// `times: emulate` is the study's: the plan is the same whoever has measured.
void read_times(Section& section, Study& study) {
  if (const auto node = section.given("times")) {
    using Times = PartitionConfig::Times;
    const std::size_t word = read_word(*node, "times", kPartitionTimesWords);
    study.times_of_ops.emulated = word == kPartitionTimesWords.size() - 1;
    study.partition.times = word == 1 ? Times::kDescendants : Times::kModel;
  }
}

/// A path of the study's folder, and of --set of the working directory.
void read_measured(Section& section, Study& study) {
  const auto file = section.given("measured");
  if (!file) return;
  if (!study.times_of_ops.emulated)
    file->fail("holds what times: emulate measured; write that, or leave this key out");
  const std::string said = file->as_text();
  if (said.empty()) file->fail("expected the file that emulate saved");
  const std::string path = file->set_by().empty() ? path_from_study(study, said) : said;
  study.times_of_ops.file = std::filesystem::absolute(path).lexically_normal().string();
  if (!std::filesystem::is_regular_file(study.times_of_ops.file))
    file->fail(study.times_of_ops.file + ": no such file; emulate saves it in its DIR");
}

/// Keys that are of another method than the one that the study says.
void refuse_of_other_methods(const Study& study) {
  const PartitionConfig& partition = study.partition;
  const auto refuse = [&](std::initializer_list<const char*> keys, const std::string& problem) {
    for (const std::string key : keys) {
      if (is_said(study, "partition." + key)) fail_at(study, "partition." + key, problem);
    }
  };
  const std::string& method = partition.method;
  if (method == "cuts") {
    refuse({"method", "ends", "uneven", "between", "shards", "bound", "budget", "rule", "blocks",
            "margin"},
           "says how layers are divided, and cuts does, too; leave one of them out");
  } else if (method != "uniform") {
    refuse({"ends", "uneven"}, "is of method uniform; " + method + " has no use for it");
  }
  if (method != "cost" && method != "parameters")
    refuse({"between"}, "is of methods cost and parameters");
  if (!method.starts_with("search")) refuse({"budget"}, "is of methods search and search-pipeline");
  if (method != "autopipe") refuse({"shards"}, "is of method autopipe");
  if (method != "autopipe" || partition.shards != PartitionConfig::Shards::kFarthest)
    refuse({"bound"}, "is of method autopipe with shards: farthest");
  if (method != "smp")
    refuse({"memory_weight", "routing", "assign", "default"}, "is of method smp");
  if (method != "smp" && method != "rannc")
    refuse({"times", "measured"}, "is of methods smp and rannc");
  if (method == "rannc" && partition.times == PartitionConfig::Times::kDescendants)
    refuse({"times"},
           "descendants counts modules, and method rannc weighs ops; write model or "
           "emulate");
  if (method != "rannc") refuse({"rule", "blocks"}, "is of method rannc");
  if (!plans_pipeline(partition)) refuse({"margin"}, "is of methods rannc and search-pipeline");
  if (method == "smp") {
    refuse(
        {"replicas"},
        "is of pipelines; method smp has the same replicas of all modules: parallel.pipeline says "
        "how many devices share these, parallel.data how many replicas there are");
    const bool by_hand = is_said(study, "partition.assign");
    if (!by_hand)
      refuse({"on", "default"}, "goes with assign; else method smp says where modules lie");
    else
      refuse({"memory_weight", "times", "measured"},
             "weighs modules, and assign says where they lie");
  }
  if (!plans_pipeline(partition)) return;
  refuse({"replicas"},
         "is what method " + method + " decides; parallel.data says one number for all stages");
  refuse({"on"}, "places stages, and method " + method + " does, too; leave one of them out");
}

void read_partition(Section& root) {
  PartitionConfig& partition = root.study().partition;
  const auto node = root.given("partition");
  if (!node) return;
  if (node->is_sequence()) return read_cuts(*node, root.study(), "partition");
  if (node->is_scalar()) return root.word("partition", partition.method);
  Section section = root.child("partition");
  section.read_all({{"ends", [&] { read_ends(section, partition); }},
                    {"budget", [&] { read_budget(section, partition); }},
                    {"blocks", [&] { read_blocks(section, partition); }},
                    {"times", [&] { read_times(section, root.study()); }},
                    {"measured", [&] { read_measured(section, root.study()); }},
                    {"cuts",
                     [&] {
                       if (const auto cuts = section.given("cuts"))
                         read_cuts(*cuts, root.study(), "partition.cuts");
                     }},
                    {"replicas", [&] { read_replicas(section, partition); }},
                    {"on", [&] { read_on(section, partition); }},
                    {"assign", [&] { read_assign(section, partition); }},
                    {"default", [&] { read_default(section, partition); }}});
  section.finish();
  refuse_of_other_methods(root.study());
}

void read_schedule_word(Section& section, std::string_view key, std::string& method) {
  section.word(key, method);
  method = find_schedule(method)->name;
}

bool is_set(const Study& study, const char* key) {
  const auto origin = study.origins.find(key);
  return origin != study.origins.end() && origin->second.kind == Origin::Kind::kSet;
}

/// A --set option asks for another order than the one that study.resolved.yaml keeps.
bool asks_for_other_rows(const Study& study) {
  if (is_set(study, "schedule.rows")) return false;
  return is_set(study, "schedule.method") || is_set(study, "schedule.memory_limit") ||
         is_set(study, "schedule.active_microbatches");
}

/// What a search has found before: study.resolved.yaml keeps it.
void read_found_rows(Section& section, ScheduleConfig& schedule) {
  const auto node = section.given("rows");
  if (!node) return;
  if (!is_searched_schedule(schedule.method)) {
    node->fail("is what a search has found, of " +
               join_words(schedules_that(&ScheduleName::searched)) +
               "; an order of your own goes into a file: {file: rows.csv}");
  }
  schedule.rows = read_schedule_rows(*node, section.study().partition.on);
}

/// "schedule interleaved", "schedules zb-1p and zb-2p".
std::string schedules_text(bool ScheduleName::*does) {
  const std::vector<std::string> names = schedules_that(does);
  return (names.size() == 1 ? "schedule " : "schedules ") + join_words(names);
}

/// A number that only some schedules take; 0: not given.
void read_setting(Section& section, const ScheduleName& schedule, const std::string& key,
                  int& value, bool ScheduleName::*takes) {
  if (const auto node = section.given(key))
    value = static_cast<int>(section.integer_of(*node, key));
  if (value == 0 || schedule.*takes) return;
  fail_at(section.study(), "schedule." + key,
          "is for " + schedules_text(takes) + ", not for " + std::string(schedule.name) +
              "; leave it out");
}

void read_mode(Section& section, const ScheduleName& entry, ScheduleConfig& schedule) {
  section.word("mode", schedule.mode);
  const bool of_modules = section.study().partition.method == "smp";
  if (schedule.mode == "dynamic" || of_modules) return;
  const bool fast = schedule.mode == "fast";
  const std::string of_smp = "fast is for partition smp, whose modules then send directly";
  if (!entry.searched) {
    fail_at(section.study(), "schedule.mode",
            (fast ? of_smp
                  : "static is for " + schedules_text(&ScheduleName::searched) +
                        ", whose order depends on durations, not for " + schedule.method) +
                "; leave it out");
  }
  if (fast)
    section.study().warnings.push_back("schedule.mode: " + of_smp + "; with partition " +
                                       section.study().partition.method +
                                       " it is the same as static");
}

void read_schedule(Section& root) {
  ScheduleConfig& schedule = root.study().schedule;
  const auto node = root.given("schedule");
  if (!node || node->is_scalar()) return read_schedule_word(root, "schedule", schedule.method);
  const bool of_file = node->is_map() && node->contains("file");
  Section section(root.draft(), "schedule", node, of_file ? schedule_file_keys() : schedule_keys());
  section.refuse_unknown();
  if (of_file) {
    section.boolean("post_validation", schedule.post_validation);
    return read_schedule_file(section);
  }
  section.required("method");
  read_schedule_word(section, "method", schedule.method);
  const ScheduleName& entry = *find_schedule(schedule.method);
  section.read_all({{"microbatch_group",
                     [&] {
                       read_setting(section, entry, "microbatch_group", schedule.microbatch_group,
                                    &ScheduleName::takes_microbatch_group);
                     }},
                    {"memory_limit",
                     [&] {
                       read_setting(section, entry, "memory_limit", schedule.memory_limit,
                                    &ScheduleName::takes_memory_limit);
                     }},
                    {"active_microbatches",
                     [&] {
                       read_setting(section, entry, "active_microbatches",
                                    schedule.active_microbatches,
                                    &ScheduleName::takes_active_microbatches);
                     }},
                    {"method", [] {}},
                    {"mode", [&] { read_mode(section, entry, schedule); }},
                    {"rows", [&] { read_found_rows(section, schedule); }}});
  if (asks_for_other_rows(root.study())) {
    schedule.rows.clear();
    root.study().origins.erase("schedule.rows");
  }
  section.finish();
}

void read_offload(Section& root) {
  Section section = root.child("offload");
  OffloadConfig& offload = root.study().offload;
  section.read_all();
  section.finish();
  if (root.draft().has_mistake_in("offload")) return;
  if (offload.activations || !is_said(root.study(), "offload.horizon")) return;
  // Who says false may try both.
  if (!is_said(root.study(), "offload.activations")) {
    fail_at(root.study(), "offload.horizon",
            "says how many layers ahead copies come back, and nothing is copied; write "
            "activations: true, or leave "
            "this key out");
  }
  root.study().warnings.emplace_back(
      "offload.horizon is not used: activations is false, and nothing is copied");
}

}  // namespace

void read_plan(Section& root) {
  StudyDraft& draft = root.draft();
  draft.attempt([&] { read_partition(root); });
  draft.attempt([&] { read_schedule(root); });
  draft.attempt([&] { read_recompute(root); });
  draft.attempt([&] { read_offload(root); });
}

}  // namespace trainyard
