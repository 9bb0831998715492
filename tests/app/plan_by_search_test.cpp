// partition: search-pipeline: never slower than what it begins with, within what the study gives.
#include "app/plan_by_search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/program/program_text.h"
#include "study/study_writer.h"
#include "tests/support/decided_pipeline.h"
#include "tests/support/studies.h"

namespace trainyard::plan_by_search_test {

namespace {

using Sets = std::vector<std::string>;

const std::string kSearch = "partition={method: search-pipeline, margin: MARGIN, budget: 10 s}";

struct Case {
  std::string yaml, margin;
};
/// Nine tenths of a device left free: RaNNC's cases (plan_by_rannc_test.cpp), in small.
const std::vector<Case> kCases = {
    {"model: {family: bert, layers: 6, hidden: 1024, heads: 16, vocab: 30522, seq_len: 128}\n"
     "cluster: {preset: dgx-1v, nodes: 1}\n"
     "training: {global_batch: 64, precision: fp32}\nframework: pytorch\n",
     "0.9"},
    {"model: resnet50\ncluster: {preset: dgx-1v, nodes: 1}\n"
     "training: {global_batch: 128, precision: fp32}\nframework: pytorch\n",
     "0.93"}};

std::string with_margin(std::string text, const std::string& margin) {
  const auto at = text.find("MARGIN");
  return at == std::string::npos ? text : text.replace(at, 6, margin);
}

Prepared prepared_by(const Case& one, const std::string& partition, const Sets& more = {}) {
  Sets sets = {with_margin(partition, one.margin)};
  sets.insert(sets.end(), more.begin(), more.end());
  return prepare_text(one.yaml, sets);
}

}  // namespace

TEST_CASE("a searched pipeline is no slower than RaNNC's, and fits as they do") {
  for (const Case& one : kCases) {
    const Prepared found = prepared_by(one, kSearch);
    CAPTURE(one.yaml, found.study.planned);
    CHECK(num_devices_of(found.study) == 8);
    CHECK(share_of_device(found) <= 1 - std::stod(one.margin));
    for (const std::string rule : {"paper", "code", "exact"}) {
      CAPTURE(rule);
      const Prepared rannc =
          prepared_by(one, "partition={method: rannc, margin: MARGIN, rule: " + rule + "}");
      CHECK(analytic_step(found) <= analytic_step(rannc) * (1 + 1e-9));
    }
    // GPipe-Hybrid: as many layers each, equal shares of the devices, all recomputed.
    for (const std::string stages : {"2", "4"}) {
      const Sets hybrid = {"parallel.pipeline=" + stages, "schedule=gpipe",
                           "recompute={method: full, ends: true}", "training.microbatch=2"};
      const Prepared even = prepared_by(one, "partition=uniform-floor", hybrid);
      if (share_of_device(even) > 1 - std::stod(one.margin)) continue;
      CAPTURE(stages);
      CHECK(analytic_step(found) <= analytic_step(even) * (1 + 1e-9));
    }
  }
}

TEST_CASE(
    "a searched pipeline is no slower than search at its degrees, and says how far it may be") {
  // Even replicas, and unlike ones: a vocabulary that no split of layers makes up for.
  const Sets few = {"model.layers=8", "model.vocab=256000", "training.global_batch=24"};
  for (const Sets& more : {Sets{}, few}) {
    const Prepared found =
        prepared_by({kCases[0].yaml, "0"},
                    "partition={method: search-pipeline, margin: MARGIN, budget: 5 s}", more);
    const auto& replicas = found.study.partition.replicas;
    std::string same;
    for (const int count : replicas) same += (same.empty() ? "[" : ", ") + std::to_string(count);
    const Prepared cuts =
        prepare_text(resolved_study_text(found.study),
                     {"partition={method: search, budget: 5 s" +
                      (replicas.empty() ? "" : ", replicas: " + same + "]") + "}"});
    CAPTURE(found.study.planned, cuts.study.origins.at("partition").note);
    CHECK(analytic_step(found) <= analytic_step(cuts) * (1 + 1e-9));
    CHECK_THAT(found.study.planned.front(), Catch::Contains("% above what kernels alone allow"));
    CHECK_THAT(found.study.planned.front(), !Catch::Contains(", -"));  // a gap below nothing
  }
}

TEST_CASE("the resolved study of a searched pipeline has the same Program") {
  const Prepared found = prepared_by(kCases[0], kSearch);
  CHECK(found.study.partition.method == "cuts");
  const std::string text = resolved_study_text(found.study);
  const Prepared again = prepare_text(text);
  CHECK(program_digest(compiled_program(again)) == program_digest(compiled_program(found)));
}

TEST_CASE("what the study gives binds the search") {
  const Prepared two = prepared_by(kCases[0], kSearch, {"parallel.pipeline=2"});
  CHECK(two.study.parallel.pipeline == 2);
  CHECK(num_devices_of(two.study) == 8);
  const Prepared each = prepared_by(kCases[0], kSearch, {"parallel.data=2"});
  CHECK(each.study.parallel.data == 2);
  CHECK(each.study.partition.replicas.empty());
  const Prepared full = prepared_by(kCases[0], kSearch, {"recompute=full"});
  CHECK(full.study.recompute.method == RecomputeConfig::Method::kFull);
  const Prepared size = prepared_by(kCases[0], kSearch, {"training.microbatch=8"});
  CHECK(size.study.num_microbatches() * size.study.training.microbatch *
            size.study.batch_replicas() ==
        64);
}

TEST_CASE("stages of a searched pipeline keep what the margin leaves, and not all of a device") {
  // 2.8 of 31.40 GiB are left: too little for all that 1F1B keeps, not for some of it.
  const Case small = {kCases[0].yaml, "0.91"};
  const Sets stage_aware = {"schedule=1f1b",          "recompute=stage-aware",
                            "parallel.pipeline=4",    "parallel.data=2",
                            "training.microbatch=32", "training.global_batch=1024"};
  const std::string searched = "partition={method: search-pipeline, margin: MARGIN, budget: 1 s}";
  const Prepared found = prepared_by(small, searched, stage_aware);
  CAPTURE(found.study.planned);
  CHECK(share_of_device(found) <= 0.09);
  REQUIRE(found.study.recompute.first.has_value());
  CHECK(*found.study.recompute.first < 1);
  // With all of a device nothing has to be computed again.
  const Prepared wide = prepared_by({kCases[0].yaml, "0"}, searched, stage_aware);
  CHECK(wide.study.recompute.first == 1);
  CHECK(analytic_step(wide) < analytic_step(found));
  const Prepared again = prepare_text(resolved_study_text(found.study));
  CHECK(program_digest(compiled_program(again)) == program_digest(compiled_program(found)));
}

TEST_CASE("what does not go with a searched pipeline is said at its place") {
  const auto fault = [](const Sets& sets) -> std::string {
    try {
      prepared_by(kCases[0], kSearch, sets);
    } catch (const ConfigError& error) {
      return error.what();
    } catch (const PlanError& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(fault({"parallel.tensor=2"}),
             Catch::Contains("parallel.tensor: partition search-pipeline divides a model"));
  CHECK_THAT(fault({"partition.replicas=[4, 4]"}),
             Catch::Contains("is what method search-pipeline decides"));
  CHECK_THAT(fault({"partition.rule=code"}), Catch::Contains("partition.rule: is of method rannc"));
  CHECK_THAT(fault({"partition.margin=0.999"}), Catch::Contains("no pipeline that was tried fits"));
}

}  // namespace trainyard::plan_by_search_test
