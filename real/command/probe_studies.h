// The candidates of a calibration: small studies that together hold the op table's kernels over the
// shapes that matter, each a training step of one of the model families.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/prepare.h"
#include "calibrate/measure/probe.h"
#include "engine/program/program.h"

namespace trainyard {

/// For `ranks` processes of this machine on `device`, cpu or cuda: alone, or tensor- and
/// data-parallel. Without kernels; in the same order in every process.
std::vector<Probe> probe_studies(const std::string& device, std::int64_t ranks);

/// The name of the one that times communication beside kernels; of ranks > 1.
inline constexpr const char* kOverlapProbe = "overlap";

struct CompiledProbe {
  Prepared prepared;
  Program program;
};

class ProbeCompiler {
 public:
  ProbeCompiler();
  ProbeCompiler(const ProbeCompiler&) = delete;
  ProbeCompiler& operator=(const ProbeCompiler&) = delete;

  /// Throws ConfigError where this version cannot train the study.
  CompiledProbe compile(const Probe& probe) const;

 private:
  std::vector<std::string> warnings_;
  StudyResolvers resolvers_;  // they remember the profiles that they have read
};

}  // namespace trainyard
