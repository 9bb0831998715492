// Cases from the file to their errors: nothing is dropped, whatever is wrong with a case, and the
// answer does not depend on the number of processes.
#include "app/validate_command.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "engine/base/error.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/source_root.h"

namespace trainyard::validate_command_test {

namespace {

/// One case of a small model on two nodes, with `changes` in the place of its schedule.
std::string case_text(const std::string& id, const std::string& changes) {
  return "- id: " + id +
         "\n"
         "  source: paper\n"
         "  framework: megatron-lm\n"
         "  model: {family: gpt, layers: 4, hidden: 256, heads: 4, vocab: 1024, seq_len: 128}\n"
         "  cluster: {gpu: a100-sxm-80g, gpus: 16, gpus_per_node: 8, intra: nvswitch, "
         "intra_gb_per_s: 300, "
         "inter: infiniband, inter_gbit_per_s_per_node: null}\n"
         "  training: {global_batch: 32, microbatch: 1, precision: fp16}\n" +
         changes + "  measured: {iteration_time_s: 0.02}\n";
}

Validation validated(const std::string& text, const PredictOptions& options, int jobs) {
  const ScratchFolder folder;
  write_text(folder / "cases.yaml", text);
  return validate_cases(folder / "cases.yaml", options, jobs);
}

}  // namespace

TEST_CASE("a case is predicted as a study is, and a broken one is listed with its place") {
  const Validation v =
      validated(case_text("works", "  parallel: {tensor: 2, pipeline: 2, data: 4}\n") +
                    case_text("expert", "  parallel: {tensor: 2, expert: 2}\n") + "- 7\n" +
                    case_text("typo", "  parallel: {tensr: 2}\n") +
                    case_text("uneven", "  parallel: {tensor: 1, pipeline: 16}\n"),
                {}, 2);
  REQUIRE(v.outcomes.size() == 5);
  const Prediction& works = v.outcomes[0].prediction;
  CHECK(works.skipped.empty());
  CHECK(works.iteration_time > 0);
  CHECK(works.peak_memory_gib > 0);
  CHECK(works.framework_version == "2021");
  CHECK(works.device == "a100-sxm-80g");
  CHECK(works.num_gpus == 16);
  CHECK(std::accumulate(works.time.begin(), works.time.end(), 0.0) ==
        Approx(works.iteration_time).epsilon(1e-9));
  CHECK(works.warnings ==
        std::vector<std::string>{
            "cluster.inter_gbit_per_s_per_node is not given: 800 is taken, 100 per GPU"});
  CHECK(v.outcomes[1].prediction.reason.find("expert parallelism") != std::string::npos);
  CHECK(v.outcomes[1].prediction.skipped.find("cases.yaml:") != std::string::npos);
  CHECK(v.outcomes[2].prediction.skipped.find("expected a case") != std::string::npos);
  CHECK(v.outcomes[3].prediction.skipped.find("unknown key") != std::string::npos);
  CHECK_FALSE(v.outcomes[4].prediction.skipped.empty());
  CHECK(v.time.all.stats.n == 1);
  CHECK(v.time.all.skipped == 4);
}

TEST_CASE("a plan that does not fit in memory has its time") {
  const Validation v =
      validated(case_text("large", "  parallel: {tensor: 1}\n"),
                {{"model.hidden=16384", "model.heads=64", "model.layers=16"}, ""}, 1);
  const Prediction& p = v.outcomes[0].prediction;
  CHECK_FALSE(p.fits);
  CHECK(p.iteration_time > 0);
  CHECK(v.time.all.stats.n == 1);
}

TEST_CASE("fidelity is analytic unless the case, or an option, says another") {
  const std::string cases = case_text("said", "  fidelity: fluid\n") + case_text("unsaid", "");
  // With tensor 1 and no pipeline the replicas' all-reduces share no link: the same time.
  const auto time = [&](const PredictOptions& options, std::size_t i) {
    return validated(cases, options, 1).outcomes[i].prediction.iteration_time;
  };
  CHECK(time({}, 1) == time({{}, "analytic"}, 1));
  CHECK(time({}, 0) == time({{}, "fluid"}, 0));
}

TEST_CASE("an option that no case could take is refused before any case runs") {
  const std::string cases = case_text("a", "");
  CHECK_THROWS_WITH(validated(cases, {{"parallel.tensor"}, ""}, 1),
                    Catch::Contains("expected path=value"));
  CHECK_THROWS_WITH(
      validated(cases, {{}, "exact"}, 1),
      "--fidelity: unknown fidelity 'exact'; this version has analytic, fluid and step");
}

TEST_CASE("the answer is the same in one process and in several, byte for byte") {
  std::string cases;
  for (const char* data : {"1", "2", "4", "8", "3", "16"}) {
    cases += case_text(std::string("d") + data,
                       std::string("  parallel: {tensor: 1, data: ") + data + "}\n");
  }
  const ScratchFolder folder;
  write_text(folder / "cases.yaml", cases);
  const std::string one = validation_json(validate_cases(folder / "cases.yaml", {}, 1));
  CHECK(validation_json(validate_cases(folder / "cases.yaml", {}, 4)) == one);
  CHECK(one.find("32 is not a multiple of data(3)") != std::string::npos);
}

}  // namespace trainyard::validate_command_test
