// A run's weights and optimizer state to and from checkpoints, whatever the layouts of writer and
// reader.
#pragma once

#include <cstdint>
#include <string>

#include "real/checkpoint/checkpoint.h"
#include "real/comm/rendezvous.h"
#include "real/train/rank_trainer.h"

namespace trainyard {

/// Writes this rank's share of `folder`/step-...; all ranks call it. Rank 0 returns when the
/// checkpoint is complete, and so do the others.
void save_checkpoint(const std::string& folder, RankTrainer& trainer, const std::string& digest,
                     std::int64_t rank, std::int64_t ranks, Rendezvous& rendezvous);

/// Weights, optimizer state, loss scale and position of the run that wrote it. Throws ConfigError where
/// the checkpoint is of another model or another global batch.
void load_checkpoint(const Checkpoint& checkpoint, RankTrainer& trainer);

}  // namespace trainyard
