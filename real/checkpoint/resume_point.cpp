#include "real/checkpoint/resume_point.h"

#include <filesystem>
#include <system_error>

#include "engine/base/error.h"
#include "real/checkpoint/checkpoint_folder.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

std::string folder_of(const ResumePoint& point) {
  return fs::path(point.path).parent_path().string();
}

bool is_whole(const std::string& path) {
  try {
    Checkpoint::open(path, Verify::kChecksums);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

/// What may be done about a checkpoint that is damaged.
std::string way_out(const ResumePoint& point) {
  const std::string folder = folder_of(point);
  const std::vector<std::int64_t> steps = complete_steps(folder);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (*step >= point.step || !is_whole((fs::path(folder) / checkpoint_name(*step)).string()))
      continue;
    return "; " + checkpoint_name(*step) + " before it is whole: --resume-from " +
           std::to_string(*step) + " goes on from there";
  }
  return "; no checkpoint before it is whole";
}

constexpr std::string_view kAsidePrefix = "aside-";

/// The first free one of aside-step-00000006, aside-step-00000006.2, ...
std::string aside_name(const fs::path& folder, std::int64_t step) {
  std::string name = std::string(kAsidePrefix) + checkpoint_name(step);
  if (!fs::exists(folder / name)) return name;
  int number = 2;
  while (fs::exists(folder / (name + "." + std::to_string(number)))) ++number;
  return name + "." + std::to_string(number);
}

}  // namespace

ResumePoint find_resume_point(const std::string& folder, std::optional<std::int64_t> from) {
  const std::vector<std::int64_t> steps = complete_steps(folder);
  std::string have;
  bool found = !from && !steps.empty();
  for (const std::int64_t step : steps) {
    found = found || step == from;
    have += (have.empty() ? "" : ", ") + std::to_string(step);
  }
  if (!found) {
    const std::string wanted = from ? " of step " + std::to_string(*from) : "";
    throw ConfigError(folder + ": no complete checkpoint" + wanted + " to resume from" +
                      (have.empty() ? "" : "; there are those of steps " + have));
  }
  ResumePoint out;
  out.step = from.value_or(steps.empty() ? 0 : steps.back());
  out.path = (fs::path(folder) / checkpoint_name(out.step)).string();
  out.passed_over = incomplete_after(folder, out.step);
  return out;
}

Checkpoint open_to_resume(const ResumePoint& point, Verify verify) {
  try {
    return Checkpoint::open(point.path, verify);
  } catch (const ConfigError& error) {
    throw ConfigError(error.what() + way_out(point));
  }
}

bool is_aside_name(std::string_view name) {
  if (!name.starts_with(kAsidePrefix)) return false;
  name.remove_prefix(kAsidePrefix.size());
  return parse_checkpoint_name(name.substr(0, name.find('.'))).has_value();
}

std::vector<std::string> set_aside_later(const ResumePoint& point) {
  const fs::path folder = folder_of(point);
  std::vector<std::string> out;
  for (const std::int64_t step : complete_steps(folder.string())) {
    if (step <= point.step) continue;
    const std::string name = aside_name(folder, step);
    std::error_code error;
    fs::rename(folder / checkpoint_name(step), folder / name, error);
    if (error)
      throw BackendError((folder / checkpoint_name(step)).string() +
                         ": cannot rename: " + error.message());
    out.push_back(name);
  }
  return out;
}

}  // namespace trainyard
