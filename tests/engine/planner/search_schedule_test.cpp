// Orders that are searched for a study's own stages, against others in whole steps.
#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "app/resolve_by_cost.h"
#include "engine/exec/times/action_times.h"
#include "engine/schedule/pipeline_schedule.h"
#include "engine/schedule/schedule_csv.h"
#include "tests/support/simulated.h"
#include "tests/support/studies.h"
#include "tests/support/study_outcome.h"

namespace trainyard::search_schedule_test {

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

/// A head that is most of the last stage: the order that suits the actions alone hides fewer
/// reductions than ZB-H1.
const std::vector<std::string> kLongHeads = {
    "model: {family: gpt, layers: 24, hidden: 1024, heads: 16, vocab: 128000, seq_len: 64}\n"
    "cluster: {preset: dgx-h100, nodes: 32}\nparallel: {tensor: 2, pipeline: 8, data: 16}\n"
    "training: {global_batch: 1024, microbatch: 4, precision: bf16}\nframework: "
    "megatron-deepspeed\n",
    "model: {family: t5, layers: 8, hidden: 128, heads: 2, vocab: 128000, seq_len: 64, "
    "decoder_layers: 8, decoder_seq_len: 64}\n"
    "cluster: {preset: dgx-h100, nodes: 16}\nparallel: {tensor: 2, pipeline: 8, data: 8}\n"
    "training: {global_batch: 256, microbatch: 4, precision: bf16}\nrecompute: full\nframework: "
    "megatron-deepspeed\n"};

Seconds step_time(const std::string& yaml, const std::string& schedule) {
  const Outcome outcome = run_study(yaml, {"fidelity=analytic", "schedule=" + schedule});
  REQUIRE(outcome.simulation);
  return outcome.simulation->summary.iteration_time;
}

/// Devices whose transfers are host-staged, each on a node of its own: 8 layers of 1024 and 1024
/// tokens a microbatch.
std::string by_host(int stages, int num_microbatches, const std::string& bandwidth) {
  return "model: {family: gpt, layers: 8, hidden: 1024, heads: 8, vocab: 8192, seq_len: 1024, "
         "tied_embeddings: false}\n"
         "cluster: {device: rtx-3090, devices_per_node: 1, host: {memory: 100 GB/s}, devices: " +
         std::to_string(stages) + ", inter: {kind: ethernet, bandwidth: " + bandwidth +
         "}}\nparallel: {d2d_buffer: 1 GiB, pipeline: " + std::to_string(stages) +
         "}\ntraining: {microbatch: 1, global_batch: " + std::to_string(num_microbatches) + "}\n";
}

/// Durations of the study's actions and transfers, in steps simulated as the search does.
ScheduleSettings durations(const std::string& yaml, const std::vector<std::string>& methods) {
  ActionTimes times(prepare_text(yaml).study.parallel.pipeline);
  for (const std::string& method : methods)
    times.add(simulated_actions(prepare_text(yaml, {"schedule=" + method})));
  return durations_of(times, mean_time);
}

/// The schedule with the order of a search for these durations.
std::string with_order(const std::string& yaml, const std::string& method,
                       const ScheduleSettings& durations) {
  std::string list;
  std::istringstream rows(
      rows_of_durations(prepare_text(yaml, {"schedule=" + method}).study, durations));
  for (std::string row; std::getline(rows, row);)
    list += (list.empty() ? "\"" : ", \"") + row + "\"";
  return "{method: " + method + ", rows: [" + list + "]}";
}

std::string searched(const std::string& yaml, const std::string& schedule) {
  return prepare_text(yaml, {"schedule=" + schedule}).study.schedule.rows;
}

}  // namespace

TEST_CASE(
    "zb-1p is never slower than 1F1B and ZB-H1, nor zb-2p than zb-1p, where reductions are most of "
    "a step") {
  int faster = 0, as_1f1b = 0;
  std::vector<std::string> studies = kReductions;
  studies.insert(studies.end(), kLongHeads.begin(), kLongHeads.end());
  for (const std::string& yaml : studies) {
    for (const std::string& rest : {std::string("}"), std::string(", post_validation: true}")}) {
      CAPTURE(yaml, rest);
      const auto time = [&](const std::string& method) {
        return step_time(yaml, "{method: " + method + rest);
      };
      const Seconds of_1f1b = time("1f1b"), one = time("zb-1p"), two = time("zb-2p");
      CHECK(one <= of_1f1b * (1 + 1e-9));
      CHECK(one <= time("zb-h1") * (1 + 1e-9));
      CHECK(two <= one * (1 + 1e-9));
      faster += one < of_1f1b * (1 - 1e-3);
      as_1f1b += one >= of_1f1b * (1 - 1e-9);
    }
  }
  CHECK(faster > 3);
  CHECK(as_1f1b > 0);
}

TEST_CASE("below the memory of 1F1B and ZB-H1 their orders are not taken") {
  // Stage 0 of both holds as many microbatches as there are stages; there is room for one.
  int taken = 0;
  for (const std::string& yaml : kReductions) {
    CAPTURE(yaml);
    const Study study = prepare_text(yaml).study;
    const std::string whole = schedule_csv(
        one_f_one_b(study.parallel.pipeline, static_cast<int>(study.num_microbatches())));
    taken += searched(yaml, "zb-2p") == whole;
    const std::string rows = searched(yaml, "{method: zb-2p, memory_limit: 1}");
    CHECK(rows != whole);
    CHECK(peak_in_flight(parse_schedule_csv(rows, "rows"), 0) == 1);
  }
  CHECK(taken > 0);
}

TEST_CASE("zb-2p takes an order that suits host-staged transfers, where one is faster") {
  for (const std::string& yaml :
       {by_host(8, 16, "2 GB/s"),
        study("pcie-8x-rtx-3090, nodes: 1", 8, 256, 512, "pipeline: 8, d2d_buffer: 1 GiB", 24)}) {
    CAPTURE(yaml);
    const ScheduleSettings known = durations(yaml, {"1f1b", "zb-h1"});
    CHECK(known.transfer > 0);
    ScheduleSettings at_once = known;
    at_once.transfer = 0;
    const Seconds time = step_time(yaml, "zb-2p");
    CHECK(time == step_time(yaml, with_order(yaml, "zb-2p", known)));
    CHECK(time < step_time(yaml, with_order(yaml, "zb-2p", at_once)));
  }
}

TEST_CASE(
    "where host-staged transfers would wait behind others, orders for short transfers are taken") {
  // One takes longer than a forward: 2 MiB in two copies and over 1 GB/s. What would fill the wait
  // for the first gradient, more forwards, has its copies behind that of this gradient.
  const std::string yaml = by_host(4, 8, "1 GB/s");
  for (const std::string& method : {std::string("zb-2p"), std::string("opportunistic")}) {
    CAPTURE(method);
    const ScheduleSettings known =
        durations(yaml, method == "zb-2p" ? std::vector<std::string>{"1f1b", "zb-h1"}
                                          : std::vector<std::string>{"1f1b"});
    CHECK(known.transfer > known.of_stage[1].forward);
    ScheduleSettings at_once = known;
    at_once.transfer = 0;
    const Seconds time = step_time(yaml, method);
    CHECK(time == step_time(yaml, with_order(yaml, method, at_once)));
    CHECK(time < step_time(yaml, with_order(yaml, method, known)));
  }
}

}  // namespace trainyard::search_schedule_test
