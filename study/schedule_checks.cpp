// What a schedule asks of the pipeline, the microbatches and recomputation.
#include <algorithm>
#include <string>

#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

std::string text(std::int64_t value) { return std::to_string(value); }

bool is_any_of(const std::string& method, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), method) != words.end();
}

void check_one_stage(const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  if (parallel.virtual_stages == 1) return;
  fail_at(study, is_said(study, "schedule") ? "schedule" : "parallel.virtual_stages",
          study.schedule.method + " has one stage per rank, but parallel.virtual_stages is " +
              text(parallel.virtual_stages) + "; interleaved takes them");
}

void check_two_stages(const Study& study) {
  if (study.parallel.virtual_stages == 2) return;
  fail_at(study, "parallel.virtual_stages",
          study.schedule.method + " has exactly 2 stages per rank, got " +
              text(study.parallel.virtual_stages) + "; write 2, or leave this key out");
}

void check_interleaved(const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  const std::string& method = study.schedule.method;
  const std::string same = method == "interleaved" ? "1f1b" : "zb-h1";
  if (parallel.virtual_stages < 2) {
    fail_at(study, "parallel.virtual_stages",
            method + " needs at least 2 stages per rank, got 1; with 1, schedule: " + same +
                " is the same");
  }
  if (parallel.pipeline < 2) {
    fail_at(study, is_said(study, "parallel.pipeline") ? "parallel.pipeline" : "schedule",
            method + " needs at least 2 pipeline ranks, got 1; with 1, schedule: " + same +
                " is the same");
  }
}

void check_searched(const Study& study) {
  if (study.parallel.pipeline > 1) return;
  fail_at(study, is_said(study, "parallel.pipeline") ? "parallel.pipeline" : "schedule",
          study.schedule.method +
              " needs at least 2 pipeline ranks, got 1; with 1, schedule: 1f1b is the same");
}

void check_early_recompute(const Study& study) {
  const std::string& method = study.schedule.method;
  if (study.recompute.method == RecomputeConfig::Method::kNone) {
    fail_at(study, is_said(study, "recompute") ? "recompute" : "schedule",
            method + " says when to recompute, but recompute is none; write recompute: full");
  }
  if (study.parallel.pipeline < 2) {
    fail_at(study, is_said(study, "parallel.pipeline") ? "parallel.pipeline" : "schedule",
            method + " needs at least 2 pipeline ranks, got 1; with 1, schedule: 1f1b is the same");
  }
}

/// The number alone, where step_of_microbatches() has said what of.
std::string text_of_step(const Study& study, std::int64_t microbatches) {
  if (!study.training.microbatches.empty()) return text(microbatches);
  return text(microbatches * study.training.microbatch * study.parallel.data);
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
          text(m) + " microbatches do not divide into the " + text(m / p) + " rounds of the " +
              study.schedule.method + " schedule on " + text(p) + " ranks; " +
              step_of_microbatches(study, below) + " and " + text_of_step(study, above) + " do");
}

void check_least_microbatches(const Study& study, std::int64_t least, const std::string& rule) {
  const std::int64_t m = study.num_microbatches();
  if (m >= least) return;
  fail_at(study, "training.global_batch",
          study.schedule.method + " needs " + rule + ": " + text(least) + " of them, not " +
              text(m) + "; " + step_of_microbatches(study, least) + " does");
}

}  // namespace

std::string step_of_microbatches(const Study& study, std::int64_t microbatches) {
  return study.training.microbatches.empty()
             ? "global_batch " + text_of_step(study, microbatches)
             : "a list of " + text_of_step(study, microbatches) + " in training.microbatch";
}

void resolve_virtual_stages(Study& study) {
  if (!is_any_of(study.schedule.method, kVScheduleWords) ||
      is_said(study, "parallel.virtual_stages"))
    return;
  study.parallel.virtual_stages = 2;
  study.origins["parallel.virtual_stages"] =
      derived_origin(study.schedule.method + " has 2 stages per rank");
}

void check_schedule(const Study& study) {
  const std::string& method = study.schedule.method;
  if (is_any_of(method, kVScheduleWords)) return check_two_stages(study);
  if (is_any_of(method, kInterleavedScheduleWords)) return check_interleaved(study);
  check_one_stage(study);
  if (is_searched_schedule(method)) check_searched(study);
  if (is_any_of(method, kEarlyRecomputeScheduleWords)) check_early_recompute(study);
}

void check_schedule_microbatches(const Study& study) {
  const std::string& method = study.schedule.method;
  const std::int64_t p = study.parallel.pipeline;
  if (is_any_of(method, kInterleavedScheduleWords)) check_rounds(study);
  if (method == "dualpipe-v")
    check_least_microbatches(study, 2 * p, "at least 2 microbatches per pipeline rank");
  if (is_any_of(method, kEarlyRecomputeScheduleWords)) {
    check_least_microbatches(study, std::max<std::int64_t>(4, p),
                             "at least as many microbatches as stages, and 4");
  }
}

}  // namespace trainyard
