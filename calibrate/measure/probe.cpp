#include "calibrate/measure/probe.h"

#include <algorithm>
#include <cmath>

#include "calibrate/measure/timing_summary.h"
#include "engine/base/error.h"
#include "engine/exec/op_work.h"

namespace trainyard {

namespace {

std::array<std::int64_t, 4> shape_of(const KernelWork& work) {
  return {work.m, work.n, work.k, work.batch};
}

/// Before anything is known of a form: a slow core's rates.
Seconds first_guess(const KernelWork& work) {
  constexpr FlopPerSecond kRate = 50e9;
  constexpr BytesPerSecond kBandwidth = 5e9;
  constexpr Seconds kStartup = 5e-6;
  return kStartup + work.flop / kRate + static_cast<double>(work.bytes) / kBandwidth;
}

}  // namespace

std::vector<ProbeKernel> kernels_of(const Program& program) {
  check(!program.body.empty(), "a Program runs on at least one rank");
  OpWork work_of(program);
  std::vector<ProbeKernel> kernels;
  const auto add = [&](SegmentId id) {
    for (const ProgramOp& op : program.segments[id].ops) {
      if (is_communication(op.kind)) continue;
      const KernelWork work = work_of(op);
      if (work.cls == KernelClass::kNone) continue;
      const auto same =
          std::find_if(kernels.begin(), kernels.end(), [&](const ProbeKernel& kernel) {
            return kernel.work.form == work.form && shape_of(kernel.work) == shape_of(work) &&
                   kernel.work.bytes == work.bytes;
          });
      if (same == kernels.end())
        kernels.push_back({work, 1});
      else
        ++same->count;
    }
  };
  for (const Call& call : program.body.front().calls) {
    add(call.segment);
    for (const auto& [place, inside] : call.inside) add(inside);
  }
  return kernels;
}

KnownKernels::Guess KnownKernels::guess(const KernelWork& work) const {
  const std::optional<OpCurve::Estimate> estimate = curves_.at(work);
  if (!estimate) return {first_guess(work), 1};
  return {estimate->time,
          std::min(1.0, estimate->doubt + OpCurve::kBeyondDoubt * estimate->beyond)};
}

Seconds step_time(const Probe& probe, const KnownKernels& known) {
  Seconds time = 0;
  for (const ProbeKernel& kernel : probe.kernels)
    time += kernel.count * known.guess(kernel.work).time;
  return time;
}

double value_of(const Probe& probe, const KnownKernels& known) {
  double value = 0;
  Seconds step = 0;
  for (const ProbeKernel& kernel : probe.kernels) {
    const KnownKernels::Guess guess = known.guess(kernel.work);
    const Seconds time = kernel.count * guess.time;
    step += time;
    value += time * guess.doubt * guess.doubt;
  }
  return step > 0 ? value / step : 0;
}

int timed_steps(Seconds step) {
  const double steps = ProbeBudget::kWorthwhile / std::max(step, 1e-4);
  return static_cast<int>(
      std::clamp(steps, double{ProbeBudget::kLeast}, double{ProbeBudget::kMost}));
}

int more_steps(Seconds warm_up, const std::vector<Seconds>& timed) {
  if (timed.empty()) return timed_steps(warm_up);
  constexpr double kKnown = 0.04;
  constexpr std::size_t kRounds = 3;
  const TimingSummary summary = summarise_timings(timed);
  const int round = timed_steps(summary.median);
  const bool enough =
      summary.interval <= kKnown || timed.size() >= kRounds * static_cast<std::size_t>(round);
  return enough ? 0 : round;
}

std::optional<std::size_t> choose_probe(std::span<const Probe> probes,
                                        const std::vector<std::string>& done,
                                        const KnownKernels& known, const ProbeBudget& budget) {
  constexpr double kLeastValue = 0.01 * 0.01;
  std::optional<std::size_t> best;
  double most = 0;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    if (std::find(done.begin(), done.end(), probes[i].name) != done.end()) continue;
    const Seconds step = step_time(probes[i], known);
    const Seconds cost = ProbeBudget::kOverhead + (ProbeBudget::kWarmUp + timed_steps(step)) * step;
    if (cost > budget.left) continue;
    const double value = value_of(probes[i], known);
    if (value < kLeastValue || value / std::sqrt(cost) <= most) continue;
    most = value / std::sqrt(cost);
    best = i;
  }
  return best;
}

}  // namespace trainyard
