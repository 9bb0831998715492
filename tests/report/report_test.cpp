// report.html as a whole: escaping, what it takes from the run's files, its size, and what it says
// of files that are damaged.
#include "report/report.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "report/loss_curve.h"
#include "report/plan_facts.h"
#include "report/summary.h"
#include "study/study_writer.h"
#include "tests/support/example_program.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/simulated.h"

namespace trainyard::report_test {

namespace {

using Json = nlohmann::ordered_json;

RunFiles files_of(const Simulated& simulated) {
  return {"out", resolved_study_text(simulated.prepared.study),
          summary_json(simulated.result.summary, 1.5), ""};
}

/// The page's data, as a browser reads it.
Json data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"run-data\">";
  const std::size_t from = page.find(begin) + begin.size();
  return Json::parse(page.substr(from, page.find("</script>", from) - from));
}

const std::string kTrainSummary =
    "{\"steps\": 2, \"loss\": 1.5, \"best_loss\": null, \"tokens_per_s\": 10, "
    "\"iteration_time_s\": 0.5, "
    "\"num_ranks\": 1, \"program_digest\": \"ab\", \"out\": \"x\"}";

}  // namespace

TEST_CASE("a page is whole: data, style and scripts are in it, and nothing is fetched") {
  const Simulated simulated = simulate_text(kReportStudies[0], true);
  const std::string page = report_html(files_of(simulated), &simulated.timeline);
  CHECK(page.size() < kMaxReportBytes);
  CHECK(page.starts_with("<!doctype html>"));
  for (const char* place : {"[[title]]", "[[data]]", "[[style]]", "[[scripts]]"})
    CHECK(page.find(place) == std::string::npos);
  for (const char* fetched :
       {"src=", "href=\"http", "@import", "url(", "fetch(", "XMLHttpRequest"}) {
    CAPTURE(fetched);
    CHECK(page.find(fetched) == std::string::npos);
  }
  CHECK(page.find("default-src 'none'") != std::string::npos);
  const Json data = data_of(page);
  CHECK(data["kind"] == "simulated");
  CHECK(data["title"] == "study");  // of study.yaml
  CHECK(data["summary"]["iteration_time_s"] == simulated.result.summary.iteration_time);
  CHECK(data["summary"]["pipeline"].size() == 2);
  CHECK(data["timeline"]["ranks"].size() == simulated.timeline.ranks.size());
  CHECK(data["study_text"] == files_of(simulated).study);
}

TEST_CASE("what differs from run to run is not in the page") {
  const Simulated simulated = simulate_text(kReportStudies[0], true);
  RunFiles files = files_of(simulated);
  const std::string page = report_html(files, &simulated.timeline);
  files.summary = summary_json(simulated.result.summary, 99.25);
  CHECK(report_html(files, &simulated.timeline) == page);
}

TEST_CASE("text of a study cannot break the page") {
  Simulated simulated = simulate_text(kReportStudies[0], true);
  const std::string evil = "</script><script>alert(1)</script><!-- \" ' & \xE2\x80\xA8";
  simulated.result.summary.study = "configs/" + evil + ".yaml";
  simulated.result.summary.warnings = {evil};
  RunFiles files = files_of(simulated);
  files.study += "# " + evil + "\n";
  const std::string page = report_html(files, &simulated.timeline);
  // The page's own: the two script elements' ends; the title twice, escaped.
  std::size_t ends = 0;
  for (std::size_t at = page.find("</script"); at != std::string::npos;
       at = page.find("</script", at + 1))
    ++ends;
  CHECK(ends == 2);
  CHECK(page.find("<script>alert") == std::string::npos);
  // A path's last part is what stands behind its last slash.
  CHECK(page.find("<title>script&gt;&lt;!-- \" ' &amp; \xE2\x80\xA8 - Trainyard report</title>") !=
        std::string::npos);
  const Json data = data_of(page);
  CHECK(data["summary"]["warnings"][0] == evil);
  CHECK(data["summary"]["study"] == "configs/" + evil + ".yaml");
  // Bytes that are no UTF-8 end here.
  files.summary = with(files.summary, "alert(1)", "\xFF");
  CHECK(error_of([&] { report_html(files, &simulated.timeline); }).find("is not JSON") !=
        std::string::npos);
}

