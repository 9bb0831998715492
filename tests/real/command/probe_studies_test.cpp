// The studies that `calibrate` times.
#include "real/command/probe_studies.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "engine/graph/op_kind.h"

namespace trainyard::probe_studies_test {

TEST_CASE("probes of CPUs and of GPUs compile, with attention of every sort among them") {
  const ProbeCompiler compiler;
  for (const std::string device : {"cpu", "cuda"}) {
    for (const std::int64_t ranks : {1, 2}) {
      const std::vector<Probe> probes = probe_studies(device, ranks);
      CAPTURE(device, ranks, probes.size());
      REQUIRE(probes.size() > 100);
      std::set<OpKind> kinds;
      constexpr std::size_t kStep = 13;  // of ten variants and types: all come round
      for (std::size_t i = 0; i < probes.size(); i += kStep) {
        CAPTURE(probes[i].name);
        const CompiledProbe compiled = compiler.compile(probes[i]);
        for (const Segment& segment : compiled.program.segments) {
          for (const ProgramOp& op : segment.ops) kinds.insert(op.kind);
        }
      }
      for (const OpKind kind : {OpKind::kLinear, OpKind::kFlashAttention, OpKind::kScores,
                                OpKind::kSoftmax, OpKind::kDropout, OpKind::kRope}) {
        CAPTURE(kind);
        CHECK(kinds.contains(kind));
      }
    }
  }
}

}  // namespace trainyard::probe_studies_test
