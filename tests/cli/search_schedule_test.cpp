// Orders that are searched for a study's own stages, against 1F1B in whole steps.
#include "cli/search_schedule.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/schedule/pipeline_schedule.h"
#include "engine/schedule/schedule_csv.h"
#include "tests/support/random_plan.h"
#include "tests/support/studies.h"

namespace trainyard {

namespace {

std::string study(const std::string& cluster, int layers, int hidden, int seq_len,
                  const std::string& parallel, int global_batch) {
  return "model: {family: gpt, layers: " + std::to_string(layers) +
         ", hidden: " + std::to_string(hidden) +
         ", heads: 8, vocab: 8192, seq_len: " + std::to_string(seq_len) +
         "}\ncluster: {preset: " + cluster + "}\nparallel: {" + parallel +
         "}\ntraining: {global_batch: " + std::to_string(global_batch) + ", microbatch: 1}\n";
}

/// Few microbatches and many replicas: reductions of gradients are most of a step.
const std::vector<std::string> kReductions = {
    study("pcie-8x-a100, nodes: 2", 8, 1024, 128, "tensor: 1, pipeline: 2, data: 8, zero: 1", 48),
    study("pcie-8x-a100, nodes: 8", 4, 2048, 512, "tensor: 2, pipeline: 2, data: 16, zero: 1", 128),
    study("pcie-8x-a100, nodes: 8", 8, 1024, 128, "tensor: 2, pipeline: 2, data: 16, zero: 1", 48),
    study("dgx-a100-80g, nodes: 4", 2, 4096, 512, "tensor: 2, pipeline: 2, data: 8, zero: 1", 48),
    study("dgx-a100-80g, nodes: 4", 8, 2048, 1024, "tensor: 2, pipeline: 2, data: 8, zero: 1", 16),
    study("dgx-h100, nodes: 8", 8, 512, 128, "tensor: 1, pipeline: 8, data: 8", 64),
    study("dgx-a100-80g, nodes: 8", 8, 2048, 512, "tensor: 1, pipeline: 4, data: 16", 256)};

Seconds step_time(const std::string& yaml, const std::string& schedule) {
  const Outcome outcome = run_study(yaml, {"fidelity=analytic", "schedule=" + schedule});
  REQUIRE(outcome.simulation);
  return outcome.simulation->summary.iteration_time;
}

std::string searched(const std::string& yaml, const std::string& schedule) {
  return prepare_text(yaml, {"schedule=" + schedule}).study.schedule.rows;
}

}  // namespace

TEST_CASE("zb-1p and zb-2p are never slower than 1F1B, where reductions are most of a step") {
  int faster = 0, as_fast = 0;
  for (const std::string& yaml : kReductions) {
    for (const std::string& rest : {std::string("}"), std::string(", post_validation: true}")}) {
      const Seconds of_1f1b = step_time(yaml, "{method: 1f1b" + rest);
      for (const std::string& name : {std::string("zb-1p"), std::string("zb-2p")}) {
        CAPTURE(yaml, name, rest);
        const Seconds time = step_time(yaml, "{method: " + name + rest);
        CHECK(time <= of_1f1b * (1 + 1e-9));
        faster += time < of_1f1b * (1 - 1e-3);
        as_fast += time >= of_1f1b * (1 - 1e-9);
      }
    }
  }
  CHECK(faster > 5);
  CHECK(as_fast > 0);
}

TEST_CASE("below 1F1B's memory its order is not taken") {
  // Stage 0 of 1F1B holds 2 microbatches; there is room for one.
  const std::string& yaml = kReductions[0];
  const std::string whole = schedule_csv(one_f_one_b(2, 6));
  CHECK(searched(yaml, "zb-2p") == whole);
  const std::string rows = searched(yaml, "{method: zb-2p, memory_limit: 1}");
  CHECK(rows != whole);
  CHECK(peak_in_flight(parse_schedule_csv(rows, "rows"), 0) == 1);
}

}  // namespace trainyard
