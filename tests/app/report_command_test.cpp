// `trainyard report`: the page that simulate wrote, made again from the files; exit codes and
// messages.
#include "app/report_command.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "app/commands.h"
#include "cli/command_line.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/simulated.h"

namespace trainyard::report_command_test {

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
            ": holds neither a run nor a sweep: none of summary.json (simulate --out), losses.csv "
            "(train) and sweep.csv (sweep --out)");
  write_text(folder / "study.yaml", kReportStudies[3]);
  const std::string out = folder / "out";
  REQUIRE(run({"simulate", folder / "study.yaml", "--out", out, "--json"}) == 0);
  const std::string summary = read_text(out + "/summary.json");
  write_text(out + "/summary.json", summary.substr(0, summary.size() / 2));
  CHECK(problem(out).starts_with(out + "/summary.json:"));
  CHECK(run({"report", out}) == kWrongInput);
  write_text(out + "/summary.json", "");
  CHECK(problem(out) == out + ": its summary.json or losses.csv is empty");
  write_text(out + "/summary.json", summary);
  CHECK(problem(out) == "none");
  // A part of a resolved study is YAML, too.
  const std::string study = read_text(out + "/study.resolved.yaml");
  for (const std::string end : {"\nparallel:", "\nfidelity:", "uid  #"}) {
    write_text(out + "/study.resolved.yaml", study.substr(0, study.rfind(end) + 1));
    CHECK(problem(out) == out +
                              "/study.resolved.yaml: was cut off, or is none of trainyard's: it "
                              "says no fidelity");
  }
  write_text(out + "/study.resolved.yaml", study);
  std::filesystem::remove(out + "/trace.json");
  CHECK(problem(out) == out + "/trace.json: No such file or directory");
  write_text(out + "/trace.json", "{}");
  CHECK(problem(out) == out + "/trace.json:1:1: traceEvents: has no rank");
  std::filesystem::remove(out + "/study.resolved.yaml");
  CHECK(problem(out) == out + "/study.resolved.yaml: No such file or directory");
}

namespace {

/// Values that JSON would write otherwise, a point that does not fit, refused ones and one without
/// a Program.
const std::string kSwept = R"(
model: {family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 128, seq_len: 32}
cluster: {preset: dgx-a100-80g, nodes: 1}
parallel: {tensor: 2}
training: {global_batch: 32, microbatch: 1}
sweep:
  training.clip_norm: [1.50, 1e1]
  parallel.zero: [{stage: 1, by: shard}, 0]
  schedule: [1f1b, 'gpipe', "a, \"b\""]
)";

}  // namespace

TEST_CASE("the report of a sweep made again is the one that sweep wrote") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kSwept);
  const std::string out = folder / "out";
  REQUIRE(run({"sweep", folder / "study.yaml", "--out", out, "--json", "--jobs", "1"}) == 0);
  const std::string first = read_text(out + "/report.html");
  const std::string csv = read_text(out + "/sweep.csv");
  CHECK(csv.find(",refused,2,\"") != std::string::npos);  // a reason in quotes
  std::filesystem::remove(out + "/report.html");
  REQUIRE(run({"report", out}) == 0);
  const bool same = read_text(out + "/report.html") == first;
  CHECK(same);
}

TEST_CASE("a damaged sweep is refused with the place") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kSwept);
  const std::string out = folder / "out";
  REQUIRE(run({"sweep", folder / "study.yaml", "--out", out, "--json", "--jobs", "1"}) == 0);
  const std::string page = read_text(out + "/report.html");
  const std::string csv_path = out + "/sweep.csv", json_path = out + "/sweep.json";
  const std::string csv = read_text(csv_path), json = read_text(json_path);
  const auto with = [&](const std::string& text, const std::string& from, const std::string& to) {
    std::string changed = text;
    return changed.replace(changed.find(from), from.size(), to);
  };
  const auto csv_problem = [&](const std::string& text) {
    write_text(csv_path, text);
    std::string found = problem(out);
    write_text(csv_path, csv);
    return found;
  };
  const auto json_problem = [&](const std::string& text) {
    write_text(json_path, text);
    std::string found = problem(out);
    write_text(json_path, json);
    return found;
  };
  CHECK(csv_problem("") == csv_path + ": is empty");
  CHECK(csv_problem("a,b\n").starts_with(
      csv_path + ":1:1: is not the table of a sweep: point, keys, status,"));
  CHECK(csv_problem(csv.substr(0, csv.size() - 1)).ends_with(": the row ends without a line feed"));
  CHECK(csv_problem(csv + "13\n") == csv_path + ":14:1: has 1 fields, the first line 18");
  CHECK(csv_problem(with(csv, "\n1,", "\n7,")) == csv_path + ":3:1: point: expected 1, got '7'");
  CHECK(csv_problem(with(csv, ",fits,0,", ",fine,0,"))
            .ends_with(": status: expected what became of a point, got 'fine'"));
  CHECK(csv_problem(with(csv, ",fits,0,,", ",fits,4,,")).ends_with(": exit: expected 0, got '4'"));
  CHECK(csv_problem(with(csv, ",fits,0,,", ",fits,0,,x"))
            .find(": iteration_time_s: expected a number, got 'x") != std::string::npos);
  CHECK(csv_problem(csv + "\"a").ends_with(":14:1: its quotes are not closed"));
  CHECK(csv_problem(csv + "\"a\"b\n")
            .ends_with(":14:4: expected a comma or the end of the line behind the quotes"));
  CHECK(json_problem("[]") == json_path + ":1:1: expected a JSON object, got []");
  CHECK(json_problem("{").starts_with(json_path + ":1:"));
  CHECK(json_problem("{\"study\": 1}") == json_path + ":1:2: study: expected a string, got 1");
  CHECK(json_problem(with(json, "\"num_points\": 12", "\"num_points\": 11"))
            .ends_with(": num_points: " + csv_path + " has 12"));
  CHECK(json_problem(with(json, "\"schedule\"]", "\"other\"]"))
            .ends_with(": keys: are not those of " + csv_path));
  std::filesystem::remove(json_path);
  CHECK(problem(out) == json_path + ": No such file or directory");
  CHECK(read_text(out + "/report.html") == page);  // nothing was written
  write_text(json_path, json);
  write_text(out + "/summary.json", "{}");
  CHECK(
      problem(out) ==
      out +
          ": holds both a run and a sweep (sweep.csv, sweep.json); report.html is of one of them");
  CHECK(run({"report", out}) == kWrongInput);
}

}  // namespace trainyard::report_command_test
