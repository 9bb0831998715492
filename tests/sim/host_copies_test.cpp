// Copies between devices and their host on links that other copies pass too.
#include <catch2/catch.hpp>

#include "engine/exec/analytic_executor.h"
#include "engine/exec/costs.h"
#include "sim/simgrid_executor.h"
#include "tests/support/studies.h"

namespace trainyard {

TEST_CASE("copies of devices behind one PCIe switch share its uplink") {
  // Two devices of eight behind one switch, each its own replica, so that both copy at once. Alone
  // a copy runs at the device's 26 GB/s; the uplink carries 13 GB/s for both. Only the fluid
  // executor sees them meet.
  const Prepared prepared = prepare_text(
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
  SimGridExecutor fluid(Fidelity::kFluid);
  const Trace alone = analytic.run({&job, 1}, costs, {});
  const Trace shared = fluid.run({&job, 1}, costs, {});
  CHECK(shared.period > alone.period * 1.05);
  // 4 microbatches x 4 inputs x 4 x 512 x 256 bf16 each way, of two devices.
  double bytes = 0;
  for (const LinkLoad& link : shared.links) {
    if (link.name == "node 0 PCIe switch 0 out") bytes = link.bytes;
  }
  CHECK(bytes == Approx(2.0 * 4 * 4 * 4 * 512 * 256 * 2));
}

}  // namespace trainyard
