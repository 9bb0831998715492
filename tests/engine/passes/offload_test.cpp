// What is copied to the host, when it comes back, and what that leaves on the device.
#include "engine/passes/offload.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/cluster/network.h"
#include "engine/cost/transfer_time.h"
#include "engine/memory/memory.h"
#include "tests/support/studies.h"

namespace trainyard::offload_test {

namespace {

std::string study(const std::string& pipeline, const std::string& schedule, const std::string& rest,
                  const std::string& model =
                      "{family: gpt, layers: 8, hidden: 16, heads: 4, vocab: 40, seq_len: 8}") {
  return "model: " + model +
         "\ncluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {pipeline: " + pipeline +
         ", data: 1}\ntraining: {global_batch: 8, dropout: 0}\nschedule: " + schedule + "\n" +
         rest + "\n";
}

/// "linear_dx", "h2d layers.2": ops of a segment, copies with the layer that wrote what they copy.
std::string name_of(const Program& program, const ProgramOp& op) {
  if (op.kind != OpKind::kCopy) return op_name(op.kind, op.part);
  const std::string& from = program.values[op.reads[0].value].name;
  return (op.stream == StreamId::kD2h ? "d2h " : "h2d ") + from;
}

const Segment* find_segment(const Program& program, const std::string& name) {
  const auto it = std::find_if(program.segments.begin(), program.segments.end(),
                               [&](const Segment& segment) { return segment.name == name; });
  return it == program.segments.end() ? nullptr : &*it;
}

std::vector<std::string> copies(const Program& program, const std::string& segment) {
  std::vector<std::string> out;
  const Segment* found = find_segment(program, segment);
  if (found == nullptr) return out;
  for (const ProgramOp& op : found->ops) {
    if (op.kind == OpKind::kCopy) out.push_back(name_of(program, op));
  }
  return out;
}

/// Layers of which ops stand between the copies of a segment, as "0,1|2": a bar for each copy.
std::string layers_between_copies(const Program& program, const std::string& segment) {
  std::string text, last;
  for (const ProgramOp& op : find_segment(program, segment)->ops) {
    if (op.kind == OpKind::kCopy) {
      text += "|";
      last.clear();
      continue;
    }
    const std::string& module = program.modules[op.module];
    const auto at = module.find("layers.");
    if (op.kind == OpKind::kFree || at == std::string::npos) continue;
    const std::string layer = module.substr(at + 7, module.find('.', at + 7) - at - 7);
    if (layer == last) continue;
    text += (last.empty() ? "" : ",") + layer;
    last = layer;
  }
  return text;
}

std::vector<std::string> calls_of(const Program& program, std::size_t rank) {
  std::vector<std::string> out;
  for (const Call& call : program.body[rank].calls) {
    out.push_back(program.segments[call.segment].name +
                  (call.mb[0] >= 0 ? std::to_string(call.mb[0]) : ""));
  }
  return out;
}

}  // namespace

TEST_CASE(
    "a layer's input leaves as soon as it is written and comes back a horizon before it is read") {
  const Program program = compiled_program(prepare_text(
      study("2", "1f1b", "recompute: full\noffload: {activations: true, horizon: 2}")));
  // Stage 0 holds layers 0 to 3; inputs are the embedding's output and those of layers 0 to 2.
  CHECK(copies(program, "0F") ==
        std::vector<std::string>{"d2h embedding.add", "d2h decoder.layers.0.add:1",
                                 "d2h decoder.layers.1.add:1", "d2h decoder.layers.2.add:1"});
  // Each copy stands in front of the layer that reads it: the layer before has written it.
  CHECK(layers_between_copies(program, "0F") == "|0|1|2|3");
  // The backward begins with layer 3: its input and layer 2's are 2 ahead of nothing in the
  // segment.
  CHECK(copies(program, "0LOAD_B") == std::vector<std::string>{"h2d decoder.layers.2.add:1.host",
                                                               "h2d decoder.layers.1.add:1.host"});
  // At the begin of layer 3 layer 1's is issued, at the begin of layer 2 layer 0's.
  CHECK(copies(program, "0B") ==
        std::vector<std::string>{"h2d decoder.layers.0.add:1.host", "h2d embedding.add.host"});
  CHECK(layers_between_copies(program, "0B") == "|3|2,1,0");
}

TEST_CASE("with a horizon of 0 copies are issued where they are needed, and nothing ahead") {
  const Program program = compiled_program(prepare_text(
      study("2", "1f1b", "recompute: full\noffload: {activations: true, horizon: 0}")));
  CHECK(layers_between_copies(program, "0B") == "|3|2|1|0");
  CHECK(find_segment(program, "0LOAD_B") == nullptr);
  // Nothing is due back before it has left, so the last stage copies as well: see below.
  CHECK(copies(program, "1F").size() == 4);
}

TEST_CASE("what a backward needs at its begin is copied beside the action before it") {
  const Program program = compiled_program(prepare_text(
      study("2", "1f1b", "recompute: full\noffload: {activations: true, horizon: 2}")));
  const std::vector<std::string> calls = calls_of(program, 0);
  // 1F1B on the first of two ranks: F0 F1 B0 F2 B1 F3 B2 ...: microbatch k's copies before F(k+1).
  for (int k = 0; k < 7; ++k) {
    const auto load = std::find(calls.begin(), calls.end(), "0LOAD_B" + std::to_string(k));
    REQUIRE(load != calls.end());
    CHECK(*std::next(load) == "0F" + std::to_string(k + 1));
  }
  // The last has no forward left in front of it: before the backward before.
  CHECK(*std::next(std::find(calls.begin(), calls.end(), "0LOAD_B7")) == "0B6");
}

TEST_CASE("where the backward follows at once, what is due within the horizon stays") {
  // On the last rank of 1F1B: layers 4 to 7, of which the backward reads 7 first. With a horizon of
  // 2 the inputs of 7 and 6 stay; with 4 all do.
  const auto of_last = [](const std::string& horizon) {
    return copies(compiled_program(prepare_text(study(
                      "2", "1f1b",
                      "recompute: full\noffload: {activations: true, horizon: " + horizon + "}"))),
                  "1F");
  };
  CHECK(of_last("2") ==
        std::vector<std::string>{"d2h decoder.layers.3.add:1@1", "d2h decoder.layers.4.add:1"});
  CHECK(of_last("4").empty());
  // gpipe runs all forwards first.
  const Program gpipe = compiled_program(prepare_text(
      study("1", "gpipe", "recompute: full\noffload: {activations: true, horizon: 100}")));
  CHECK(copies(gpipe, "0F").size() == 8);
  CHECK(copies(gpipe, "0LOAD_B").size() == 8);
}

TEST_CASE("what is offloaded takes the host's memory instead of the device's") {
  // gpipe, 8 microbatches of one sequence of 8 tokens, 8 layers on one rank; an input has 8 x 16
  // bf16 = 256 bytes.
  const std::string rest = "recompute: full\n";
  const Program kept = compiled_program(prepare_text(study("1", "gpipe", rest)));
  const Program away = compiled_program(
      prepare_text(study("1", "gpipe", rest + "offload: {activations: true, horizon: 1}")));
  const MemoryPeak before = memory_peaks(kept, {})[0], after = memory_peaks(away, {})[0];
  CHECK(before.host == 0);
  CHECK(after.host == 8 * 8 * 256);
  // Both peaks are in the first backward, where the first layer is recomputed. All 64 inputs are
  // there, or three: the layer's own, that of the layer that runs next, and the first that the next
  // microbatch's backward needs.
  CHECK(before.activations - after.activations == (64 - 3) * 256);
  CHECK(after.parameters == before.parameters);
}

TEST_CASE("every schedule copies back what it has copied away, whatever the model") {
  const std::map<std::string, std::string> models = {
      {"gpt", "{family: gpt, layers: 8, hidden: 16, heads: 4, vocab: 40, seq_len: 8}"},
      {"t5",
       "{family: t5, layers: 4, decoder_layers: 4, hidden: 16, heads: 4, ffn: 24, vocab: 40, "
       "seq_len: 8, "
       "decoder_seq_len: 8}"}};
  for (const auto& [family, model] : models) {
    for (const std::string schedule : {"gpipe", "1f1b", "zb-h1", "interleaved", "interleaved-zb1p",
                                       "zb-v", "dualpipe-v", "scp", "pre-recompute"}) {
      for (const std::string recompute : {"selective", "full"}) {
        for (const std::string horizon : {"0", "1", "3", "50"}) {
          CAPTURE(family, schedule, recompute, horizon);
          const std::string virtual_stages =
              schedule.starts_with("interleaved") ? ", virtual_stages: 2" : "";
          // compile() verifies: nothing is read before it is back, nothing is left, no slot is
          // taken twice.
          const Program program = compiled_program(
              prepare_text(study("4" + virtual_stages, schedule,
                                 "recompute: " + recompute +
                                     "\noffload: {activations: true, horizon: " + horizon + "}",
                                 model),
                           {"training.flash_attention=false"}));
          for (const RankClass& list : program.body) {
            std::multiset<std::pair<std::string, Microbatch>> away, back;
            for (const Call& call : list.calls) {
              for (const ProgramOp& op : program.segments[call.segment].ops) {
                if (op.kind != OpKind::kCopy) continue;
                const bool out = op.stream == StreamId::kD2h;
                const Operand& host = out ? op.writes[0] : op.reads[0];
                (out ? away : back).emplace(program.values[host.value].name, call.mb[host.slot]);
              }
            }
            CHECK(away == back);
          }
        }
      }
    }
  }
}

TEST_CASE("offloading without anything to recompute is refused") {
  CHECK_THROWS_WITH(prepare_text(study("2", "1f1b", "offload: {activations: true}")),
                    Catch::Contains("offload.activations: copies what recomputation keeps") &&
                        Catch::Contains("recompute: full"));
  CHECK_THROWS_WITH(
      prepare_text(study("2", "1f1b", "recompute: selective\noffload: {activations: true}")),
      Catch::Contains("keeps nothing for flash attention"));
  CHECK_THROWS_WITH(prepare_text(study("2", "1f1b", "offload: {activations: true, horizons: 2}")),
                    Catch::Contains("offload.horizons"));
  CHECK_THROWS_WITH(prepare_text(study("2", "1f1b", "offload: {horizon: -1}")),
                    Catch::Contains("offload.horizon"));
}

TEST_CASE(
    "a copy takes its latency and its bytes at the rate of the host link, or of a slower slot") {
  const HostLink link{26e9, 10e-6, {"measured", "", 0}};
  Cluster cluster;
  cluster.intra.kind = "nvswitch";
  cluster.intra.bandwidth = 300e9;
  SourceLog log;
  const TransferTime over_nvlink = copy_parts(26'000'000, link, cluster, log);
  CHECK(over_nvlink.latency == Approx(10e-6));
  CHECK(over_nvlink.transfer == Approx(1e-3));
  cluster.intra.kind = "pcie";
  cluster.intra.bandwidth = 13e9;
  CHECK(copy_parts(26'000'000, link, cluster, log).transfer == Approx(2e-3));
}

TEST_CASE("copies to the host pass the slot, the switch and the memory that others pass") {
  Cluster cluster;
  cluster.devices_per_node = 4;
  cluster.num_devices = 4;
  cluster.intra.kind = "pcie-switch";
  cluster.intra.bandwidth = 31.5e9;
  cluster.pcie = {2, 25e9};
  const Network network(cluster);
  const auto names = [&](std::int64_t device, bool out) {
    std::vector<std::string> passed;
    for (const LinkUse& use : network.host_route(device, out))
      passed.push_back(network.name(use.link));
    return passed;
  };
  CHECK(names(3, true) ==
        std::vector<std::string>{"device 3 pcie-switch out", "node 0 PCIe switch 1 out"});
  CHECK(names(0, false) ==
        std::vector<std::string>{"device 0 pcie-switch in", "node 0 PCIe switch 0 in"});
  cluster.intra.kind = "nvswitch";
  cluster.pcie = {};
  const Network plain(cluster);
  CHECK(plain.host_route(0, true).empty());
}

TEST_CASE("what a kept layer reads first is back by then") {
  // BERT's mask is read by every layer. Layers 2 and 3 keep their activations, and run their
  // backward first.
  const std::string model =
      "{family: bert, layers: 8, hidden: 16, heads: 4, vocab: 40, seq_len: 8}";
  for (const std::string horizon : {"0", "1"}) {
    CAPTURE(horizon);
    // compile() verifies that nothing is read before it is written.
    const Program program = compiled_program(prepare_text(study(
        "2", "1f1b",
        "recompute: {method: stage-aware, first: 0.5}\noffload: {activations: true, horizon: " +
            horizon + "}",
        model)));
    CHECK(program.body.size() == 2);
  }
}

}  // namespace trainyard::offload_test
