// Names in a folder of checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

std::string checkpoint_name(std::int64_t step);  // "step-00000100"
std::string draft_name(std::int64_t step);       // ".tmp-step-00000100"
bool is_draft_name(std::string_view name);
std::optional<std::int64_t> parse_checkpoint_name(std::string_view name);
std::string shard_name(std::int32_t rank);  // "rank-00003.safetensors"
inline constexpr const char* kIndexName = "index.json";

/// A file or folder in `folder`.
std::string path_in(const std::string& folder, const std::string& name);

bool is_checkpoint_file(std::string_view name);  // a shard's, or the index's

/// Steps of all folders that are called as checkpoints are, complete or not, ascending.
std::vector<std::int64_t> checkpoint_steps(const std::string& folder);

/// Steps of the complete checkpoints in `folder`, ascending; none where there is no such folder.
std::vector<std::int64_t> complete_steps(const std::string& folder);

/// Names in `folder` of checkpoints of later steps than `step` that were never completed: drafts,
/// and folders without an index.
std::vector<std::string> incomplete_after(const std::string& folder, std::int64_t step);

}  // namespace trainyard
