#include "real/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "engine/base/error.h"

namespace trainyard {

namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kDraftPrefix = ".tmp-";
constexpr std::string_view kShardPrefix = "rank-";
constexpr std::string_view kShardSuffix = ".safetensors";

std::string padded(std::int64_t number, std::size_t digits) {
  const std::string text = std::to_string(number);
  return std::string(text.size() < digits ? digits - text.size() : 0, '0') + text;
}

/// None where there is no such folder.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory)
    return names;
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    names.push_back(entries->path().filename().string());
  }
  if (error) throw BackendError(folder + ": cannot list: " + error.message());
  return names;
}

bool has_index(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(folder) / name / kIndexName, ignored);
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return std::string(kPrefix) + padded(step, 8); }

std::string draft_name(std::int64_t step) {
  return std::string(kDraftPrefix) + checkpoint_name(step);
}

bool is_draft_name(std::string_view name) { return name.starts_with(kDraftPrefix); }

std::optional<std::int64_t> parse_checkpoint_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || step < 0 || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

std::string shard_name(std::int32_t rank) {
  return std::string(kShardPrefix) + padded(rank, 5) + std::string(kShardSuffix);
}

std::string path_in(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

bool is_checkpoint_file(std::string_view name) {
  return name == kIndexName || (name.starts_with(kShardPrefix) && name.ends_with(kShardSuffix));
}

std::vector<std::int64_t> checkpoint_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(folder)) {
    if (const auto step = parse_checkpoint_name(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<std::int64_t> complete_steps(const std::string& folder) {
  std::vector<std::int64_t> steps = checkpoint_steps(folder);
  std::erase_if(steps,
                [&](std::int64_t step) { return !has_index(folder, checkpoint_name(step)); });
  return steps;
}

std::vector<std::string> incomplete_after(const std::string& folder, std::int64_t step) {
  std::vector<std::string> out;
  for (const std::string& name : names_in(folder)) {
    const bool draft = is_draft_name(name);
    const auto of =
        parse_checkpoint_name(draft ? std::string_view(name).substr(kDraftPrefix.size()) : name);
    if (of && *of > step && (draft || !has_index(folder, name))) out.push_back(name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace trainyard
