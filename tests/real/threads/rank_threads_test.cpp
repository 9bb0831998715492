// The threads of a rank: its host, a stream of communication each, and the one that sends
// heartbeats. Under ThreadSanitizer (preset tsan) whatever two of them touch without an order
// between them is a failure here; without it, runs whose communication takes longer or shorter have
// to end with the same weights.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "tests/real/layouts.h"
#include "tests/real/threads/failing_run.h"
#include "tests/real/threads/hanging_run.h"
#include "tests/real/threads/heartbeats_run.h"
#include "tests/real/threads/race_reports.h"
#include "tests/real/threads/touched_run.h"

namespace trainyard::rank_threads_test {

namespace {

const std::string kTraining = "precision: fp32, dropout: 0.1";

}  // namespace

TEST_CASE("no two threads of a rank touch the same memory unless one waits for the other") {
  // Between them: collectives beside kernels, buckets reduced and gathered in parts, both
  // directions of a pipeline, slots of pools that go round, copies to the host and back, norms that
  // a step leaves to the next one and corrections of what it did, transfers through buffers.
  const std::vector<Sets> layouts = {
      {"cluster.ranks=2", "parallel.tensor=2", "parallel.sequence_parallel=true"},
      {"cluster.ranks=4", "parallel.data=2", "parallel.pipeline=2", "parallel.zero=1"},
      {"cluster.ranks=2", "parallel.pipeline=2", "parallel.virtual_stages=2",
       "schedule=interleaved"},
      {"cluster.ranks=2", "parallel.pipeline=2", "recompute=full",
       "offload={activations: true, horizon: 1}"},
      {"cluster.ranks=2", "parallel.pipeline=2", "schedule={method: zb-1p, post_validation: true}",
       "training.clip_norm=0.01"},
      {"cluster={device: a100-sxm-80g, devices_per_node: 2, intra: {kind: nvlink, bandwidth: 20 "
       "GB/s}}",
       "training.kernels=cpu", "training.flash_attention=false",
       "parallel={pipeline: 2, d2d_buffer: 1 MiB}"}};
  for (const Sets& layout : layouts) {
    CAPTURE(layout);
    const LoopbackRun plain = run_loopback(parity_study("gpt", kTraining), layout, {.steps = 2});
    for (const std::uint32_t seed : {1U, 2U}) {
      CAPTURE(seed);
      const int before = num_race_reports();
      const TouchedRun touched =
          run_touched(parity_study("gpt", kTraining), layout, {.seed = seed});
      CHECK(num_race_reports() == before);
      CHECK(touched.run.losses == plain.losses);
      CHECK(touched.run.weights == plain.weights);
    }
  }
}

TEST_CASE("the thread that sends heartbeats reads where a rank is while it moves") {
  const int before = num_race_reports();
  const TouchedRun touched =
      run_touched(parity_study("gpt", kTraining), {"cluster.ranks=2", "parallel.pipeline=2"},
                  {.steps = 3, .heartbeats = true});
  CHECK(num_race_reports() == before);
  REQUIRE(touched.heartbeats.size() == 2);
  // The last were sent when the third step began, or later in it.
  for (const std::string& where : touched.heartbeats) CHECK(where.starts_with("step 3"));
}

TEST_CASE("where a rank was last seen is less than a second old") {
  const double oldest = oldest_beat(std::chrono::milliseconds(2500));
  CHECK(oldest > 0);
  CHECK(oldest < 0.9);  // the rest of the second is for whoever reads it and says so
}

TEST_CASE("tensors that one thread takes and another gives back keep what was written") {
  const int before = num_race_reports();
  CHECK(fill_tensors(4, 200) == 0);
  CHECK(num_race_reports() == before);
}

TEST_CASE(
    "a rank whose stream fails ends when its other streams have let go of their communicators") {
  const int before = num_race_reports();
  const FailedRun failed = run_failing(parity_study("gpt", kTraining));
  CHECK(failed.error == "no peer");
  CHECK(failed.was_busy);
  CHECK_FALSE(failed.ended_busy);
  CHECK(num_race_reports() == before);
}

TEST_CASE("ranks that wait for each other without end are named, with what they wait in") {
  const std::string said =
      "no rank has moved data for 0.2 s: rank 0 waits in all_reduce of tp.0.1 for rank 1; "
      "rank 1 waits in receive of transfer.2.1 for rank 2";
  CHECK(run_hanging(std::chrono::milliseconds(200)) == std::vector<std::string>{said, said, ""});
}

TEST_CASE("a main stream that waits for no communication is seen to race with it") {
  if (!kSeesRaces) return;
  const int before = num_race_reports();
  run_touched(parity_study("gpt", kTraining), {"cluster.ranks=2", "parallel.tensor=2"},
              {.steps = 1, .main_waits = false});
  CHECK(num_race_reports() > before);
}

}  // namespace trainyard::rank_threads_test
