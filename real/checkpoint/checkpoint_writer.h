// Writing a checkpoint from many ranks. It appears whole, under its final name, or not at all:
//
//   rank 0       begin_checkpoint(folder, step)                   then a barrier
//   every rank   ShardWriter shard(folder, step, rank, pieces);
//                while (const Piece* piece = shard.next()) shard.append(bytes of *piece);
//                shard.finish()  -> text, which the caller brings to rank 0
//   rank 0       commit_checkpoint(folder, info, texts, keep)
//
// The system's refusals (a full disk) are BackendError with the path and the reason. What is
// written lies in `folder`/.tmp-step-00000100 until the rename that ends commit_checkpoint();
// readers ignore it and the next begin_checkpoint() removes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "real/checkpoint/checkpoint_info.h"
#include "real/checkpoint/piece.h"
#include "real/checkpoint/safetensors.h"

namespace trainyard {

/// Makes `folder` where it is not there, and in it the place that the ranks write to.
void begin_checkpoint(const std::string& folder, std::int64_t step);

/// One rank's file, written piece by piece as its bytes come to hand; nothing is kept in memory.
/// Ranks with nothing to write need none.
class ShardWriter {
 public:
  /// Over all ranks, `pieces` hold every element of every tensor once (replicas: one writes). Those
  /// without elements are left out.
  ShardWriter(const std::string& folder, std::int64_t step, std::int32_t rank,
              std::vector<Piece> pieces);

  /// The piece whose bytes come next, nullptr after the last. The wider types come first, so that
  /// all data in the file are aligned.
  const Piece* next() const { return next_ < pieces_.size() ? &pieces_[next_] : nullptr; }

  /// All bytes of *next(), or the next part of them.
  void append(std::span<const std::byte> bytes);

  std::string finish();  // after the last; the file is on disk then

 private:
  std::string file_name_;
  std::vector<Piece> pieces_;
  std::size_t next_ = 0;
  std::int64_t appended_ = 0;  // bytes of *next()
  SafetensorsWriter writer_;
};

/// `shards` are what the ranks' finish() returned, in any order. Throws ConfigError when their
/// pieces do not make up whole tensors. Replaces a checkpoint of the same step. Then removes all
/// but the newest `keep` (at least 1) checkpoints, by step.
void commit_checkpoint(const std::string& folder, const CheckpointInfo& info,
                       std::span<const std::string> shards, int keep);

}  // namespace trainyard
