// Which way pipeline transfers go with parallel.d2d_buffer, counted by hand on a small 1F1B; what
// it does to memory and to the Program's text; what the placement of ranks has to do with it.
#include "engine/passes/transfer_routes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/cluster/peer_access.h"
#include "engine/memory/memory.h"
#include "engine/program/program_text.h"
#include "report/transfer_summary.h"
#include "tests/support/studies.h"

namespace trainyard::transfer_routes_test {

namespace {

/// Microbatches of 1 x 8 x 16 bf16: 256 bytes from stage to stage. `parallel` begins with the
/// buffer.
std::string study(const std::string& cluster, const std::string& parallel,
                  const std::string& rest = "") {
  return "model: {family: gpt, layers: 4, hidden: 16, heads: 4, vocab: 40, seq_len: 8}\n"
         "cluster: {" +
         cluster + "}\nparallel: {" + parallel +
         "}\ntraining: {global_batch: 4, microbatch: 1, dropout: 0}\n" + rest;
}

const std::string kMemory = ", host: {memory: 100 GB/s}";
const std::string kInNode = "preset: dgx-a100-80g, devices: 2" + kMemory;
const std::string kBetween =
    "device: a100-sxm-80g, devices: 2, inter: {kind: infiniband, bandwidth: 25 GB/s}" + kMemory;
const std::string kEthernet =
    "device: a100-sxm-80g, devices: 2, inter: {kind: ethernet, bandwidth: 5 GB/s}" + kMemory;

Program compiled(const std::string& yaml) { return compiled_program(prepare_text(yaml)); }

std::string calls_of(const Program& program, std::size_t rank) {
  std::string out;
  for (const Call& call : program.body[rank].calls) {
    if (call.mb[0] < 0) continue;
    out +=
        (out.empty() ? "" : " ") + program.segments[call.segment].name + std::to_string(call.mb[0]);
  }
  return out;
}

TransferSummary transfers_of(const std::string& yaml) {
  const Prepared prepared = prepare_text(yaml);
  return summarise_transfers(compiled_program(prepared), prepared.study).value();
}

/// "0>1: 4+0, 1>0: 3+1": by boundary, direct and host-staged.
std::string counts(const TransferSummary& transfers) {
  std::string out;
  for (const auto& b : transfers.boundaries) {
    out += (out.empty() ? "" : ", ") + std::to_string(b.from) + ">" + std::to_string(b.to) + ": " +
           std::to_string(b.direct) + "+" + std::to_string(b.by_host);
  }
  return out;
}

/// The segments of the text that are called so, without the lines of modules and with values cut to
/// y and d.y.
std::string segments_text(const Program& program, const std::vector<std::string>& names) {
  const std::string text = to_text(program);
  std::string out;
  for (const std::string& name : names) {
    std::size_t at = text.find("segment " + name + "(");
    REQUIRE(at != std::string::npos);
    for (bool first = true;; first = false) {
      const std::size_t end = text.find('\n', at);
      std::string line = text.substr(at, end - at);
      if (!first && !line.starts_with("  ")) break;
      for (std::size_t y = 0; (y = line.find("decoder.layers.1.add:1", y)) != std::string::npos;)
        line.replace(y, 22, "y");
      if (first) line = line.substr(0, line.find(" stage:"));
      if (!line.starts_with("  @")) out += line + "\n";
      at = end + 1;
    }
  }
  return out;
}

}  // namespace

TEST_CASE(
    "NVLink joins all of a node, the pairs of its bridges, or the neighbours in a cube mesh") {
  Cluster cluster;
  cluster.devices_per_node = 8;
  const auto peers = [&](const std::string& kind, std::int64_t of) {
    cluster.intra.kind = kind;
    std::string text;
    for (std::int64_t to = 0; to < 16; ++to) {
      if (to != of && joined_by_nvlink(cluster, of, to))
        text += (text.empty() ? "" : " ") + std::to_string(to);
    }
    return text;
  };
  CHECK(peers("nvswitch", 2) == "0 1 3 4 5 6 7");
  CHECK(peers("nvlink", 9) == "8 10 11 12 13 14 15");
  CHECK(peers("nvlink-bridge", 2) == "3");
  // DGX-1: 2 is joined to 0, 1, 3 and 6.
  CHECK(peers("nvlink-cube-mesh", 2) == "0 1 3 6");
  CHECK(peers("pcie", 2) == "");
  CHECK(peers("pcie-switch", 2) == "");
}

TEST_CASE("networks have RDMA by their kind, unless the cluster says") {
  const auto rdma = [](const std::string& cluster) {
    return has_rdma(
        prepare_text(study(cluster, "pipeline: 2, data: 1"), {"training.precision=fp32"})
            .study.cluster);
  };
  for (const std::string kind :
       {"infiniband", "infiniband-hdr", "roce", "efa", "omni-path", "nvlink-network"}) {
    CAPTURE(kind);
    CHECK(rdma("device: a100-sxm-80g, devices: 2, inter: {kind: " + kind + ", bandwidth: 5 GB/s}"));
  }
  CHECK(!rdma("device: a100-sxm-80g, devices: 2, inter: {kind: ethernet, bandwidth: 5 GB/s}"));
  CHECK(rdma(
      "device: a100-sxm-80g, devices: 2, rdma: on, inter: {kind: ethernet, bandwidth: 5 GB/s}"));
  CHECK(
      !rdma("device: a100-sxm-80g, devices: 2, rdma: off, inter: {kind: roce, bandwidth: 5 GB/s}"));
  CHECK(rdma("preset: p4d.24xlarge, nodes: 2"));
  CHECK(!rdma("preset: p3dn.24xlarge, nodes: 2"));
}

TEST_CASE("with one slot, 1F1B on two ranks sends all but the last gradient direct") {
  // Rank 1 runs F0 B0 F1 B1 ...: an activation is received in front of the action before the one
  // that reads it, and taken out in front of that: one is there at a time. Rank 0 runs F0 F1 B0 F2
  // B1 F3 B2 B3: the gradients that B2 and B3 read are both received in front of B2, behind the
  // last activation sent, so the second finds no slot.
  const std::string yaml = study(kInNode, "pipeline: 2, d2d_buffer: 256 B");
  const Program program = compiled(yaml);
  CHECK(calls_of(program, 0) ==
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0TAKE_B0 0B0 0FREE_F0 0F2 0FREE_F1 0SEND_F2 0RECV_B1 "
        "0TAKE_B1 0B1 0F3 "
        "0FREE_F2 0SEND_F3 0RECV_B2 0RECV_B.host3 0TAKE_B2 0B2 0B3 0DONE_B.host3 0FREE_F3");
  CHECK(calls_of(program, 1) ==
        "1RECV_F0 1TAKE_F0 1F0 1RECV_F1 1B0 1SEND_B0 1TAKE_F1 1F1 1RECV_F2 1B1 1FREE_B0 1SEND_B1 "
        "1TAKE_F2 1F2 1RECV_F3 "
        "1B2 1FREE_B1 1SEND_B2 1TAKE_F3 1F3 1B3 1FREE_B2 1SEND_B.host3 1FREE_B.host3");
  const TransferSummary transfers = transfers_of(yaml);
  CHECK(counts(transfers) == "0>1: 4+0, 1>0: 3+1");
  CHECK(transfers.boundaries[0].reason.empty());
  CHECK(transfers.boundaries[1].reason == "the buffer is full");
  REQUIRE(transfers.buffers.size() == 2);
  for (const auto& buffer : transfers.buffers) {
    CHECK(buffer.receives);
    CHECK(buffer.bytes == 256);
    CHECK(buffer.slot_bytes == 256);
    CHECK(buffer.slots == 1);
    CHECK(buffer.used == 1);
  }
}

TEST_CASE("as many transfers go direct as slots allow, on both ends") {
  CHECK(counts(transfers_of(study(kInNode, "pipeline: 2, d2d_buffer: 512 B"))) ==
        "0>1: 4+0, 1>0: 4+0");
  CHECK(counts(transfers_of(study(kInNode, "pipeline: 2, d2d_buffer: 511 B"))) ==
        "0>1: 4+0, 1>0: 3+1");
  // Between nodes what was sent gives its slot back behind the next action, as all that was sent is
  // freed. Rank 0 sends F0 in front of F1 and F1 in front of B0, where F0 is there still; F2 two
  // actions later. Rank 1 sends in front of every other action: behind the one between, its slot is
  // free.
  CHECK(counts(transfers_of(study(kBetween, "pipeline: 2, d2d_buffer: 256 B"))) ==
        "0>1: 3+1, 1>0: 3+1");
  CHECK(counts(transfers_of(study(kBetween, "pipeline: 2, d2d_buffer: 512 B"))) ==
        "0>1: 4+0, 1>0: 4+0");
  // A message larger than the buffer: no slot at all.
  const TransferSummary none = transfers_of(study(kBetween, "pipeline: 2, d2d_buffer: 255 B"));
  CHECK(counts(none) == "0>1: 0+4, 1>0: 0+4");
  CHECK(none.buffers.empty());
  CHECK(none.boundaries[0].reason ==
        "the buffer of 255 bytes is smaller than the largest tensor that pipeline rank 0 sends, "
        "256 bytes");
  // Inside a node only who receives has a buffer.
  const TransferSummary inside = transfers_of(study(kInNode, "pipeline: 2, d2d_buffer: 255 B"));
  CHECK(counts(inside) == "0>1: 0+4, 1>0: 0+4");
  CHECK(inside.boundaries[0].reason ==
        "the buffer of 255 bytes is smaller than the largest tensor that pipeline rank 1 receives, "
        "256 bytes");
  // One slot, and more at once.
  CHECK(transfers_of(study(kInNode, "pipeline: 2, d2d_buffer: 511 B")).boundaries[1].reason ==
        "the buffer is full");
}

TEST_CASE(
    "norms that the validation of a step sends along the pipeline are no transfers of tensors") {
  const std::string validated = "schedule: {method: zb-h1, post_validation: true}\n";
  CHECK(counts(transfers_of(study(kInNode, "pipeline: 2, d2d_buffer: 512 B", validated))) ==
        "0>1: 4+0, 1>0: 4+0");
}

TEST_CASE(
    "where devices do not reach each other, transfers are host-staged and no buffer is made") {
  const TransferSummary pcie = transfers_of(
      study("preset: pcie-8x-a100, devices: 2" + kMemory, "pipeline: 2, d2d_buffer: 1 GiB"));
  CHECK(counts(pcie) == "0>1: 0+4, 1>0: 0+4");
  CHECK(pcie.boundaries[0].reason ==
        "ranks 0 and 1 lie in one node, and no NVLink joins them (links: pcie-switch)");
  CHECK(pcie.buffers.empty());
  const TransferSummary ethernet = transfers_of(study(kEthernet, "pipeline: 2, d2d_buffer: 1 GiB"));
  CHECK(counts(ethernet) == "0>1: 0+4, 1>0: 0+4");
  CHECK(ethernet.boundaries[1].reason ==
        "ranks 0 and 1 lie in different nodes, whose network (ethernet) has no RDMA");
  CHECK(ethernet.buffers.empty());
  // The middle boundary of four stages on two bridged pairs has no NVLink.
  const TransferSummary pairs =
      transfers_of(study("preset: nvlink-pairs-4x-a100, nodes: 1" + kMemory,
                         "pipeline: 4, data: 1, d2d_buffer: 1 GiB"));
  CHECK(counts(pairs) == "0>1: 4+0, 1>0: 4+0, 1>2: 0+4, 2>1: 0+4, 2>3: 4+0, 3>2: 4+0");
}

TEST_CASE(
    "the whole buffer takes memory of a device, by each use; what is host-staged takes the "
    "host's") {
  const auto peaks = [](const std::string& yaml) { return memory_peaks(compiled(yaml), {}); };
  for (const MemoryPeak& peak : peaks(study(kInNode, "pipeline: 2, d2d_buffer: 10 MiB"))) {
    CHECK(peak.buffers == 10 << 20);
    CHECK(peak.host == 0);
  }
  for (const MemoryPeak& peak : peaks(study(kBetween, "pipeline: 2, d2d_buffer: 10 MiB"))) {
    CHECK(peak.buffers == 20 << 20);  // to receive into, and to send from
    CHECK(peak.host == 0);
  }
  // Rank 0 has F0 and F1 on their way out at once, and the gradients of B2 and B3 there at once;
  // rank 1 one of each.
  const auto by_host = peaks(study(kEthernet, "pipeline: 2, d2d_buffer: 10 MiB"));
  CHECK(by_host[0].buffers == 0);
  CHECK(by_host[0].host == (2 + 2) * 256);
  CHECK(by_host[1].buffers == 0);
  CHECK(by_host[1].host == (1 + 1) * 256);
}

TEST_CASE("modules in a chain of devices send straight past others by the buffer") {
  // The decoder's second layer reads what the encoder made: a tensor of each microbatch.
  const std::string sent = counts(transfers_of(
      "model: {family: t5, layers: 2, hidden: 64, heads: 4, vocab: 64, seq_len: 16, "
      "tied_embeddings: false}\n"
      "cluster: {preset: dgx-a100-80g, devices: 3}\n"
      "parallel: {pipeline: 3, d2d_buffer: 1 MiB}\n"
      "training: {global_batch: 3, microbatch: 1}\nschedule: gpipe\n"
      "partition: {method: smp, routing: direct, default: 2, assign: {'embedding*': 0, 'encoder*': "
      "0, decoder.embedding: 1, decoder.layers.0: 1}}\n"));
  CHECK(sent.find("0>2: 3+0") != std::string::npos);
  CHECK(sent.find("2>0: 3+0") != std::string::npos);
}

TEST_CASE("slots are free where nobody has them, in whatever order they are asked for") {
  BufferSlots slots(2);
  slots.take(5, 20);
  slots.take(6, 9);
  CHECK_FALSE(slots.has_free(7, 8));
  CHECK(slots.has_free(9, 12));
  CHECK_FALSE(slots.has_free(4, 7));
  slots.take(9, 12);
  // An earlier place behind later ones.
  CHECK_FALSE(slots.has_free(8, 9));
  CHECK(slots.has_free(4, 6));
  slots.take(4, 6);
  CHECK_FALSE(slots.has_free(5, 6));
  CHECK(slots.has_free(20, 21));
  CHECK_FALSE(BufferSlots(0).has_free(0, 1));
}

TEST_CASE("tensors that are sent straight past devices wait for no slot that others have") {
  // Two slots at each sender, in which a tensor of an earlier stage may lie behind a later one's.
  const std::string sent = counts(transfers_of(
      "model: {family: t5, decoder_seq_len: 8, layers: 4, hidden: 32, heads: 4, vocab: 64, "
      "seq_len: 16}\n"
      "cluster: {device: a100-sxm-80g, devices_per_node: 1, devices: 4, host: {memory: 100 GB/s}, "
      "inter: {kind: infiniband, bandwidth: 10 GB/s}}\n"
      "parallel: {pipeline: 4, d2d_buffer: 8 KiB}\n"
      "partition: {method: smp, memory_weight: 0.2, routing: direct}\n"
      "training: {global_batch: 8, microbatch: 2, precision: fp32}\n"));
  CHECK(!sent.empty());
}

TEST_CASE("a buffer that does not fit is a plan that does not fit") {
  // The profile of 80 GiB, less what it reserves.
  for (const MemoryPeak& peak :
       memory_peaks(compiled(study(kInNode, "pipeline: 2, d2d_buffer: 81 GiB")), {})) {
    CHECK(peak.total > Bytes{80} << 30);
  }
}

TEST_CASE("the text of a Program has every way of a transfer") {
  const Program program = compiled(study(kBetween, "pipeline: 2, d2d_buffer: 512 B"));
  CHECK(segments_text(program, {"0PUT_F", "0SEND_F", "0FREE_F", "1RECV_F", "1TAKE_F",
                                "0SEND_F.host", "0FREE_F.host", "1RECV_F.host", "1DONE_F.host"}) ==
        "segment 0PUT_F(m)\n"
        "  main device_copy y[m] -> y.sent[m]\n"
        "  main free y[m]\n"
        "segment 0SEND_F(m)\n"
        "  fwd send:0 y.sent[m]\n"
        "segment 0FREE_F(m)\n"
        "  main free y.sent[m]\n"
        "segment 1RECV_F(m)\n"
        "  fwd_in recv:1 -> y@1.received[m]\n"
        "segment 1TAKE_F(m)\n"
        "  main device_copy y@1.received[m] -> y@1[m]\n"
        "  main free y@1.received[m]\n"
        "segment 0SEND_F.host(m)\n"
        "  d2h copy y[m] -> y.sent.host[m]\n"
        "  fwd send:0 y.sent.host[m]\n"
        "segment 0FREE_F.host(m)\n"
        "  main free y.sent.host[m] y[m]\n"
        "segment 1RECV_F.host(m)\n"
        "  fwd_in recv:1 -> y@1.received.host[m]\n"
        "  h2d copy y@1.received.host[m] -> y@1[m]\n"
        "segment 1DONE_F.host(m)\n"
        "  main free y@1.received.host[m]\n");
  const std::string text = to_text(program);
  CHECK(text.find("\npool receive_buffer@0:2 buffer:512\n") != std::string::npos);
  CHECK(text.find("\npool send_buffer@1:2 buffer:512\n") != std::string::npos);
  CHECK(parse_program(text, "program.txt") == program);
}

TEST_CASE("placement changes the Program only where it changes what a boundary joins") {
  // Two nodes of 4: PDT puts both stages of a replica on two nodes, DPT into one.
  const auto digest = [](const std::string& cluster, const std::string& placement,
                         const std::string& buffer) {
    return program_digest(compiled(
        study("device: a100-sxm-80g, devices_per_node: 4, devices: 8, " + cluster + kMemory,
              "pipeline: 2, tensor: 2, data: 2, placement: " + placement + buffer)));
  };
  const std::string nvlink = "intra: {kind: nvswitch, bandwidth: 300 GB/s}, ";
  const std::string infiniband = nvlink + "inter: {kind: infiniband, bandwidth: 25 GB/s}";
  const std::string ethernet = nvlink + "inter: {kind: ethernet, bandwidth: 5 GB/s}";
  const std::string neither =
      "intra: {kind: pcie, bandwidth: 20 GB/s}, inter: {kind: ethernet, bandwidth: 5 GB/s}";
  const std::string buffer = ", d2d_buffer: 1 MiB";
  CHECK(digest(ethernet, "DPT", "") == digest(ethernet, "PDT", ""));
  CHECK(digest(ethernet, "DPT", buffer) != digest(ethernet, "PDT", buffer));  // direct, host-staged
  CHECK(digest(infiniband, "DPT", buffer) !=
        digest(infiniband, "PDT", buffer));  // with a buffer to send from
  CHECK(digest(neither, "DPT", buffer) == digest(neither, "PDT", buffer));      // host-staged
  CHECK(digest(infiniband, "DPT", buffer) == digest(ethernet, "DPT", buffer));  // all inside nodes
  CHECK(digest(infiniband, "PDT", buffer) ==
        digest(infiniband, "PTD", buffer));  // all between nodes
}

TEST_CASE("a host's memory has to be known where a transfer passes it inside a node") {
  CHECK_THROWS_WITH(
      compiled(study("preset: pcie-8x-a100, devices: 2", "pipeline: 2, d2d_buffer: 1 MiB")),
      "study.yaml:3:37: parallel.d2d_buffer: pipeline ranks 1 and 0 send by the host within a "
      "node, whose memory "
      "bandwidth is not said; write cluster.host: {memory: 100 GB/s}, of one socket");
  // All direct, or all between nodes: nothing passes it.
  CHECK_NOTHROW(
      compiled(study("preset: dgx-a100-80g, devices: 2", "pipeline: 2, d2d_buffer: 1 MiB")));
  CHECK_NOTHROW(
      compiled(study("device: a100-sxm-80g, devices: 2, inter: {kind: ethernet, bandwidth: 5 GB/s}",
                     "pipeline: 2, d2d_buffer: 1 MiB")));
}

TEST_CASE("a buffer that nothing uses is said once, and changes no Program") {
  const auto warnings = [](const std::string& yaml) { return prepare_text(yaml).study.warnings; };
  const auto warns = [&](const std::string& yaml, const std::string& what) {
    const auto all = warnings(yaml);
    return std::count_if(all.begin(), all.end(),
                         [&](const std::string& w) { return w.find(what) != std::string::npos; });
  };
  const std::string local = "preset: local, ranks: 2, device: cpu";
  CHECK(warns(study(local, "pipeline: 2, d2d_buffer: 1 MiB"),
              "parallel.d2d_buffer is not used: the devices (cpu) are CPUs") == 1);
  CHECK(compiled(study(local, "pipeline: 2, d2d_buffer: 1 MiB")) ==
        compiled(study(local, "pipeline: 2")));
  CHECK(warns(study("preset: dgx-a100-80g, devices: 2", "pipeline: 1, d2d_buffer: 1 MiB"),
              "parallel.d2d_buffer is not used: pipeline is 1") == 1);
  CHECK(compiled(study("preset: dgx-a100-80g, devices: 2", "pipeline: 1, d2d_buffer: 1 MiB")) ==
        compiled(study("preset: dgx-a100-80g, devices: 2", "pipeline: 1")));
}

TEST_CASE("the buffer's size is a quantity of bytes above 0") {
  const auto refused = [](const std::string& buffer, const std::string& why) {
    CHECK_THROWS_WITH(prepare_text(study(kInNode, "pipeline: 2, d2d_buffer: " + buffer)),
                      Catch::Contains("study.yaml:3:37: parallel.d2d_buffer: " + why));
  };
  refused("0 B", "expected more than 0 bytes; leave this key out to have no buffer");
  refused("2000 TiB", "expected at most 1024 TiB");
  refused("64", "");
  refused("much", "");
}

}  // namespace trainyard::transfer_routes_test
