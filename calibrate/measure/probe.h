// A probe: a small training study whose step is timed op by op, so that kernels are measured where
// they are used: by the executor's own code, with operands where a step leaves them, in caches or
// not. Which of many candidates to run next is what makes the sampling adaptive.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/result/calibration.h"
#include "engine/cost/op_curves.h"
#include "engine/graph/kernel_work.h"
#include "engine/program/program.h"

namespace trainyard {

/// Kernels of equal form and shape in a step.
struct ProbeKernel {
  KernelWork work;
  int count = 0;
};

struct Probe {
  std::string name;                  // "gpt h256 s128 b4 bf16"
  std::string study;                 // YAML
  std::vector<ProbeKernel> kernels;  // of rank 0, per step
};

/// The kernels of one step of rank 0's list.
std::vector<ProbeKernel> kernels_of(const Program& program);

/// What is known of kernels so far, and what is not.
class KnownKernels {
 public:
  explicit KnownKernels(const std::map<KernelForm, std::vector<CurvePoint>>& points)
      : curves_(points) {}

  struct Guess {
    Seconds time = 0;
    double doubt = 1;  // expected relative error; 1: nothing is known of this family
  };
  Guess guess(const KernelWork& work) const;

 private:
  OpCurves curves_;
};

/// Seconds of a step of the probe's kernels, as far as is known.
Seconds step_time(const Probe& probe, const KnownKernels& known);

/// What timing this probe would tell: the share of its step that each kernel takes, times the
/// square of the doubt about it. A curve that bends, which its own points do not predict from each
/// other, is doubted more, and so is what lies beyond its points. Sum over kernels, between 0
/// and 1.
double value_of(const Probe& probe, const KnownKernels& known);

struct ProbeBudget {
  static constexpr Seconds kOverhead = 0.3;                  // compiling, initial values
  static constexpr int kWarmUp = 2, kLeast = 5, kMost = 30;  // steps
  static constexpr Seconds kWorthwhile = 0.6;  // steps are timed for this long, or kLeast of them

  Seconds left = 0;
};

/// Steps to time of a probe whose step takes so long.
int timed_steps(Seconds step);

/// How many steps to time next, after those in `timed`; 0: these are enough. At first
/// timed_steps(); as many again, up to three times, while the median of the steps is not known to 4
/// %.
int more_steps(Seconds warm_up, const std::vector<Seconds>& timed);

/// Index of the probe with the largest value over the square root of what it costs; nullopt: none
/// that is not `done` fits into the budget, or none is worth it (an expected error below 1 %).
/// Ties: the first.
std::optional<std::size_t> choose_probe(std::span<const Probe> probes,
                                        const std::vector<std::string>& done,
                                        const KnownKernels& known, const ProbeBudget& budget);

}  // namespace trainyard
