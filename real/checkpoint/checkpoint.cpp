#include "real/checkpoint/checkpoint.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/mapped_file.h"
#include "real/checkpoint/checkpoint_folder.h"
#include "real/checkpoint/checkpoint_index.h"
#include "real/checkpoint/convert.h"
#include "real/checkpoint/host_file.h"
#include "real/checkpoint/piece_runs.h"
#include "real/checkpoint/safetensors.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

CheckpointIndex read_index(const std::string& folder) {
  const std::string path = path_in(folder, kIndexName);
  std::error_code error;
  if (!fs::exists(folder, error)) refuse(folder, "there is no such checkpoint");
  if (!fs::exists(path, error)) refuse(folder, "not a complete checkpoint: it has no index.json");
  const MappedFile file(path);
  return parse_index({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
                     path);
}

/// The folder's name, where it is one of ours, is what the index says.
void check_name(const std::string& folder, const CheckpointInfo& info) {
  const fs::path path = fs::path(folder).lexically_normal();
  const std::string name = (path.has_filename() ? path : path.parent_path()).filename().string();
  const std::optional<std::int64_t> step = parse_checkpoint_name(name);
  if (step && *step != info.step) {
    refuse(path_in(folder, kIndexName),
           "is of step " + std::to_string(info.step) + ", its folder is called " + name);
  }
}

std::string metadata_value(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) refuse(file.path(), "__metadata__." + key + ": missing");
  return found->second;
}

void check_shard(const SafetensorsFile& file, const ShardIndex& shard, const CheckpointInfo& info) {
  const std::string& path = file.path();
  const std::string step = metadata_value(file, "step");
  if (step != std::to_string(info.step)) {
    refuse(path, "is of step " + step + ", index.json of step " + std::to_string(info.step));
  }
  std::map<std::string, Piece> described;
  for (Piece& piece : parse_pieces(metadata_value(file, "pieces"), path)) {
    std::string key = to_string(piece);
    described.emplace(std::move(key), std::move(piece));
  }
  for (const Piece& piece : shard.pieces) {
    const std::string key = to_string(piece);
    const auto stored = file.tensors().find(key);
    const auto own = described.find(key);
    if (stored == file.tensors().end() || own == described.end()) {
      refuse(path, "does not hold " + key + ", which index.json expects in it");
    }
    if (stored->second.dtype != piece.dtype || own->second.dtype != piece.dtype) {
      refuse(path, key + ": is " + stored->second.dtype_name + ", index.json expects " +
                       std::string(to_string(piece.dtype)));
    }
    if (!(own->second == piece)) {
      refuse(path, key + ": of shape " + shape_text(own->second.shape) + ", index.json expects " +
                       shape_text(piece.shape));
    }
    if (static_cast<std::int64_t>(stored->second.data.size()) != num_bytes(piece)) {
      refuse(path, key + ": has " + std::to_string(stored->second.data.size()) +
                       " bytes, expected " + std::to_string(num_bytes(piece)));
    }
  }
  if (file.tensors().size() != shard.pieces.size()) {
    refuse(path, "holds " + std::to_string(file.tensors().size()) + " pieces, index.json expects " +
                     std::to_string(shard.pieces.size()));
  }
}

/// Before the file's own header, which says less about what is wrong with a file that was cut.
void check_size(const std::string& path, const FileStamp& stamp) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory) refuse(path, "missing");
  if (error) throw BackendError(path + ": cannot open: " + error.message());
  if (size != static_cast<std::uintmax_t>(stamp.bytes)) {
    refuse(path, "has " + std::to_string(size) + " bytes, index.json expects " +
                     std::to_string(stamp.bytes));
  }
}

}  // namespace

struct Checkpoint::Parts {
  std::string path;
  CheckpointIndex index;
  std::vector<std::unique_ptr<SafetensorsFile>> files;        // parallel to index.shards
  std::map<std::string, std::vector<const std::byte*>> data;  // parallel to a tensor's pieces
  std::map<std::string, CheckpointTensor> tensors;
};

Checkpoint::Checkpoint(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const std::string& Checkpoint::path() const { return parts_->path; }
const CheckpointInfo& Checkpoint::info() const { return parts_->index.info; }
const std::map<std::string, CheckpointTensor>& Checkpoint::tensors() const {
  return parts_->tensors;
}

std::optional<std::string> latest_complete(const std::string& folder) {
  const std::vector<std::int64_t> steps = complete_steps(folder);
  if (steps.empty()) return std::nullopt;
  return path_in(folder, checkpoint_name(steps.back()));
}

Checkpoint Checkpoint::open(const std::string& path, Verify verify) {
  auto parts = std::make_unique<Parts>();
  parts->path = path;
  parts->index = read_index(path);
  check_name(path, parts->index.info);
  for (const ShardIndex& shard : parts->index.shards) {
    const std::string shard_path = path_in(path, shard.file);
    check_size(shard_path, shard.stamp);
    auto file = std::make_unique<SafetensorsFile>(shard_path);
    check_shard(*file, shard, parts->index.info);
    if (verify == Verify::kChecksums && sha256_hex(file->bytes()) != shard.stamp.sha256) {
      refuse(shard_path,
             "changed since it was written: it does not have the sha256 that index.json "
             "expects");
    }
    parts->files.push_back(std::move(file));
  }
  for (const auto& [name, tensor] : parts->index.tensors) {
    parts->tensors[name] = {tensor.dtype, tensor.shape};
    std::vector<const std::byte*>& data = parts->data[name];
    for (const StoredPiece& stored : tensor.pieces) {
      data.push_back(parts->files[stored.shard]->tensors().at(to_string(stored.piece)).data.data());
    }
  }
  return Checkpoint(std::move(parts));
}

void Checkpoint::read(const Piece& wanted, std::span<std::byte> out) const {
  const std::string problem = find_problem(wanted);
  check(problem.empty(), problem.c_str());
  check(static_cast<std::int64_t>(out.size()) == num_bytes(wanted), "room for the piece");
  const auto found = parts_->index.tensors.find(wanted.tensor);
  if (found == parts_->index.tensors.end()) refuse(path(), "has no tensor " + wanted.tensor);
  const StoredTensor& tensor = found->second;
  if (tensor.shape != wanted.shape) {
    refuse(path(), wanted.tensor + ": of shape " + shape_text(tensor.shape) + ", expected " +
                       shape_text(wanted.shape));
  }
  if (!is_convertible(tensor.dtype, wanted.dtype)) {
    refuse(path(), wanted.tensor + ": is " + std::string(to_string(tensor.dtype)) + ", expected " +
                       std::string(to_string(wanted.dtype)));
  }
  const std::vector<const std::byte*>& data = parts_->data.at(wanted.tensor);
  std::int64_t filled = 0;
  for (std::size_t i = 0; i < tensor.pieces.size(); ++i) {
    filled += for_common_runs(tensor.pieces[i].piece, wanted,
                              [&](std::int64_t from, std::int64_t to, std::int64_t count) {
                                convert(tensor.dtype, data[i] + from * size_in_bytes(tensor.dtype),
                                        wanted.dtype, out.data() + to * size_in_bytes(wanted.dtype),
                                        count);
                              });
  }
  check(filled == num_elements(wanted), "the pieces of a tensor hold all of it");
}

}  // namespace trainyard
