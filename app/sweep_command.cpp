// `trainyard sweep`: every combination of a study's sweep block.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "app/commands.h"
#include "app/sweep_points.h"
#include "engine/base/plain_text.h"
#include "report/sweep_table.h"
#include "study/study_reader.h"
#include "system/interrupt.h"
#include "system/output_folder.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

constexpr std::size_t kBest = 10;  // points in the terminal's tables

/// The study and its block, with what options replace taken out of the block.
SweepJob read_job(const StudyOptions& options) {
  YamlNode study = YamlNode::load_file(options.study);
  std::vector<std::string> sets = options.sets;
  if (!options.fidelity.empty()) sets.push_back("fidelity=" + options.fidelity);
  apply_options(study, sets);
  const auto block = study.find("sweep");
  if (!block || block->is_null()) {
    throw ConfigError({options.study, 0, 0}, "sweep",
                      "the study has no such block; write the keys to vary with their values, such "
                      "as sweep: {parallel.tensor: [1, 2, 4, 8]}");
  }
  Sweep sweep = read_sweep(*block);
  for (const std::string& assignment : sets) {
    for (const std::string& key : drop_replaced(sweep, assignment)) {
      std::fprintf(stderr, "note: %s is not swept: --set %s\n", plain_text(key).c_str(),
                   plain_text(assignment).c_str());
    }
  }
  if (sweep.axes.empty()) block->fail("options replace all keys that it sweeps");
  study.erase("sweep");
  std::erase_if(sets, [](const std::string& set) {
    return set.starts_with("sweep=") || set.starts_with("sweep.");
  });
  const auto fidelity = study.find("fidelity");
  if (!fidelity || fidelity->is_null()) study.put("fidelity", YamlNode::scalar("analytic", {}), {});
  return {std::move(study), std::move(sweep), std::move(sets), options.jobs};
}

std::string fidelity_of_all(const SweepJob& job) {
  for (const SweepKey* key : job.sweep.keys()) {
    if (key->path == "fidelity") return "";
  }
  return job.study.at("fidelity").as_string();
}

/// What the process answers: whether any point could be timed.
int exit_of(const SweepTable& table) {
  const auto any = [&](const auto& holds) {
    return std::any_of(table.points.begin(), table.points.end(), holds);
  };
  if (any([](const SweepPoint& point) { return point.timed(); })) return kDone;
  if (any([](const SweepPoint& point) { return point.status == PointStatus::kNoProgram; }))
    return kCannotRun;
  if (any([](const SweepPoint& point) { return point.status == PointStatus::kFailed; }))
    return kBackendFailed;
  return kWrongInput;
}

/// What a sweep that a signal ended has kept.
std::string what_is_kept(const SweepTable& table, const std::string& out) {
  const auto done = std::count_if(
      table.points.begin(), table.points.end(),
      [](const SweepPoint& point) { return point.status != PointStatus::kInterrupted; });
  const std::string points =
      std::to_string(done) + " of " + std::to_string(table.points.size()) + " points";
  if (out.empty()) return points + " were done; without --out they are lost";
  return out + " has " + points + ", the others with status interrupted";
}

}  // namespace

int run_sweep(const StudyOptions& options) {
  std::optional<OutputFolder> folder;
  if (!options.out.empty())
    folder.emplace(options.out, WrittenBy{"sweep", options.study}, options.overwrite);
  const SweepJob job = read_job(options);
  SweepTable table;
  table.study = options.study;
  table.fidelity = fidelity_of_all(job);
  for (const SweepKey* key : job.sweep.keys()) table.keys.push_back(key->path);
  SweepRows rows = run_sweep_points(job);
  table.points = std::move(rows.points);
  const NotedSignals until_written;
  std::string json = sweep_json(table);
  if (folder) {
    json = folder->marked_json(json);
    folder->write("sweep.csv", sweep_csv(table));
    folder->write("sweep.json", json);
    folder->write("report.html", sweep_html(table));
    folder->commit();
  }
  if (const int signal = rows.signal != 0 ? rows.signal : until_written.first(); signal != 0) {
    keeps(what_is_kept(table, options.out));
    return ended_by_signal(signal);
  }
  if (options.json)
    print_answer(json);
  else
    print_text(sweep_text(table, kBest));
  const int exit = exit_of(table);
  if (exit != kDone)
    say(options.study + ": none of the " + std::to_string(table.points.size()) + " points can run");
  return exit;
}

}  // namespace trainyard
