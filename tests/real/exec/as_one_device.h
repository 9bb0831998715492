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

/// `is_so`: what each layout's Program has to be.
inline void check_all(const std::string& study, const std::vector<Sets>& layouts, int steps = 1,
                      bool (*is_so)(const Program&) = nullptr) {
  const LoopbackRun one = run_loopback(study, {}, {.steps = steps});
  for (const Sets& layout : layouts) {
    CAPTURE(layout);
    const LoopbackRun many = run_loopback(study, layout, {.steps = steps});
    if (is_so != nullptr) CHECK(is_so(many.program));
    check_same(one, many, kFp64);
  }
}

/// Three steps of gpt, whose embedding and head are tied, and of t5.
inline void check_families(const std::vector<std::string>& trainings,
                           const std::vector<Sets>& layouts,
                           bool (*is_so)(const Program&) = nullptr) {
  for (const std::string family : {"gpt", "t5"}) {
    for (const std::string& training : trainings) {
      CAPTURE(family, training);
      check_all(parity_study(family, training), layouts, 3, is_so);
    }
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
