// `trainyard report`: the page that simulate wrote, made again from the files; exit codes and
// messages.
#include "cli/report_command.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/simulated.h"

namespace trainyard {

namespace {

int run(const std::vector<std::string>& words) {
  std::vector<const char*> argv = {"trainyard"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return run_command_line(static_cast<int>(argv.size()), argv.data());
}

std::string problem(const std::string& folder) {
  return error_of([&] { write_report(folder); });
}

}  // namespace

TEST_CASE("a report made again from the folder's files is the one that simulate wrote") {
  const ScratchFolder folder;
  for (std::size_t i = 0; i < kReportStudies.size(); ++i) {
    CAPTURE(kReportStudies[i]);
    write_text(folder / "study.yaml", kReportStudies[i]);
    const std::string out = folder / ("out" + std::to_string(i));
    REQUIRE(run({"simulate", folder / "study.yaml", "--out", out, "--json"}) == 0);
    const std::string first = read_text(out + "/report.html");
    CHECK(first.size() > 50'000);
    std::filesystem::remove(out + "/report.html");
    REQUIRE(run({"report", out}) == 0);
    // Not CHECK(a == b): a failure would print both.
    const bool same = read_text(out + "/report.html") == first;
    CHECK(same);
  }
}

TEST_CASE("a folder without a run, or with a damaged one, is refused with the file") {
  const ScratchFolder folder;
  const std::string& dir = folder.path();
  CHECK(problem(folder / "none") == folder / "none" + ": no such folder");
  CHECK(run({"report", folder / "none"}) == kWrongInput);
  CHECK(problem(dir) ==
        dir +
            ": holds no run: it has neither summary.json (simulate --out) nor losses.csv (train)");
  write_text(folder / "study.yaml", kReportStudies[3]);
  const std::string out = folder / "out";
  REQUIRE(run({"simulate", folder / "study.yaml", "--out", out, "--json"}) == 0);
  const std::string summary = read_text(out + "/summary.json");
  write_text(out + "/summary.json", summary.substr(0, summary.size() / 2));
  CHECK(problem(out).starts_with(out + "/summary.json:"));
  CHECK(run({"report", out}) == kWrongInput);
  write_text(out + "/summary.json", summary);
  CHECK(problem(out) == "none");
  std::filesystem::remove(out + "/trace.json");
  CHECK(problem(out) == out + "/trace.json: No such file or directory");
  write_text(out + "/trace.json", "{}");
  CHECK(problem(out) == out + "/trace.json: has no rank");
  std::filesystem::remove(out + "/study.resolved.yaml");
  CHECK(problem(out) == out + "/study.resolved.yaml: No such file or directory");
}

}  // namespace trainyard
