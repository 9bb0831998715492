// Pass: which forward values are kept for the backward and which are computed again.
//
// Recomputing is nothing but more instructions: clones of forward instructions, placed in the
// backward before the first one that reads their results. Regions are recomputed:
//   - gathers of sequence parallelism, always: the shard is kept, not the gathered tensor
//     (Korthikanti et al. 2022, section 4.2.2);
//   - selective: the ops between the qkv projection and the output projection, or the modules that
//     the study names;
//   - by-op: of each layer all but what costs most to compute again (recompute_regions.h);
//   - full: a whole layer from its input, or each of its sublayers from its own (twice the inputs
//     are kept, and half as much is there at once while it is recomputed); embedding and head are
//     kept, but with `ends` only what an embedding found is; or every second, third, ... layer so;
//   - stage-aware: the same, of the first layers (sublayers) of each stage, as many as
//     stage_aware.h says;
//   - group: several layers that follow one another on a stage, from the input of the first
//     (checkpoint_groups.h), in front of the backward of the last;
//   - rotor: groups of ops, as the sequence of each stage says (recompute_sequences.h).
// What a core, a layer or a group passes on (the output projection's input, the next layer's) is
// kept.
#pragma once

#include <optional>
#include <vector>

#include "engine/base/error.h"
#include "engine/passes/differentiate.h"
#include "engine/plan/plan.h"
#include "engine/schedule/stage_form.h"

namespace trainyard {

/// Share of its units that each stage does not recompute, [stage]: stage-aware as stage_aware.h
/// says for config.first, which has been chosen; else none. A stage that is not among `recomputing`
/// keeps all of them.
Numbered<double> kept_shares(const RecomputeConfig& config, bool shifted_critical_path,
                             const Numbered<bool>& recomputing);

/// Why stages of these forms cannot run sequences of method rotor; nullopt: they can, or have none.
std::optional<Infeasible> sequence_obstacle(const RecomputeConfig& config,
                                            const Numbered<StageForm>& forms);

/// `kept`: [stage], kept_shares(). A stage that keeps everything gathers only. Infeasible:
/// sequences of method rotor that are none of their stages.
std::optional<Infeasible> recompute(TrainingGraph& training, const RecomputeConfig& config,
                                    const SoftwareProfile& software, const Numbered<double>& kept);

}  // namespace trainyard
