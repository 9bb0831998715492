// `schedule: {file: rows.csv}`: a schedule that is written out, and whether it suits the study.
#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "engine/schedule/schedule_csv.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

PipelineSchedule rows_of(const Study& study) {
  return parse_schedule_csv(study.schedule.rows, study.schedule.file, study.partition.on);
}

}  // namespace

std::string read_schedule_rows(const YamlNode& node, const StageRanks& on) {
  std::string rows;
  for (const YamlNode& row : node.items()) rows += row.as_text() + "\n";
  try {
    return schedule_csv(parse_schedule_csv(rows, "rows", on));
  } catch (const ConfigError& error) {
    node.fail(error.what());
  }
}

void read_schedule_file(Section& section) {
  Study& study = section.study();
  const YamlNode node = section.required("file");
  const auto rows = section.given("rows");
  section.finish();
  // Absolute, so that study.resolved.yaml means the same file from another folder.
  std::error_code unavailable;
  const std::string path = path_from_study(study, node.as_text());
  const std::string absolute = std::filesystem::absolute(path, unavailable).string();
  study.schedule.method = "file";
  study.schedule.file = unavailable ? path : absolute;
  // With what it held beside it, the file itself may have gone.
  const StageRanks& on = study.partition.on;
  const auto load = [&](const std::string& from) { return load_schedule_csv(from, on); };
  study.schedule.rows =
      rows ? read_schedule_rows(*rows, on) : schedule_csv(read_named_file(study, node, load));
}

void check_schedule_rows(const Study& study) {
  const PipelineSchedule rows = rows_of(study);
  const std::string key = study.schedule.file.empty() ? "schedule.rows" : "schedule.file";
  const int ranks = study.parallel.pipeline;
  if (rows.num_ranks() != ranks) {
    fail_at(study, key,
            "has a line for each of " + std::to_string(rows.num_ranks()) +
                " ranks, but parallel.pipeline is " + std::to_string(ranks));
  }
  const bool recomputes =
      std::any_of(rows.actions.begin(), rows.actions.end(), [](const auto& actions) {
        return std::any_of(actions.begin(), actions.end(), [](const Action& action) {
          return action.phase == ActionPhase::kRecompute ||
                 action.phase == ActionPhase::kEarlyRecompute;
        });
      });
  if (recomputes && study.recompute.method == RecomputeConfig::Method::kNone)
    fail_at(study, key,
            "recomputes (R), but the study keeps all activations; recompute: full does not");
  if (rows.num_stages == study.num_stages()) return;
  if (!study.partition.on.empty()) {
    fail_at(study, key,
            "has " + std::to_string(rows.num_stages) + " stages, but partition.on says where " +
                std::to_string(study.num_stages()) + " lie");
  }
  const int each = study.parallel.virtual_stages;
  const bool divides = rows.num_stages % ranks == 0;
  fail_at(
      study, key,
      "has " + std::to_string(rows.num_stages) + " stages, but " + std::to_string(ranks) +
          " pipeline ranks of parallel.virtual_stages " + std::to_string(each) + " have " +
          std::to_string(std::int64_t{ranks} * each) +
          (divides ? "; virtual_stages " + std::to_string(rows.num_stages / ranks) + " does" : ""));
}

void check_schedule_row_microbatches(const Study& study) {
  const PipelineSchedule rows = rows_of(study);
  const std::string key = study.schedule.file.empty() ? "schedule.rows" : "schedule.file";
  if (rows.num_microbatches == study.num_microbatches()) return;
  fail_at(study, key,
          "has " + std::to_string(rows.num_microbatches) + " microbatches, but the step has " +
              std::to_string(study.num_microbatches()) + "; " +
              step_of_microbatches(study, rows.num_microbatches) + " does");
}

void check_microbatch_group(const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  const auto made =
      make_schedule("interleaved", parallel.pipeline, parallel.virtual_stages,
                    static_cast<int>(study.num_microbatches()), study.schedule.microbatch_group);
  if (const auto* reason = std::get_if<Infeasible>(&made))
    fail_at(study, "schedule.microbatch_group", reason->reason);
}

}  // namespace trainyard
