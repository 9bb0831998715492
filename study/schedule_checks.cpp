// What a schedule asks of the pipeline, the microbatches and recomputation.
#include <algorithm>
#include <string>

#include "engine/base/user_text.h"
#include "engine/schedule/schedule_names.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

/// nullptr: the rows of a file.
const ScheduleName* schedule_of(const Study& study) { return find_schedule(study.schedule.method); }

void check_one_stage(const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  if (parallel.virtual_stages == 1) return;
  fail_at(study, is_said(study, "schedule") ? "schedule" : "parallel.virtual_stages",
          study.schedule.method + " has one stage per rank, but parallel.virtual_stages is " +
              std::to_string(parallel.virtual_stages) + "; interleaved takes them");
}

void check_two_stages(const Study& study) {
  if (study.parallel.virtual_stages == 2) return;
  fail_at(study, "parallel.virtual_stages",
          study.schedule.method + " has exactly 2 stages per rank, got " +
              std::to_string(study.parallel.virtual_stages) + "; write 2, or leave this key out");
}

void check_least_ranks(const Study& study) {
  const ScheduleName& entry = *schedule_of(study);
  if (study.parallel.pipeline >= entry.least_ranks) return;
  fail_at(study, is_said(study, "parallel.pipeline") ? "parallel.pipeline" : "schedule",
          study.schedule.method + " needs at least " + std::to_string(entry.least_ranks) +
              " pipeline ranks, got " + std::to_string(study.parallel.pipeline) +
              "; with 1, schedule: " + std::string(entry.on_one_rank) + " is the same");
}

void check_several_stages(const Study& study) {
  if (study.parallel.virtual_stages >= 2) return;
  fail_at(study, "parallel.virtual_stages",
          study.schedule.method + " needs at least 2 stages per rank, got 1; with 1, schedule: " +
              std::string(schedule_of(study)->on_one_rank) + " is the same");
}

void check_recomputes(const Study& study) {
  if (study.recompute.method != RecomputeConfig::Method::kNone) return;
  fail_at(study, is_said(study, "recompute") ? "recompute" : "schedule",
          study.schedule.method +
              " says when to recompute, but recompute is none; write recompute: full");
}

void check_stage_ranks(const Study& study) {
  const StageRanks& on = study.partition.on;
  const std::string key = "partition.on";
  const std::int32_t last = *std::max_element(on.begin(), on.end());
  for (std::int32_t rank = 0; rank < last; ++rank) {
    if (std::find(on.begin(), on.end(), rank) == on.end())
      fail_at(study, key,
              "puts no stage on pipeline rank " + std::to_string(rank) + ", but one on " +
                  std::to_string(last) + "; ranks count from 0 without a gap");
  }
  for (std::int64_t stage = 1; stage < std::ssize(on); ++stage) {
    if (on[stage] != on[stage - 1]) continue;
    fail_at(study, key,
            "puts stages " + std::to_string(stage - 1) + " and " + std::to_string(stage) +
                " on pipeline rank " + std::to_string(on[stage]) +
                ", one behind the other; make one stage of them");
  }
  if (study.parallel.virtual_stages != 1) {
    fail_at(study, "parallel.virtual_stages",
            "partition.on says which stages each pipeline rank has; leave this key out");
  }
}

/// The number alone, where step_of_microbatches() has said what of.
std::string text_of_step(const Study& study, std::int64_t microbatches) {
  if (!study.training.microbatches.empty()) return std::to_string(microbatches);
  return std::to_string(microbatches * study.training.microbatch * study.batch_replicas());
}

/// Megatron's and PyTorch's interleaved schedules go in rounds of about one microbatch per rank:
/// rounds = max(1, m / p) (whole division) must divide the m microbatches.
bool interleaves(std::int64_t microbatches, std::int64_t pipeline) {
  return microbatches % std::max<std::int64_t>(1, microbatches / pipeline) == 0;
}

void check_rounds(const Study& study) {
  const std::int64_t m = study.num_microbatches();
  const std::int64_t p = study.parallel.pipeline;
  if (interleaves(m, p)) return;
  std::int64_t below = m;
  while (!interleaves(below, p)) --below;
  std::int64_t above = m;
  while (!interleaves(above, p)) ++above;
  fail_at(study, "training.global_batch",
          std::to_string(m) + " microbatches do not divide into the " + std::to_string(m / p) +
              " rounds of the " + study.schedule.method + " schedule on " + std::to_string(p) +
              " ranks; " + step_of_microbatches(study, below) + " and " +
              text_of_step(study, above) + " do");
}

void check_least_microbatches(const Study& study, std::int64_t least, const std::string& rule) {
  const std::int64_t m = study.num_microbatches();
  if (m >= least) return;
  fail_at(study, "training.global_batch",
          study.schedule.method + " needs " + rule + ": " + std::to_string(least) +
              " of them, not " + std::to_string(m) + "; " + step_of_microbatches(study, least) +
              " does");
}

}  // namespace

