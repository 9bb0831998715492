// Pieces of a model that no cut divides, as a planner of pipelines weighs them: RaNNC's atoms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/partition/task_graph.h"
#include "engine/planner/op_profile.h"

namespace trainyard {

/// What does not depend on how many samples a microbatch has, or is of one sample.
struct ModelPieces {
  Numbered<OpId> begins;                    // first ops: pieces_between() ops
  std::vector<std::int32_t> layer;          // [piece] of its first op; -1: outside layers
  std::vector<double> parameters;           // [piece] elements, at the first that reads them
  std::vector<double> inputs, back_inputs;  // [piece] bytes that cross in front of it: OpProfile
  /// A parameter that a piece reads again.
  struct Again {
    std::size_t before = 0, piece = 0;  // the one that read it last, and this
    double elements = 0;
  };
  std::vector<Again> again;
  std::size_t size() const { return parameters.size(); }
};

/// What the pieces take of a microbatch of some size.
struct PieceProfile {
  std::vector<Seconds> forward, backward;  // [piece], backward with what is recomputed for it
  // [piece] bytes: kept from the forward for the backward; recomputed there; and the most that the
  // gradients of one of its ops take.
  std::vector<double> kept, recomputed, gradients;
};

/// `training`: of a microbatch of one sample.
ModelPieces pieces_of(const TrainingGraph& training, const HardwareProfile& hardware,
                      const SoftwareProfile& software);

/// Times are those of profile_ops(), `measured` as there. Storage counts once, at the piece whose
/// op makes it. `begins`: first ops of the pieces, of the same model.
PieceProfile profile_pieces(const TrainingGraph& training, const Numbered<OpId>& begins,
                            const HardwareProfile& hardware, const SoftwareProfile& software,
                            const OpTimes* measured = nullptr);

/// The pieces as tasks, with the activations between them as values of a sample. Each waits for the
/// one before it, whether it reads of it or not, so that blocks and stages are consecutive ops in
/// the order in which the model runs. `profile`: of `samples`.
TaskGraph tasks_of(const TrainingGraph& training, const ModelPieces& pieces,
                   const PieceProfile& profile, double samples, double bytes_per_parameter);

}  // namespace trainyard
