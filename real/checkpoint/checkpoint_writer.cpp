#include "real/checkpoint/checkpoint_writer.h"

#include <fcntl.h>
#include <stdio.h>  // renameat2, an extension

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/base/error.h"
#include "real/checkpoint/checkpoint_folder.h"
#include "real/checkpoint/checkpoint_index.h"
#include "real/checkpoint/host_file.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const char* action, const std::error_code& error) {
  throw BackendError(path + ": cannot " + action + ": " + error.message());
}

void remove_folder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail(path, "remove", error);
}

std::vector<Piece> in_file_order(std::vector<Piece> pieces) {
  for (const Piece& piece : pieces) {
    const std::string problem = find_problem(piece);
    check(problem.empty(), problem.c_str());
  }
  std::erase_if(pieces, [](const Piece& piece) { return num_elements(piece) == 0; });
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return size_in_bytes(a.dtype) > size_in_bytes(b.dtype);
  });
  return pieces;
}

std::vector<SafetensorsEntry> entries_of(const std::vector<Piece>& pieces) {
  std::vector<SafetensorsEntry> entries;
  entries.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    entries.push_back({to_string(piece), piece.dtype,
                       is_whole_rectangle(piece) ? piece.extent
                                                 : std::vector<std::int64_t>{num_elements(piece)}});
  }
  return entries;
}

/// What makes a shard readable without its index.
std::map<std::string, std::string> metadata_of(std::int64_t step, std::int32_t rank,
                                               const std::vector<Piece>& pieces) {
  return {{"format", "trainyard-checkpoint"},
          {"step", std::to_string(step)},
          {"rank", std::to_string(rank)},
          {"pieces", pieces_to_json(pieces)}};
}

/// `draft` gets the name `final_path`; a folder that has it now gets a draft's name and goes.
void publish(const std::string& draft, const std::string& final_path) {
  if (::rename(draft.c_str(), final_path.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) fail_with_errno(final_path, "rename a draft to it");
  if (::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, final_path.c_str(), RENAME_EXCHANGE) == 0) {
    return remove_folder(draft);
  }
  // A file system that cannot exchange: for a moment there is neither.
  const std::string old = draft + "-replaced";
  if (::rename(final_path.c_str(), old.c_str()) != 0) fail_with_errno(final_path, "rename");
  if (::rename(draft.c_str(), final_path.c_str()) != 0) {
    fail_with_errno(final_path, "rename a draft to it");
  }
  remove_folder(old);
}

/// Under a draft's name first, so that nobody meets a checkpoint that is half removed.
void remove_checkpoint(const std::string& folder, std::int64_t step) {
  const std::string path = path_in(folder, checkpoint_name(step));
  const std::string removed = path_in(folder, draft_name(step) + "-removed");
  if (::rename(path.c_str(), removed.c_str()) != 0) fail_with_errno(path, "rename");
  remove_folder(removed);
}

}  // namespace

void begin_checkpoint(const std::string& folder, std::int64_t step) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(folder, "create", error);
  std::vector<std::string> leftovers;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (is_draft_name(entries->path().filename().string())) {
      leftovers.push_back(entries->path().string());
    }
  }
  if (error) fail(folder, "list", error);
  for (const std::string& leftover : leftovers) remove_folder(leftover);
  const std::string draft = path_in(folder, draft_name(step));
  fs::create_directory(draft, error);
  if (error) fail(draft, "create", error);
}

ShardWriter::ShardWriter(const std::string& folder, std::int64_t step, std::int32_t rank,
                         std::vector<Piece> pieces)
    : file_name_(shard_name(rank)),
      pieces_(in_file_order(std::move(pieces))),
      writer_(path_in(path_in(folder, draft_name(step)), file_name_), entries_of(pieces_),
              metadata_of(step, rank, pieces_)) {}

void ShardWriter::append(std::span<const std::byte> bytes) {
  check(next() != nullptr, "no bytes after the last piece");
  appended_ += static_cast<std::int64_t>(bytes.size());
  check(appended_ <= num_bytes(*next()), "a piece's bytes and no more");
  writer_.append(bytes);
  if (appended_ < num_bytes(*next())) return;
  ++next_;
  appended_ = 0;
}

std::string ShardWriter::finish() {
  const FileStamp stamp = writer_.finish();
  return shard_to_json({file_name_, stamp, pieces_});
}

void commit_checkpoint(const std::string& folder, const CheckpointInfo& info,
                       std::span<const std::string> shards, int keep) {
  check(keep >= 1, "the newest checkpoint is kept");
  const std::string draft = path_in(folder, draft_name(info.step));
  const std::string index_path = path_in(draft, kIndexName);
  CheckpointIndex index;
  index.info = info;
  for (const std::string& shard : shards) index.shards.push_back(parse_shard(shard, draft));
  std::sort(index.shards.begin(), index.shards.end(),
            [](const ShardIndex& a, const ShardIndex& b) { return a.file < b.file; });
  collect_tensors(index, index_path);
  for (const ShardIndex& shard : index.shards) {
    std::error_code error;
    const std::string path = path_in(draft, shard.file);
    const std::uintmax_t size = fs::file_size(path, error);
    if (error) fail(path, "find what a rank wrote", error);
    if (size != static_cast<std::uintmax_t>(shard.stamp.bytes)) {
      refuse(path, "has " + std::to_string(size) + " bytes, its rank wrote " +
                       std::to_string(shard.stamp.bytes));
    }
  }

  OutputFile file(index_path);
  const std::string text = index_to_json(index);
  file.append(std::as_bytes(std::span(text)));
  file.finish();
  flush_folder(draft);
  publish(draft, path_in(folder, checkpoint_name(info.step)));
  flush_folder(folder);

  std::vector<std::int64_t> steps = complete_steps(folder);
  while (steps.size() > static_cast<std::size_t>(keep) && steps.front() < info.step) {
    remove_checkpoint(folder, steps.front());
    steps.erase(steps.begin());
  }
}

}  // namespace trainyard