std::string step_of_microbatches(const Study& study, std::int64_t microbatches) {
  return study.training.microbatches.empty()
             ? "global_batch " + text_of_step(study, microbatches)
             : "a list of " + text_of_step(study, microbatches) + " in training.microbatch";
}

void resolve_pipeline_ranks(Study& study) {
  const StageRanks& on = study.partition.on;
  const std::vector<int>& replicas = study.partition.replicas;
  if (!on.empty()) check_stage_ranks(study);
  if (on.empty() && replicas.empty()) return;
  const std::string key = on.empty() ? "partition.replicas" : "partition.on";
  const std::int64_t ranks =
      on.empty() ? std::ssize(replicas) : *std::max_element(on.begin(), on.end()) + 1;
  if (!replicas.empty() && std::ssize(replicas) != ranks) {
    fail_at(study, "partition.replicas",
            "has " + std::to_string(std::ssize(replicas)) + " numbers, but partition.on names " +
                std::to_string(ranks) + " pipeline ranks");
  }
  int& pipeline = study.parallel.pipeline;
  if (is_said(study, "parallel.pipeline") && pipeline != ranks) {
    fail_at(study, key,
            "is of " + std::to_string(ranks) + " pipeline ranks, but parallel.pipeline is " +
                std::to_string(pipeline) + "; leave that key out");
  }
  if (is_said(study, "parallel.pipeline")) return;
  pipeline = static_cast<int>(ranks);
  study.origins["parallel.pipeline"] = derived_origin("the ranks of " + key);
}

void resolve_replicas(Study& study) {
  const std::vector<int>& replicas = study.partition.replicas;
  ParallelConfig& parallel = study.parallel;
  const std::string& placement = parallel.placement;
  const bool by_stage = placement == "stages" || placement == "flat";
  if (replicas.empty()) return;
  const auto refuse = [&](bool wrong, const std::string& key, const std::string& problem) {
    if (wrong) fail_at(study, key, problem);
  };
  const std::string own = "partition.replicas: replicas of each pipeline rank";
  refuse(is_said(study, "parallel.data"), "parallel.data",
         "partition.replicas says how many each pipeline rank has; leave this key out");
  refuse(!placement.empty() && !by_stage, "parallel.placement",
         "is stages or flat with partition.replicas, whose numbers of ranks letters cannot place");
  refuse(parallel.d2d_buffer > 0, "parallel.d2d_buffer",
         "does not go with " + own + "; leave one of them out");
  parallel.data = *std::max_element(replicas.begin(), replicas.end());
  study.origins["parallel.data"] = derived_origin("the most of partition.replicas");
  parallel.replicas = parallel.data > 1 ? replicas : std::vector<int>{};
  if (placement.empty()) {
    parallel.placement = "stages";
    study.origins["parallel.placement"] = default_origin("with partition.replicas");
  }
}

void resolve_virtual_stages(Study& study) {
  const ScheduleName* const entry = schedule_of(study);
  if (entry == nullptr || entry->stages != StagesPerRank::kTwo ||
      is_said(study, "parallel.virtual_stages"))
    return;
  study.parallel.virtual_stages = 2;
  study.origins["parallel.virtual_stages"] =
      derived_origin(study.schedule.method + " has 2 stages per rank");
}

void check_schedule(StudyDraft& draft) {
  const ScheduleName* const entry = schedule_of(draft);
  if (!draft.partition.on.empty() && entry != nullptr && !entry->takes_stage_ranks) {
    const bool of_modules = draft.partition.method == "smp";
    fail_at(draft, of_modules ? "schedule" : "partition.on",
            (of_modules ? "partition smp's stages are no chain of its devices, and " : "") +
                draft.schedule.method + " places stages itself; " +
                join_words(schedules_that(&ScheduleName::takes_stage_ranks)) +
                " and schedule: {file: rows.csv} take them where they lie");
  }
  if (entry == nullptr) return check_one_stage(draft);
  if (entry->stages == StagesPerRank::kTwo) return check_two_stages(draft);
  draft.attempt([&] {
    entry->stages == StagesPerRank::kSeveral ? check_several_stages(draft) : check_one_stage(draft);
  });
  draft.attempt([&] {
    if (entry->says_recompute) check_recomputes(draft);
  });
  check_least_ranks(draft);
}

void check_schedule_microbatches(const Study& study) {
  const ScheduleName* const entry = schedule_of(study);
  if (entry == nullptr) return;
  if (entry->stages == StagesPerRank::kSeveral) check_rounds(study);
  check_least_microbatches(study, entry->least_microbatches_of(study.parallel.pipeline),
                           std::string(entry->microbatch_rule));
}

}  // namespace trainyard
