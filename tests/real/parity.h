// Whether a layout trains as one device does.
#pragma once

#include "tests/real/layouts.h"
#include "tests/real/loopback_run.h"

namespace trainyard {

struct Tolerance {
  double of_weight;  // of the weight's own gradient norm
  double of_all;     // of the norm of all gradients: key biases have no gradient but rounding
  double norm;       // relative, of the gradient norm
  double loss;       // relative, of each step's loss
};

constexpr Tolerance kFp64 = {1e-10, 1e-10, 1e-10, 1e-10};
constexpr Tolerance kFp32 = {1e-5, 1e-6, 1e-6, 1e-5};

/// CHECKs that the first step's gradients, and every step's loss and gradient norm, are the same.
void check_same(const LoopbackRun& one, const LoopbackRun& many, const Tolerance& tolerance);

/// CHECKs in fp64 that a run goes on from a checkpoint of each of `layouts`, and each of them from
/// one of it, with the losses and norms of a run that was not stopped. `yaml`: a study of one rank.
void check_goes_on(const std::string& yaml, const Sets& layout, const std::vector<Sets>& layouts);

}  // namespace trainyard