TEST_CASE("links are shown when the summary has them, the busiest first") {
  Simulated simulated = simulate_text(kReportStudies[0], true);
  simulated.result.summary.links.clear();
  CHECK_FALSE(data_of(report_html(files_of(simulated), nullptr))["summary"].contains("links"));
  simulated.result.summary.links = {{"leaf 0 up", 4, 100e9, 9000, 0.75, 0.125},
                                    {"node 0 nic 0", 1, 25e9, 1000, 0.25, 0}};
  const Json summary = data_of(report_html(files_of(simulated), nullptr))["summary"];
  REQUIRE(summary["links"].size() == 2);
  CHECK(summary["links"][0] == Json({{"name", "leaf 0 up"},
                                     {"bytes", 9000},
                                     {"busy_fraction", 0.75},
                                     {"shared_s", 0.125},
                                     {"multiplicity", 4},
                                     {"capacity_bytes_per_s", 100e9}}));
  CHECK(Json::parse(files_of(simulated).summary)["worst_link"] == "leaf 0 up");
  // 200 of 500 links are named. summary.json itself has 256 and says how many it leaves out.
  for (int i = 0; i < 498; ++i)
    simulated.result.summary.links.push_back({"link " + std::to_string(i), 1, 1e9, 1, 0.01, 0});
  const Json many = data_of(report_html(files_of(simulated), nullptr))["summary"];
  CHECK(many["links"].size() == 200);
  CHECK(many["num_links"] == 500);
}

TEST_CASE(
    "pipeline transfers are shown where there is a buffer for them, the most host-staged first") {
  Simulated simulated = simulate_text(kReportStudies[0], true);
  CHECK_FALSE(
      data_of(report_html(files_of(simulated), nullptr))["summary"].contains("pipeline_transfers"));
  TransferSummary transfers;
  transfers.boundaries = {{0, 1, 6, 0, ""}, {1, 0, 4, 2, "the buffer is full"}};
  transfers.buffers = {{0, true, 512, 256, 2, 1}, {1, false, 512, 128, 4, 3}};
  simulated.result.summary.transfers = transfers;
  const auto shown = [&] {
    return data_of(report_html(files_of(simulated), nullptr))["summary"]["pipeline_transfers"];
  };
  const Json two = shown();
  CHECK(two["direct"] == 10);
  CHECK(two["by_host"] == 2);
  REQUIRE(two["boundaries"].size() == 2);
  CHECK(two["boundaries"][0] == Json({{"from", 1},
                                      {"to", 0},
                                      {"direct", 4},
                                      {"by_host", 2},
                                      {"reason", "the buffer is full"}}));
  CHECK(two["boundaries"][1]["from"] == 0);
  CHECK(two["buffers"][1] == Json({{"rank", 1},
                                   {"bytes", 512},
                                   {"slots", 4},
                                   {"slot_bytes", 128},
                                   {"used", 3},
                                   {"use", "send"}}));
  // 200 of 302 boundaries are named, and all are counted.
  for (int i = 0; i < 300; ++i)
    simulated.result.summary.transfers->boundaries.push_back({i, i + 1, 1, 0, ""});
  const Json many = shown();
  CHECK(many["boundaries"].size() == 200);
  CHECK(many["num_boundaries"] == 302);
  CHECK(many["direct"] == 310);
  // What is damaged is named.
  RunFiles files = files_of(simulated);
  files.summary = with(files.summary, "\"by_host\"", "\"by_hand\"");
  CHECK_THAT(error_of([&] { report_html(files, nullptr); }),
             Catch::Contains("pipeline_transfers.boundaries[0].by_host: missing"));
}

TEST_CASE("a training run's page has its losses and time classes of the rows") {
  const Simulated simulated = simulate_text(kReportStudies[3], true);
  RunFiles files = {"runs/a", resolved_study_text(simulated.prepared.study), kTrainSummary,
                    "step,loss,tokens_per_s,grad_norm\n1,2.5,100.0,1\n2,nan,200.0,inf\n3,1.7"};
  const Json data = data_of(report_html(files, &simulated.timeline));
  CHECK(data["kind"] == "trained");
  CHECK(data["title"] == "a");
  CHECK(data["losses"]["step"] == Json({1, 2}));  // line 4 is cut short
  CHECK(data["losses"]["loss"] == Json({2.5, nullptr}));
  CHECK(data["losses"]["gradient_norm"] == Json({1.0, nullptr}));
  REQUIRE(data["time_by_rank"].size() == 1);
  double total = 0;
  for (const char* key : {"compute", "optimizer", "host", "bubble"})
    total += data["time_by_rank"][0]["time"][key].get<double>();
  CHECK(total == Approx(static_cast<double>(simulated.timeline.end()) / kTicksPerSecond));
  // A run that has not ended: neither summary nor trace.
  files.summary = "";
  const Json begun = data_of(report_html(files, nullptr));
  CHECK(begun["kind"] == "trained");
  CHECK_FALSE(begun.contains("timeline"));
  CHECK(begun["losses"]["steps"] == 2);
}

TEST_CASE("long loss curves keep the extremes of each stretch") {
  LossCurve curve;
  for (int step = 0; step < 10000; ++step) {
    curve.step.push_back(step);
    curve.loss.push_back(step == 5003 ? 1000.0 : step == 7007 ? -1.0 : 2.0);
    curve.tokens_per_s.push_back(1);
    curve.gradient_norm.push_back(1);
  }
  const LossCurve thin = thinned(curve, 100);
  CHECK(thin.step.size() <= 100);
  CHECK(std::count(thin.loss.begin(), thin.loss.end(), 1000.0) == 1);
  CHECK(std::count(thin.loss.begin(), thin.loss.end(), -1.0) == 1);
  CHECK(std::is_sorted(thin.step.begin(), thin.step.end()));
}

