// An optimizer's state on the host: what is copied to it and back and when, what that leaves on the
// device, how long updates take, and what is refused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "engine/exec/costs.h"
#include "engine/memory/memory.h"
#include "tests/support/studies.h"

namespace trainyard::host_state_test {

namespace {

/// Four ranks of a DGX A100, two microbatches; buckets of at most 4,000 parameters.
std::string study(const std::string& zero, const std::string& rest = "",
                  const std::string& training = "") {
  return "model: {family: gpt, layers: 4, hidden: 16, heads: 4, vocab: 40, seq_len: 8}\n"
         "cluster: {preset: dgx-a100-80g, devices: 4" +
         rest + "}\nparallel: {data: 4, zero: " + zero +
         "}\ntraining: {global_batch: 8, microbatch: 1, dropout: 0, bucket_elements: 4000" +
         training + "}\n";
}

Program compiled(const std::string& yaml, const std::vector<std::string>& sets = {}) {
  return compiled_program(prepare_text(yaml, sets));
}

/// All that the only list issues, in order.
std::vector<const ProgramOp*> issued(const Program& program) {
  std::vector<const ProgramOp*> out;
  for (const Call& call : program.body[0].calls) {
    const auto& ops = program.segments[call.segment].ops;
    for (std::size_t k = 0; k <= ops.size(); ++k) {
      for (const auto& [at, inner] : call.inside) {
        if (at != k) continue;
        for (const ProgramOp& op : program.segments[inner].ops) out.push_back(&op);
      }
      if (k < ops.size()) out.push_back(&ops[k]);
    }
  }
  return out;
}

std::string name_of(const Program& program, const Operand& operand) {
  return program.values[operand.value].name;
}

Bytes bytes_copied(const Program& program, StreamId stream) {
  Bytes bytes = 0;
  for (const ProgramOp* op : issued(program)) {
    if (op->stream == stream) bytes += size_in_bytes(program.values[op->reads[0].value]);
  }
  return bytes;
}

/// Elements of the rank's part of all buckets.
std::int64_t own_parameters(const Program& program) {
  std::int64_t elements = 0;
  for (const Value& value : program.values) {
    const bool moment = value.name.ends_with(".exp_avg");
    if (moment) elements += num_elements(value.dims);
  }
  return elements;
}

std::string refusal(const std::string& yaml, const std::vector<std::string>& sets = {}) {
  try {
    compiled(yaml, sets);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the host updates a bucket while the weights of the one before are copied back") {
  const Program program = compiled(study("{stage: 1, offload: optimizer}"));
  std::vector<std::string> tail;
  for (const ProgramOp* op : issued(program)) {
    if (op->stream == StreamId::kHost)
      tail.push_back("update " + name_of(program, op->writes[0]));
    else if (op->stream == StreamId::kH2d)
      tail.push_back("copy to " + name_of(program, op->writes[0]));
    else if (op->kind == OpKind::kAllGather)
      tail.push_back("gather " + name_of(program, op->writes[0]));
    else if (!tail.empty() && op->kind == OpKind::kFree)
      tail.push_back("free " + name_of(program, op->reads[0]));
  }
  REQUIRE(tail.size() > 8);
  CHECK(std::vector<std::string>(tail.begin(), tail.begin() + 7) ==
        std::vector<std::string>{"update b0.param_host", "copy to b0.param_shard",
                                 "gather b0.param", "update b1.param_host",
                                 "copy to b1.param_shard", "free b0.param_host",
                                 "gather b1.param"});
  const auto weights = std::find_if(program.pools.begin(), program.pools.end(),
                                    [](const Pool& pool) { return pool.name == "weights@0"; });
  REQUIRE(weights != program.pools.end());
  CHECK(weights->slots == 2);
  CHECK(weights->space == Space::kHost);
}

TEST_CASE("gradients go to the host inside the last backward, unless the framework waits") {
  const auto inside = [](const std::vector<std::string>& sets) {
    const Program program = compiled(study("{stage: 1, offload: optimizer}"), sets);
    std::size_t copies = 0;
    for (const Call& call : program.body[0].calls) {
      for (const auto& [at, inner] : call.inside)
        copies += program.segments[inner].name.starts_with("0OFFLOAD_GRAD") ? 1 : 0;
    }
    return copies;
  };
  const Program program = compiled(study("{stage: 1, offload: optimizer}"));
  const auto buckets =
      std::count_if(program.values.begin(), program.values.end(),
                    [](const Value& value) { return value.name.ends_with(".grad_host"); });
  REQUIRE(buckets > 2);
  CHECK(inside({}) == static_cast<std::size_t>(buckets));
  CHECK(inside({"framework=deepspeed"}) == 0);
}

TEST_CASE("a rank copies its part of the gradients out and of the weights back, once a step") {
  for (const std::string zero :
       {"{stage: 1, offload: optimizer}", "{stage: 2, offload: optimizer}",
        "{stage: 3, offload: optimizer}", "{stage: 2, reduce: last, offload: optimizer}"}) {
    CAPTURE(zero);
    const Program program = compiled(study(zero));
    const std::int64_t own = own_parameters(program);
    // Gradients in fp32 and the squared norm; weights in bf16.
    CHECK(bytes_copied(program, StreamId::kD2h) == 4 * own + 4);
    CHECK(bytes_copied(program, StreamId::kH2d) == 2 * own);
  }
  const Program whole = compiled(study("{stage: 1, offload: optimizer}", "", ", precision: fp32"),
                                 {"parallel.data=1", "cluster.devices=1"});
  const std::int64_t all = own_parameters(whole);
  CHECK(bytes_copied(whole, StreamId::kD2h) == 4 * all + 4);
  CHECK(bytes_copied(whole, StreamId::kH2d) == 4 * all);
}

TEST_CASE("the device's memory falls by what the host's memory takes over") {
  for (const std::string stage : {"1", "2"}) {
    const Program here = compiled(study("{stage: " + stage + "}"));
    const Program there = compiled(study("{stage: " + stage + ", offload: optimizer}"));
    const MemoryPeak before = memory_peaks(here, {})[0], after = memory_peaks(there, {})[0];
    const std::int64_t own = own_parameters(here);
    CAPTURE(stage, own);
    REQUIRE(own == own_parameters(there));
    // A master and two moments, 12 bytes of each.
    CHECK(before.optimizer_state == 12 * own);
    CHECK(after.optimizer_state == 0);
    CHECK(before.total - after.total == 12 * own);
    CHECK(after.instant == before.instant);
    // With them the gradients in fp32, two slots of 16-bit weights and one of the norm.
    Bytes slot = 0;
    for (const Value& value : there.values) {
      if (value.name.ends_with(".param_host")) slot = std::max(slot, size_in_bytes(value));
    }
    CHECK(before.host == 0);
    CHECK(after.host == 16 * own + 2 * slot + 4);
  }
}

TEST_CASE("where parameters are gathered, shards are what is gathered, without a cast") {
  const Program here = compiled(study("{stage: 3}"));
  const Program there = compiled(study("{stage: 3, offload: optimizer}"));
  const MemoryPeak before = memory_peaks(here, {})[0], after = memory_peaks(there, {})[0];
  const std::int64_t own = own_parameters(there);
  // Shards in fp32 and two moments; then shards in bf16 alone.
  CHECK(before.optimizer_state == 8 * own);
  CHECK(after.optimizer_state == 0);
  CHECK(before.parameters - before.gathered_parameters == 4 * own);
  CHECK(after.parameters - after.gathered_parameters == 2 * own);
  const auto ops = issued(there);
  CHECK(std::none_of(ops.begin(), ops.end(),
                     [](const ProgramOp* op) { return op->kind == OpKind::kCast; }));
}

TEST_CASE("the ranks of a node share the rate at which it updates") {
  const auto seconds = [](const std::string& yaml) {
    const Prepared prepared = prepare_text(yaml);
    const Program program = compiled_program(prepared);
    SourceLog log;
    const Costs costs =
        make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
    std::map<std::string, double> out;  // by bucket: seconds, and parameters
    for (const SegmentId s : program.segments.keys()) {
      for (std::size_t k = 0; k < program.segments[s].ops.size(); ++k) {
        const ProgramOp& op = program.segments[s].ops[k];
        if (op.stream != StreamId::kHost) continue;
        out["time"] += costs.ops.at(1.0)[s][k].kernel;
        out["parameters"] +=
            static_cast<double>(num_elements(program.values[op.writes[0].value].dims));
      }
    }
    return out;
  };
  auto said = seconds(study("{stage: 1, offload: optimizer}", ", host: {update_rate: 1e6}"));
  CHECK(said["time"] == Approx(said["parameters"] * 4 / 1e6));
  // CPU-Adam's 10 billion in 2.57 s on 48 cores.
  auto by_cores = seconds(study("{stage: 1, offload: optimizer}", ", host: {cores: 96}"));
  CHECK(by_cores["time"] == Approx(by_cores["parameters"] * 4 / (2 * 10e9 / 2.57)).epsilon(1e-9));
}

TEST_CASE("an optimizer's state on the host is refused where nothing could update it there") {
  const std::string offload = "{stage: 1, offload: optimizer}";
  CHECK_THAT(refusal(study("{stage: 0, offload: optimizer}")),
             Catch::Contains("study.yaml:3:") && Catch::Contains("parallel.zero.offload") &&
                 Catch::Contains("write stage 1, 2 or 3"));
  CHECK_THAT(refusal(study("{stage: 1, by: parameter, offload: optimizer}")),
             Catch::Contains("parallel.zero.offload") && Catch::Contains("by: shard"));
  CHECK_THAT(refusal(study(offload, ", nvme: {drives: 2, read: 0 GB/s}")),
             Catch::Contains("cluster.nvme"));
  CHECK_THAT(refusal(study("{stage: 1, offload: none}", "", ", cpu_offload: true")),
             Catch::Contains("training.cpu_offload") && Catch::Contains("leave one of them out"));
  CHECK_THAT(refusal(study(offload), {"parallel.pipeline=2", "parallel.data=2",
                                      "schedule={method: zb-h1, post_validation: true}"}),
             Catch::Contains("parallel.zero.offload") && Catch::Contains("post_validation"));
}

TEST_CASE("a node whose memory does not hold what is offloaded cannot run the plan") {
  const std::string offload = "{stage: 1, offload: optimizer}";
  const std::int64_t own = own_parameters(compiled(study(offload)));
  const Bytes host = memory_peaks(compiled(study(offload)), {})[0].host;
  REQUIRE(host > 16 * own);
  const auto with = [&](Bytes capacity) {
    return study(offload, ", host: {capacity: " + std::to_string(capacity) + " B}");
  };
  CHECK(refusal(with(4 * host)).empty());
  CHECK_THAT(refusal(with(4 * host - 1)), Catch::Contains("of a node's memory"));
}

TEST_CASE("a node whose drives do not hold what is offloaded cannot run the plan") {
  const std::string offload = "{stage: 1, offload: {optimizer: nvme}}";
  const auto with = [&](const std::string& capacity) {
    return study(offload, ", nvme: {read: 2 GB/s, write: 1 GB/s, drives: 2" + capacity + "}");
  };
  // Four ranks of one node, on two drives: each holds what two ranks have.
  const Bytes nvme = memory_peaks(compiled(with("")), {})[0].nvme;
  REQUIRE(nvme > 0);
  const auto capacity = [](Bytes bytes) { return ", capacity: " + std::to_string(bytes) + " B"; };
  CHECK(refusal(with(capacity(2 * nvme))).empty());
  CHECK_THAT(refusal(with(capacity(2 * nvme - 1))), Catch::Contains("of a node's 2 drives"));
  CHECK_THAT(refusal(with(", capacity: 0 B")),
             Catch::Contains("cluster.nvme.capacity") && Catch::Contains("more than 0 bytes"));
}

TEST_CASE("training.cpu_offload is another word for the optimizer's state on the host") {
  const Prepared flag = prepare_text(study("2", "", ", cpu_offload: true"));
  const Prepared word = prepare_text(study("{stage: 2, offload: optimizer}"));
  CHECK(flag.study.parallel == word.study.parallel);
  CHECK(flag.study.training == word.study.training);
  CHECK(compiled_program(flag) == compiled_program(word));
}

}  // namespace trainyard::host_state_test
