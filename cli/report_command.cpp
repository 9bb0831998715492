#include "cli/report_command.h"

#include <cstdio>
#include <filesystem>
#include <optional>

#include "cli/command_line.h"
#include "cli/files.h"
#include "engine/base/error.h"
#include "engine/report/report.h"
#include "engine/report/trace_json.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

std::string read_if_there(const std::string& path) {
  return fs::exists(path) ? read_file(path) : std::string();
}

}  // namespace

void write_report(const std::string& folder) {
  if (!fs::is_directory(folder)) throw ConfigError(folder + ": no such folder");
  RunFiles files;
  files.folder = folder;
  files.summary = read_if_there(folder + "/summary.json");
  files.losses = read_if_there(folder + "/losses.csv");
  if (files.summary.empty() && files.losses.empty()) {
    throw ConfigError(
        folder +
        ": holds no run: it has neither summary.json (simulate --out) nor losses.csv (train)");
  }
  files.study = read_file(folder + "/study.resolved.yaml");
  // A training run writes its trace with its last step; a simulation has one from the start.
  std::optional<Timeline> timeline;
  const std::string trace = folder + "/trace.json";
  if (files.losses.empty() || fs::exists(trace)) timeline = read_trace_json(trace);
  write_file(folder + "/report.html", report_html(files, timeline ? &*timeline : nullptr));
}

int run_report(const std::string& folder) {
  write_report(folder);
  std::printf("%s/report.html\n", folder.c_str());
  return kDone;
}

}  // namespace trainyard
