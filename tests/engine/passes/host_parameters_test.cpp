// Parameters on the host, or on its drives: what is fetched from there and when, how many bytes
// that is, what lies where, who shares the links, what is refused.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "engine/program/program_text.h"
#include "tests/support/simulated.h"
#include "tests/support/unit_events.h"

namespace trainyard::host_parameters_test {

namespace {

/// Four ranks of one pipeline rank; buckets are those of tests/support/unit_events.h, b0 of the
/// ends and b1 to b3 of layers 2 to 0, without padding.
constexpr int kRanks = 4;
static_assert(kLayer % kRanks == 0 && kRoot % kRanks == 0);
constexpr Bytes kOwn = kAll / kRanks;
constexpr std::int64_t kMicrobatches = 32 / kRanks;

Program with(const std::string& offload, const std::string& more = "") {
  return compiled("tensor: 1, pipeline: 1, data: 4, zero: {stage: 3" + more +
                  ", offload: " + offload + "}");
}

const std::string kBoth = "{optimizer: host, parameters: host}";

/// In bf16, of all that a step gathers from shards: layers for each forward and each backward, the
/// ends once.
constexpr Bytes kFetched = 2 * kMicrobatches * (2 * 3 * kLayer + kRoot) / kRanks;

std::string refusal(const std::string& yaml) {
  try {
    compiled_program(prepare_text(yaml));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

Bytes slots(const Program& program, const std::string& pool) {
  for (const Pool& one : program.pools) {
    if (one.name == pool) return one.slots;
  }
  return 0;
}

/// A step with shared links, of one sample for each rank.
Seconds step(int ranks, const std::string& cluster, const std::string& offload) {
  const std::string number = std::to_string(ranks);
  return simulate_text(
             "model: {family: gpt, layers: 4, hidden: 1024, heads: 16, vocab: 2048, seq_len: 128}\n"
             "cluster: {preset: dgx-a100-80g, devices: " +
                 number + cluster + "}\nparallel: {data: " + number +
                 ", zero: {stage: 3, offload: " + offload + "}}\ntraining: {global_batch: " +
                 number + ", microbatch: 1, dropout: 0, precision: bf16}\nfidelity: fluid\n",
             true)
      .result.summary.iteration_time;
}

}  // namespace

TEST_CASE("a unit is copied from the host one unit further ahead than it is gathered") {
  const Program program = with(kBoth);
  CHECK(events(program, "0GATHER_F") == Events{"load b0", "load b3", "gather b0"});
  CHECK(events(program, "0F+0GATHER_B") ==
        Events{"gather b3", "load b2", "gather b2", "load b1", "layer 0", "free b3", "gather b1",
               "load b1", "layer 1", "free b2", "load b2", "layer 2", "free b1", "gather b1"});
  CHECK(parse_program(to_text(program), "program.txt") == program);
  // Not gathered ahead, and yet copied ahead.
  CHECK(events(with(kBoth, ", prefetch: 0"), "0F+0GATHER_B") ==
        Events{"gather b0", "load b3", "gather b3", "load b2", "layer 0", "free b3", "gather b2",
               "load b1", "layer 1", "free b2", "gather b1", "load b1", "layer 2", "free b1"});
  // From the drives one more unit ahead.
  const Program drives = with("{optimizer: host, parameters: nvme}");
  CHECK(events(drives, "0GATHER_F") ==
        Events{"read b0", "read b3", "read b2", "load b0", "load b3", "gather b0"});
  CHECK(events(drives, "0F") == Events{"gather b3", "load b2", "read b1", "gather b2", "load b1",
                                       "layer 0", "free b3", "gather b1", "layer 1", "free b2",
                                       "layer 2", "free b1"});
  CHECK(parse_program(to_text(drives), "program.txt") == drives);
}

TEST_CASE("what is fetched, and what updates copy, are as many bytes as their closed forms") {
  // Gradients in fp32 with the squared norm go to the host that updates; weights in bf16 from where
  // they are updated to where they lie; of the state a master and two moments, there and back.
  struct Case {
    std::string offload;
    Bytes h2d, d2h, nvme_in, nvme_out;
  };
  for (const Case& one :
       {Case{kBoth, kFetched, 4 * kOwn + 4, 0, 0}, Case{"parameters", kFetched, 2 * kOwn, 0, 0},
        Case{"{parameters: nvme}", kFetched, 2 * kOwn, kFetched, 2 * kOwn},
        Case{"{optimizer: host, parameters: nvme}", kFetched, 4 * kOwn + 4, kFetched, 2 * kOwn},
        Case{"{optimizer: nvme}", 2 * kOwn, 4 * kOwn + 4, 12 * kOwn, 12 * kOwn},
        Case{"{optimizer: nvme, parameters: nvme}", kFetched, 4 * kOwn + 4, kFetched + 12 * kOwn,
             14 * kOwn}}) {
    CAPTURE(one.offload);
    const Program program = with(one.offload);
    CHECK(copied(program, StreamId::kH2d) == one.h2d);
    CHECK(copied(program, StreamId::kD2h) == one.d2h);
    CHECK(copied(program, StreamId::kNvmeIn) == one.nvme_in);
    CHECK(copied(program, StreamId::kNvmeOut) == one.nvme_out);
  }
  // One rank fetches all of it.
  const Program alone =
      compiled("tensor: 1, pipeline: 1, data: 1, zero: {stage: 3, offload: parameters}");
  CHECK(copied(alone, StreamId::kH2d) == 2 * 32 * (2 * 3 * kLayer + kRoot));
}

TEST_CASE("each part of the state lies where the study says") {
  const auto peak = [](const std::string& offload) { return memory_peaks(with(offload), {})[0]; };
  const auto kept = [](const MemoryPeak& of) { return of.parameters - of.gathered_parameters; };
  // Both on the host: weights, master and moments, gradients in fp32, the norm. No slots of
  // weights.
  const MemoryPeak both = peak(kBoth);
  CHECK(both.optimizer_state == 0);
  CHECK(kept(both) == 0);
  CHECK(both.host == (2 + 12 + 4) * kOwn + 4);
  const MemoryPeak parameters = peak("parameters");
  CHECK(parameters.optimizer_state == 12 * kOwn);
  CHECK(kept(parameters) == 0);
  CHECK(parameters.host == 2 * kOwn);
  // On the drives; on the host what is read, updated and written at a time: three buckets of each
  // of master and moments, and new weights of two.
  const Program drives = with("{optimizer: nvme, parameters: nvme}");
  const MemoryPeak there = memory_peaks(drives, {})[0];
  CHECK(there.nvme == (2 + 12) * kOwn);
  CHECK(slots(drives, "state@0") == 9);
  CHECK(slots(drives, "weights@0") == 2);
  // The unit that is copied to the device, and the two that are read meanwhile.
  CHECK(slots(drives, "reads@0") == 3);
  const Bytes layer = kLayer / kRanks;
  CHECK(there.host == 4 * kOwn + 4 + (9 * 4 + 2 * 2 + 2 * slots(drives, "reads@0")) * layer);
}

TEST_CASE("ranks behind one switch share its uplink, and those of a node its drives") {
  // Links so slow that nothing else takes time. Two ranks fetch half each of what one fetches, over
  // the same link; a link of twice the rate takes half as long.
  const auto check_shared = [](const auto& link, const std::string& offload) {
    const Seconds two = step(2, link("0.2"), offload);
    CHECK(two == Approx(step(1, link("0.2"), offload)).epsilon(0.05));
    CHECK(two == Approx(2 * step(2, link("0.4"), offload)).epsilon(0.05));
  };
  check_shared(
      [](const std::string& gb) { return ", pcie: {switches: 4, uplink: " + gb + " GB/s}"; },
      "parameters");
  check_shared(
      [](const std::string& gb) {
        return ", nvme: {read: " + gb + " GB/s, write: " + gb + " GB/s, drives: 1}";
      },
      "{parameters: nvme}");
  CHECK(step(2, ", nvme: {read: 0.1 GB/s, write: 0.1 GB/s, drives: 4}", "{parameters: nvme}") ==
        Approx(
            step(2, ", nvme: {read: 0.4 GB/s, write: 0.4 GB/s, drives: 1}", "{parameters: nvme}")));
}

TEST_CASE("parameters elsewhere are refused where nothing gathers them, or there is no drive") {
  CHECK_THAT(refusal(study("data: 4, zero: {stage: 2, offload: parameters}")),
             Catch::Contains("study.yaml:3:") && Catch::Contains("parallel.zero.offload") &&
                 Catch::Contains("write stage: 3"));
  CHECK_THAT(refusal(study("data: 4, zero: {stage: 3, offload: {parameters: disk}}")),
             Catch::Contains("parallel.zero.offload.parameters") && Catch::Contains("place"));
  const std::string no_drives =
      "model: {family: gpt, layers: 3, hidden: 32, heads: 4, vocab: 64, seq_len: 8}\n"
      "cluster: {preset: nd-a100-v4, nodes: 1}\nparallel: {data: 8, zero: {stage: 3, offload: "
      "{optimizer: nvme}}}\ntraining: {global_batch: 32, microbatch: 1}\n";
  CHECK_THAT(refusal(no_drives), Catch::Contains("parallel.zero.offload.optimizer") &&
                                     Catch::Contains("no NVMe drives") &&
                                     Catch::Contains("cluster.nvme"));
}

}  // namespace trainyard::host_parameters_test
