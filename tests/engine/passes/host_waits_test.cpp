// Where the host waits for the device between microbatches.
#include "engine/passes/host_waits.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "tests/support/studies.h"

namespace trainyard::host_waits_test {

namespace {

Prepared prepared(const std::string& framework, const std::string& schedule) {
  return prepare_text(
      "model: {family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 128, seq_len: 16}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
      "parallel: {pipeline: 4, data: 1}\n"
      "training: {global_batch: 8, microbatch: 1, clip_norm: 0}\n"
      "framework: " +
      framework + "\nschedule: " + schedule + "\n");
}

/// Waits of microbatches and their transfers: the optimizer may wait for the gradient norm.
int num_host_waits(const Prepared& study) {
  const Program program = compiled_program(study);
  int waits = 0;
  for (const Segment& segment : program.segments) {
    waits += static_cast<int>(
        std::count_if(segment.ops.begin(), segment.ops.end(), [&](const ProgramOp& op) {
          return op.host_sync && (segment.phase <= Phase::kRecompute || op.kind == OpKind::kRecv);
        }));
  }
  return waits;
}

}  // namespace

TEST_CASE(
    "a framework that synchronises at transfers waits at every microbatch, unless another runtime "
    "splits backwards") {
  const std::string old = "{name: megatron-lm, version: \"2021\"}";
  CHECK(num_host_waits(prepared("trainyard", "1f1b")) == 0);
  // 4 stages: 6 receives (activations of 3 stages, gradients of 3), and the last kernels of 4
  // forwards and 4 backwards.
  CHECK(num_host_waits(prepared(old, "1f1b")) == 14);
  CHECK(num_host_waits(prepared(old, "gpipe")) == 14);
  CHECK(num_host_waits(prepared("{name: megatron-lm, version: current}", "1f1b")) == 14);
  for (const std::string schedule : {"zb-h1", "zb-1p", "zb-2p"}) {
    CAPTURE(schedule);
    CHECK(num_host_waits(prepared(old, schedule)) == 0);
    // The same split, of a framework whose own runtime does it: I in place of B, nothing is sent
    // behind W.
    Prepared own = prepared(old, schedule);
    own.software.streams_wait_where_split = false;
    CHECK(num_host_waits(own) >= 14);
  }
}

TEST_CASE(
    "several stages per rank make the streams of Megatron core wait, not those of older versions") {
  // 8 stages of a layer each on 4 ranks: 7 receives each way, and the last kernels of 8 forwards
  // and 8 backwards.
  const auto waits = [](const std::string& version) {
    Prepared study = prepare_text(
        "model: {family: gpt, layers: 8, hidden: 64, heads: 4, vocab: 128, seq_len: 16}\n"
        "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
        "parallel: {pipeline: 4, virtual_stages: 2, data: 1}\n"
        "training: {global_batch: 8, microbatch: 1, clip_norm: 0}\n"
        "framework: {name: megatron-lm, version: \"" +
        version + "\"}\nschedule: interleaved\n");
    return num_host_waits(study);
  };
  CHECK(waits("current") == 0);
  CHECK(waits("2021") == 30);
}

TEST_CASE("timers make the host wait behind every forward and backward, with one stage too") {
  const auto waits = [](const std::string& version) {
    return num_host_waits(prepare_text(
        "model: {family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 128, seq_len: 16}\n"
        "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
        "parallel: {data: 1}\n"
        "training: {global_batch: 8, microbatch: 1, clip_norm: 0}\n"
        "framework: {name: megatron-lm, version: \"" +
        version + "\"}\n"));
  };
  CHECK(waits("2021") == 2);
  CHECK(waits("current") == 0);
}

TEST_CASE("what makes streams wait does so only where the host would") {
  for (const bool splits : {false, true}) {
    for (const bool interleaved : {false, true}) {
      SoftwareProfile software;
      software.streams_wait_where_split = software.streams_wait_where_interleaved = true;
      CHECK_FALSE(software.host_waits_for_transfers(splits, interleaved));
      software.synchronous_transfers = true;
      CHECK(software.host_waits_for_transfers(splits, interleaved) == (!splits && !interleaved));
      software.streams_wait_where_split = false;
      CHECK(software.host_waits_for_transfers(splits, interleaved) == !interleaved);
      software.streams_wait_where_interleaved = false;
      CHECK(software.host_waits_for_transfers(splits, interleaved));
    }
  }
}

}  // namespace trainyard::host_waits_test
