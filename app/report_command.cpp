#include "app/report_command.h"

#include <filesystem>
#include <optional>

#include "app/commands.h"
#include "engine/base/error.h"
#include "engine/base/place_of.h"
#include "report/report.h"
#include "report/sweep_reader.h"
#include "report/trace_json.h"
#include "study/study_words.h"
#include "study/yaml_reader.h"
#include "system/files.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

std::string read_if_there(const std::string& path) {
  return fs::exists(path) ? read_file(path) : std::string();
}

/// Refuses a resolved study that was cut off: what stands last in one is its fidelity.
void check_whole(const std::string& study, const std::string& path) {
  const YamlNode root = YamlNode::parse(study, path);
  if (!root.is_map()) return;  // the page refuses it
  const std::optional<YamlNode> last = root.find("fidelity");
  const std::string word = last && last->is_scalar() ? last->as_string() : "";
  if (place_of(kFidelityWords, word) == kFidelityWords.size())
    throw ConfigError(path + ": was cut off, or is none of trainyard's: it says no fidelity");
}

std::string page_of_run(const std::string& folder) {
  RunFiles files;
  files.folder = folder;
  files.summary = read_if_there(folder + "/summary.json");
  files.losses = read_if_there(folder + "/losses.csv");
  if (files.summary.empty() && files.losses.empty()) {
    throw ConfigError(folder + ": its summary.json or losses.csv is empty");
  }
  const std::string study = folder + "/study.resolved.yaml";
  files.study = read_file(study);
  check_whole(files.study, study);
  // A training run writes its trace with its last step; a simulation has one from the start.
  std::optional<Timeline> timeline;
  const std::string trace = folder + "/trace.json";
  if (files.losses.empty() || fs::exists(trace)) timeline = read_trace_json(trace);
  return report_html(files, timeline ? &*timeline : nullptr);
}

std::string page_of_sweep(const std::string& folder) {
  const auto file = [&](const char* name) {
    const std::string path = folder + name;
    return FileText{path, read_file(path)};
  };
  return sweep_html(read_sweep_table(file("/sweep.csv"), file("/sweep.json")));
}

}  // namespace

void write_report(const std::string& folder) {
  if (!fs::is_directory(folder)) throw ConfigError(folder + ": no such folder");
  const auto has_any = [&](const char* a, const char* b) {
    return fs::exists(folder + a) || fs::exists(folder + b);
  };
  const bool run = has_any("/summary.json", "/losses.csv");
  const bool sweep = has_any("/sweep.csv", "/sweep.json");
  if (!run && !sweep) {
    throw ConfigError(folder +
                      ": holds neither a run nor a sweep: none of summary.json (simulate --out), "
                      "losses.csv (train) and sweep.csv (sweep --out)");
  }
  if (run && sweep) {
    throw ConfigError(
        folder +
        ": holds both a run and a sweep (sweep.csv, sweep.json); report.html is of one of them");
  }
  write_file(folder + "/report.html", run ? page_of_run(folder) : page_of_sweep(folder));
}

int run_report(const std::string& folder) {
  write_report(folder);
  print_text(folder + "/report.html\n");
  return kDone;
}

}  // namespace trainyard
