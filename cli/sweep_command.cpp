// `trainyard sweep`: every combination of a study's sweep block.
#include <algorithm>
#include <cstdio>

#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/sweep_points.h"
#include "engine/config/study_reader.h"
#include "engine/report/sweep_table.h"

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
    for (const std::string& key :
         drop_keys_under(sweep, assignment.substr(0, assignment.find('=')))) {
      std::fprintf(stderr, "note: %s is not swept: --set %s\n", key.c_str(), assignment.c_str());
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

}  // namespace

int run_sweep(const StudyOptions& options) {
  const SweepJob job = read_job(options);
  SweepTable table;
  table.study = options.study;
  table.fidelity = fidelity_of_all(job);
  for (const SweepKey* key : job.sweep.keys()) table.keys.push_back(key->path);
  table.points = run_sweep_points(job);
  if (!options.out.empty()) {
    make_folder(options.out);
    write_file(options.out + "/sweep.csv", sweep_csv(table));
    write_file(options.out + "/sweep.json", sweep_json(table));
    write_file(options.out + "/report.html", sweep_html(table));
  }
  const std::string text = options.json ? sweep_json(table) : sweep_text(table, kBest);
  std::fwrite(text.data(), 1, text.size(), stdout);
  const int exit = exit_of(table);
  if (exit != kDone)
    std::fprintf(stderr, "trainyard: %s: none of the %zu points can run\n", options.study.c_str(),
                 table.points.size());
  return exit;
}

}  // namespace trainyard
