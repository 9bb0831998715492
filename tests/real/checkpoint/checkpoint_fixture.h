// Checkpoints for tests: tensors whose elements are known, written by any split into pieces.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "real/checkpoint/checkpoint.h"
#include "real/checkpoint/checkpoint_writer.h"
#include "real/checkpoint/host_file.h"
#include "real/checkpoint/piece_runs.h"
#include "tests/support/scratch_folder.h"

namespace trainyard {

using Values = std::map<std::string, std::vector<float>>;  // fp32 tensors, whole

inline CheckpointInfo at_step(std::int64_t step) {
  CheckpointInfo info;
  info.step = step;
  return info;
}

/// The bytes of `piece`, cut out of the whole tensor.
inline std::vector<std::byte> cut(const Piece& piece, const std::vector<float>& whole) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(num_bytes(piece)));
  for (RunCursor run(piece); !run.done(); run.advance(run.length())) {
    std::memcpy(bytes.data() + run.local() * 4, whole.data() + run.global(),
                static_cast<std::size_t>(run.length()) * 4);
  }
  return bytes;
}

inline std::string write_shard(const std::string& folder, std::int64_t step, std::int32_t rank,
                               const std::vector<Piece>& pieces, const Values& values) {
  ShardWriter shard(folder, step, rank, pieces);
  while (const Piece* piece = shard.next()) shard.append(cut(*piece, values.at(piece->tensor)));
  return shard.finish();
}

/// ranks[i]: what rank i writes.
inline void write_checkpoint(const std::string& folder, const CheckpointInfo& info,
                             const std::vector<std::vector<Piece>>& ranks, const Values& values,
                             int keep = 2) {
  begin_checkpoint(folder, info.step);
  std::vector<std::string> shards;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    shards.push_back(
        write_shard(folder, info.step, static_cast<std::int32_t>(rank), ranks[rank], values));
  }
  commit_checkpoint(folder, info, shards, keep);
}

/// Changes index.json of a checkpoint; its checksum is made to fit again.
inline void edit_index(const std::string& file,
                       const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json index = nlohmann::json::parse(read_text(file));
  change(index);
  index.erase("sha256");
  const std::string text = index.dump();
  index["sha256"] = sha256_hex(std::as_bytes(std::span(text)));
  write_text(file, index.dump());
}

inline std::vector<float> read_floats(const Checkpoint& checkpoint, const Piece& piece) {
  std::vector<float> values(static_cast<std::size_t>(num_elements(piece)));
  checkpoint.read(piece, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace trainyard
