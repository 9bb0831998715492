// Models that are to train as one device does: a study of one rank, and layouts that do the same.
#pragma once

#include <string>
#include <vector>

#include "tests/real/parity.h"

namespace trainyard {

inline std::string study_of(const std::string& model, int batch, int microbatch,
                            const std::string& more = "") {
  return "model: " + model +
         "\ncluster: {preset: local, ranks: 1}\ntraining: {global_batch: " + std::to_string(batch) +
         ", microbatch: " + std::to_string(microbatch) +
         ", precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}" + more +
         "}\ndata: {path: generated}\n";
}

inline void check_all(const std::string& study, const std::vector<Sets>& layouts, int steps = 1) {
  const LoopbackRun one = run_loopback(study, {}, {.steps = steps});
  for (const Sets& layout : layouts) {
    CAPTURE(layout);
    check_same(one, run_loopback(study, layout, {.steps = steps}), kFp64);
  }
}

inline Sets pipeline(int ranks, const std::string& schedule) {
  return {"cluster.ranks=" + std::to_string(ranks), "parallel.pipeline=" + std::to_string(ranks),
          "partition={method: uniform, uneven: true}", "schedule=" + schedule};
}

/// `microbatch`: of each replica, so that all microbatches hold the samples that one rank's do.
inline Sets replicas(int ranks, int microbatch) {
  return {"cluster.ranks=" + std::to_string(ranks), "parallel.data=" + std::to_string(ranks),
          "training.microbatch=" + std::to_string(microbatch)};
}

}  // namespace trainyard
