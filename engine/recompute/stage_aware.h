// Stage-aware recompute: earlier stages hold more microbatches and keep a smaller share of their
// activations.
#pragma once

#include <optional>

#include "engine/base/indexed.h"

namespace trainyard {

/// Share of its activations that each of s stages keeps, `first` on stage 0. Stage i (from 0) of
/// 1F1B has s - i microbatches in flight, so first s / (s - i) would cost what stage 0 does;
/// Merak's rule counts one less:
///   kept(i) = min(1, first (s-1) / (s-1-i))   for i < s-1;   kept(s-1) = 1
/// and with the shifted critical path, s > 2, stage s-2 keeps what stage s-3 does: it holds one
/// microbatch more. Lai et al., Merak (arXiv:2206.04959), section 5.3.
Numbered<double> stage_aware_shares(int num_stages, double first, bool shifted_critical_path);

/// What a pipeline of 1F1B's order has for activations; bytes, or any unit.
struct StageAwareMemory {
  Numbered<int> layers;   // [stage]
  Numbered<double> free;  // [stage]
  int microbatches = 1;
  double kept = 0;        // of a layer and a microbatch
  double recomputed = 0;  // of a layer that keeps no more than its input
  bool shifted_critical_path = false;
};

/// What stage i's activations take at the peak if stage 0 keeps `first`: of the s - i microbatches
/// in flight (with the shifted critical path 3 on stage s-2), each kept or recomputed layer, and
/// one layer that is being recomputed.
Numbered<double> stage_aware_use(const StageAwareMemory& memory, double first);

/// The shares of stage 0 behind which some stage keeps one layer more, and 0; ascending, each once.
/// Between two of them nothing changes. `layers`: [stage].
Numbered<double> first_share_steps(const Numbered<int>& layers, bool shifted_critical_path);

/// `first: auto`: the largest share of stage 0 with which every stage's activations fit. nullopt:
/// they do not even if it keeps nothing.
std::optional<double> largest_first_share(const StageAwareMemory& memory);

/// Number of `units` (layers, or sublayers) that a stage which keeps `share` recomputes,
/// rounded down: the first ones of the stage, as in Merak's code.
int num_recomputed(int units, double share);

}  // namespace trainyard
