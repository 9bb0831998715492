// A checkpoint's index.json: which tensors there are and where each part of them lies.
// For this folder's .cpp files; README.md shows the file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "real/checkpoint/checkpoint_info.h"
#include "real/checkpoint/host_file.h"
#include "real/checkpoint/piece.h"

namespace trainyard {

/// One rank's file and what it holds. The piece's key in the file is to_string(piece).
struct ShardIndex {
  std::string file;  // "rank-00003.safetensors"
  FileStamp stamp;
  std::vector<Piece> pieces;  // in the order of the data
};

struct StoredPiece {
  std::size_t shard = 0;  // index into CheckpointIndex::shards
  Piece piece;
};

struct StoredTensor {
  DType dtype = DType::kFp32;
  std::vector<std::int64_t> shape;
  std::vector<StoredPiece> pieces;  // each element in one of them
};

struct CheckpointIndex {
  CheckpointInfo info;
  std::vector<ShardIndex> shards;
  std::map<std::string, StoredTensor> tensors;  // filled from the shards
};

std::string shard_to_json(const ShardIndex& shard);
ShardIndex parse_shard(std::string_view text, const std::string& file);

/// Text of Piece lists in a shard's own metadata.
std::string pieces_to_json(const std::vector<Piece>& pieces);
std::vector<Piece> parse_pieces(std::string_view text, const std::string& file);

/// Sorts the pieces of all shards by tensor. Throws ConfigError naming `file` where they disagree
/// about a tensor or do not make up the whole of it.
void collect_tensors(CheckpointIndex& index, const std::string& file);

std::string index_to_json(const CheckpointIndex& index);
CheckpointIndex parse_index(std::string_view text, const std::string& file);

}  // namespace trainyard
