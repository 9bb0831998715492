// Copies between devices and their host on links that other copies pass too.
#include <catch2/catch.hpp>

#include "engine/exec/analytic_executor.h"
#include "engine/exec/costs.h"
#include "sim/network_executor.h"
#include "tests/support/studies.h"

namespace trainyard::host_copies_test {

TEST_CASE("copies of devices behind one PCIe switch share its uplink") {
  // Two devices of eight behind one switch, each its own replica, so that both copy at once. Alone
  // a copy runs at the device's 26 GB/s; the uplink carries 13 GB/s for both. The copies are alike,
  // so that closed forms know it, too.
  Prepared prepared = prepare_text(
      "model: {family: gpt, layers: 4, hidden: 256, heads: 4, vocab: 40, seq_len: 512}\n"
      "cluster: {preset: pcie-8x-a100, nodes: 1, pcie: {switches: 1, uplink: 13 GB/s}}\n"
      "parallel: {data: 2}\ntraining: {global_batch: 32, microbatch: 4, dropout: 0}\n"
      "schedule: gpipe\nrecompute: full\noffload: {activations: true, horizon: 0}\n");
  const Program program = compiled_program(prepared);
  SourceLog log;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
  const Job job{&program, 0};
  AnalyticExecutor analytic;
  NetworkExecutor fluid(Fidelity::kFluid);
  const Trace shared = fluid.run({&job, 1}, costs, {});
  CHECK(analytic.run({&job, 1}, costs, {}).period == Approx(shared.period).epsilon(1e-9));
  prepared.study.cluster.pcie.uplink = 52e9;
  const Costs wide =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
  CHECK(shared.period > analytic.run({&job, 1}, wide, {}).period * 1.05);
  // 4 microbatches x 4 inputs x 4 x 512 x 256 bf16 each way, of two devices.
  double bytes = 0;
  for (const LinkLoad& link : shared.links) {
    if (link.name == "node 0 PCIe switch 0 out") bytes = link.bytes;
  }
  CHECK(bytes == Approx(2.0 * 4 * 4 * 4 * 512 * 256 * 2));
}

TEST_CASE("rings over bridged pairs have the uplink of a pair's PCIe switch alone, or share it") {
  // A ring of 8 leaves each pair once, at the 23.7 GB/s that were measured over PCIe: uplinks of 25
  // change nothing. Two rings of 4, side by side over one device of each pair, meet on them.
  const auto step = [](const std::string& mesh, const std::string& pcie) {
    Prepared prepared = prepare_text(
        "model: {family: gpt, layers: 2, hidden: 1024, heads: 8, vocab: 64, seq_len: 1024}\n"
        "cluster: {preset: nvlink-pairs-8x-a100, nodes: 1, pcie: " +
        pcie +
        "}\n"
        "parallel: {tensor: 8, tensor_method: {name: atp, mesh: " +
        mesh +
        "}}\n"
        "training: {global_batch: 8, microbatch: 8, dropout: 0}\n");
    const Program program = compiled_program(prepared);
    SourceLog log;
    const Costs costs =
        make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
    const Job job{&program, 0};
    NetworkExecutor fluid(Fidelity::kFluid);
    return fluid.run({&job, 1}, costs, {}).period;
  };
  const std::string none = "{switches: 0}", pairs = "{switches: 4, uplink: 25 GB/s}";
  CHECK(step("[8, 1]", pairs) == Approx(step("[8, 1]", none)).epsilon(1e-9));
  const double shared = step("[4, 2]", pairs);
  CHECK(shared > step("[4, 2]", none) * 1.2);
  CHECK(shared < step("[4, 2]", "{switches: 4, uplink: 12.5 GB/s}") * 0.8);
}

TEST_CASE("a step whose host is slow takes as long as its updates, copies beside them") {
  // One rank, buckets of one length but the last. At 1e7 parameters/s an update takes far longer
  // than the copies on either side of it, which hide behind the next; only the first copy of the
  // norm and the last of the weights stand alone, and what the device computes.
  const Prepared prepared = prepare_text(
      "model: {family: gpt, layers: 4, hidden: 256, heads: 4, vocab: 40, seq_len: 512}\n"
      "cluster: {preset: dgx-a100-80g, devices: 2, host: {update_rate: 1e7}}\n"
      "parallel: {data: 2, zero: {stage: 1, offload: optimizer}}\n"
      "training: {global_batch: 2, dropout: 0, bucket_elements: 600000}\n");
  const Program program = compiled_program(prepared);
  double own = 0, last = 0;  // parameters of a rank; of the last bucket
  for (const Value& value : program.values) {
    if (!value.name.ends_with(".exp_avg")) continue;
    last = static_cast<double>(num_elements(value.dims));
    own += last;
  }
  SourceLog log;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
  const Job job{&program, 0};
  AnalyticExecutor analytic;
  const Trace trace = analytic.run({&job, 1}, costs, {});
  const double updates = own * 2 / 1e7;
  const TimeClasses& time = trace.ranks[0].time;
  CHECK(time.optimizer == Approx(updates).epsilon(1e-2));
  CHECK(time.optimizer + time.compute + time.exposed_total() + time.host + time.bubble ==
        Approx(trace.period));
  // The copies and gathers of all buckets but the last lie beside updates.
  double exposed = 0;
  for (const auto& [kind, seconds] : time.exposed) exposed += kind == "copy:h2d" ? seconds : 0;
  const HostLink& link = prepared.hardware.host_link;
  CHECK(exposed == Approx(link.latency + 2 * last / link.bandwidth).epsilon(1e-6));
}

TEST_CASE("weights and gradients of ranks behind one PCIe switch share its uplink") {
  Prepared prepared = prepare_text(
      "model: {family: gpt, layers: 4, hidden: 256, heads: 4, vocab: 40, seq_len: 512}\n"
      "cluster: {preset: pcie-8x-a100, nodes: 1, pcie: {switches: 1, uplink: 13 GB/s}}\n"
      "parallel: {data: 2, zero: {stage: 1, offload: optimizer}}\n"
      "training: {global_batch: 2, dropout: 0}\n");
  const Program program = compiled_program(prepared);
  double own = 0;
  for (const Value& value : program.values)
    own += value.name.ends_with(".exp_avg") ? static_cast<double>(num_elements(value.dims)) : 0;
  SourceLog log;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
  const Job job{&program, 0};
  AnalyticExecutor analytic;
  NetworkExecutor fluid(Fidelity::kFluid);
  const Trace shared = fluid.run({&job, 1}, costs, {});
  CHECK(shared.period >= analytic.run({&job, 1}, costs, {}).period * (1 - 1e-9));
  prepared.study.cluster.pcie.uplink = 52e9;
  const Costs wide =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
  CHECK(shared.period > analytic.run({&job, 1}, wide, {}).period);
  double in = 0;
  for (const LinkLoad& one : shared.links) {
    if (one.name == "node 0 PCIe switch 0 in") in = one.bytes;
  }
  // 16-bit weights of both ranks come back.
  CHECK(in == Approx(2 * 2 * own));
}

}  // namespace trainyard::host_copies_test