TEST_CASE("damaged files are named with the place or the key") {
  const Simulated simulated = simulate_text(kReportStudies[0], true);
  const RunFiles whole = files_of(simulated);
  const auto problem = [&](RunFiles files) {
    return error_of([&] { report_html(files, &simulated.timeline); });
  };
  const auto summary = [&](const std::string& text) {
    RunFiles files = whole;
    files.summary = text;
    return problem(files);
  };
  CHECK(problem(whole) == "none");
  CHECK(summary("{\n  \"study\": ").starts_with("out/summary.json:2:12: is not JSON: "));
  CHECK(summary("[1]") == "out/summary.json:1:1: expected a JSON object, got [1]");
  CHECK(summary("{\"mfu\": 1e999}") == "out/summary.json:1:9: no double holds the number 1e999");
  CHECK(summary("{}") == "out/summary.json:1:1: study: missing");
  CHECK(summary("{\n  \"study\": \"s\",\n  \"iteration_time_s\": \"x\"}") ==
        "out/summary.json:3:3: iteration_time_s: expected a number, got \"x\"");
  CHECK(summary(with(whole.summary, "\"bubble\": ", "\"bubbles\": "))
            .ends_with(": time.bubble: missing"));
  CHECK(summary(with(whole.summary, "\"entries\": [", "\"entries\": [1, "))
            .ends_with(": sources.entries[0]: expected a JSON object, got 1"));
  CHECK(summary(with(kTrainSummary, "\"steps\": 2", "\"steps\": []")) ==
        "out/summary.json:1:2: steps: expected a number, got []");
  RunFiles files = whole;
  files.study = "model: [";
  CHECK(problem(files).starts_with("out/study.resolved.yaml:1:"));
  files = whole;
  files.losses = "step,loss\n1,2\n";
  CHECK(problem(files) ==
        "out/losses.csv:1:1: expected the header 'step,loss,tokens_per_s,grad_norm'");
  files.losses = "step,loss,tokens_per_s,grad_norm\n1,2,x,4\n";
  CHECK(problem(files) == "out/losses.csv:2:5: expected a number, got 'x'");
  files.losses = "step,loss,tokens_per_s,grad_norm\n1,2,3\n";
  CHECK(problem(files) == "out/losses.csv:2:1: expected 4 fields, got 3");
}

TEST_CASE("a plan is told in a few lines, without what the study does not say") {
  const Simulated simulated = simulate_text(kReportStudies[1], true);
  std::string text;
  for (const PlanFact& fact : plan_facts(resolved_study_text(simulated.prepared.study), "s"))
    text += fact.name + ": " + fact.value + "\n";
  CHECK(text ==
        "Model: llama, 8 layers, hidden 256, 4 heads, vocabulary 512, sequences of 128 tokens\n"
        "Cluster: dgx-a100-80g, 1 node of 8 x a100-sxm-80g\n"
        "Parallel: tensor 1, pipeline 4 x 2 stages each, data 2, ZeRO 1, placement DPCET\n"
        "Schedule: interleaved, 8 microbatches of 1, partition uniform, recompute full\n"
        "Training: global batch 16, bf16, adamw, framework trainyard, fidelity fluid\n");
  CHECK(plan_facts("model: {layers: 2}", "s")[0].value == "2 layers");
  // Where pipeline ranks have replicas of their own number, a microbatch is of all of them.
  const auto facts = plan_facts(
      "parallel: {tensor: 1, pipeline: 2}\npartition: {cuts: [1, 2], replicas: [1, 3], on: [0, 1, "
      "0]}\ntraining: {global_batch: 24, microbatch: 8}\n",
      "s");
  std::string found;
  for (const PlanFact& fact : facts) found += fact.name + ": " + fact.value + "\n";
  CHECK(found.find("pipeline 2, stages on ranks 0 1 0, replicas 1 3") != std::string::npos);
  CHECK(found.find("3 microbatches of 8") != std::string::npos);
  // 8 replicas whose sequences 2 ranks share each: of 16 ranks each group of 4 has all of it.
  const auto groups = plan_facts(
      "parallel: {data: 8, context: {degree: 2, method: ring}, zero: {stage: 3, replicate: 4}}\n",
      "s");
  CHECK(std::any_of(groups.begin(), groups.end(), [](const PlanFact& fact) {
    return fact.value == "data 8, context 2 (ring), ZeRO 3 in 4 groups of 4 ranks (HSDP)";
  }));
}

}  // namespace trainyard::report_test
