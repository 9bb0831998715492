// Trainings and layouts that what replicas divide among them is tried on.
#pragma once

#include <string>

#include "tests/real/layouts.h"

namespace trainyard {

inline const std::string kPlainSgd =
    "precision: fp64, dropout: 0.1, optimizer: sgd, clip_norm: 0, lr: {peak: 0.05}, weight_decay: "
    "0";
// Clipped, so that a norm that counts something twice, or that somebody does not know in time,
// shows in the weights.
inline const std::string kClippedAdamW =
    "precision: fp64, dropout: 0.1, clip_norm: 0.01, lr: {peak: 0.01}";

inline const Sets kTwo = {"cluster.ranks=2", "parallel.data=2"};
inline const Sets kFour = {"cluster.ranks=4", "parallel.data=4"};
inline const Sets kPipeline = {"cluster.ranks=4", "parallel.data=2", "parallel.pipeline=2"};
inline const Sets kTensor = {"cluster.ranks=4", "parallel.data=2", "parallel.tensor=2",
                             "parallel.sequence_parallel=true"};

}  // namespace trainyard
