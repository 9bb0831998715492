// A run's weights and optimizer state to and from checkpoints, whatever the layouts of writer and
// reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "real/checkpoint/checkpoint.h"
#include "real/comm/rendezvous.h"
#include "real/train/rank_trainer.h"

namespace trainyard {

/// Writes this rank's share of `folder`/step-...; all ranks call it. Rank 0 returns when the
/// checkpoint is complete, and so do the others.
void save_checkpoint(const std::string& folder, RankTrainer& trainer, const std::string& digest,
                     std::int64_t rank, std::int64_t ranks, Rendezvous& rendezvous);

/// Fills the bytes of a piece of a weight: a checkpoint's read(), or that of published weights.
using ReadPiece = std::function<void(const Piece&, std::span<std::byte>)>;

/// All weights of the rank, from wherever `read` has them.
void load_weights(const ReadPiece& read, RankTrainer& trainer);

/// Weights, optimizer state, loss scale and position of the run that wrote it. Throws ConfigError
/// where the checkpoint is of another run (check_same_run()).
void load_checkpoint(const Checkpoint& checkpoint, RankTrainer& trainer);

}  // namespace trainyard
