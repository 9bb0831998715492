// Stage-aware recompute: earlier stages hold more microbatches and keep a smaller share of their
// activations.
#pragma once

#include <vector>

namespace trainyard {

/// Share of its activations that each of s stages keeps, `first` on stage 0. Stage i (from 0) of
/// 1F1B has s - i microbatches in flight, so first s / (s - i) would cost what stage 0 does;
/// Merak's rule counts one less:
///   kept(i) = min(1, first (s-1) / (s-1-i))   for i < s-1;   kept(s-1) = 1
/// and with the shifted critical path, s > 2, stage s-2 keeps what stage s-3 does: it holds one
/// microbatch more. Lai et al., Merak (arXiv:2206.04959), section 5.3.
std::vector<double> stage_aware_shares(int num_stages, double first, bool shifted_critical_path);

/// Of `layers` on a stage that keeps `share`, those that are recomputed, rounded down.
int recomputed_layers(int layers, double share);

}  // namespace trainyard
