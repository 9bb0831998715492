#include "system/output_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/user_text.h"
#include "system/interrupt.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

constexpr const char* kCheckpoints = "checkpoints";
constexpr std::string_view kCheckpointDraft = ".tmp-step-";

std::vector<fs::path> entries_of(const std::string& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error))
    entries.push_back(at->path());
  if (error && error != std::errc::no_such_file_or_directory) {
    throw BackendError("cannot list the folder " + plain_text(folder) + ": " + error.message());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool is_one_of(const std::string& name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A file is one where a file is expected, and a folder one where a folder is, with nothing strange
/// in it.
bool is_as_written(const fs::path& entry) {
  std::error_code ignored;
  const std::string name = entry.filename().string();
  const bool folder = fs::is_directory(fs::symlink_status(entry, ignored));
  if (name != "software") return folder == (name == kCheckpoints);
  const std::vector<fs::path> inside = entries_of(entry.string());
  return folder && std::all_of(inside.begin(), inside.end(),
                               [](const fs::path& file) { return file.extension() == ".yaml"; });
}

std::string named(const std::vector<std::string>& names) {
  std::string text = in_quotes(names.front());
  if (names.size() > 1) text += " and " + std::to_string(names.size() - 1) + " more";
  return text;
}

bool holds_checkpoints(const std::string& folder) {
  return !entries_of(folder + "/" + kCheckpoints).empty();
}

[[noreturn]] void refuse(const std::string& folder, const std::string& problem) {
  throw ConfigError("--out " + folder + ": holds " + problem);
}

}  // namespace

std::vector<std::string> check_output_folder(const std::string& folder, const WrittenBy& by,
                                             bool overwrite) {
  const std::optional<WrittenBy> found = read_written_by(folder);
  const bool same = found && same_writer(*found, by, folder);
  const std::vector<std::string>& own = files_of(by.command);
  const std::vector<std::string>& others = files_of(found ? found->command : "");
  std::vector<std::string> written, foreign, replaced;
  for (const fs::path& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    const bool known = is_one_of(name, own) || is_one_of(name, others);
    if (!known || !is_as_written(entry)) {
      foreign.push_back(name);
      // A file that is to be written finds a folder in its place.
      if (is_one_of(name, own))
        refuse(folder, in_quotes(name) + ", which is none that trainyard wrote");
      continue;
    }
    written.push_back(name);
    if (name != kCheckpoints && name != "software") replaced.push_back(entry.string());
  }
  const bool trains = by.command == "train";
  if (!trains && holds_checkpoints(folder)) {
    refuse(folder,
           "the checkpoints of a training run, which only train --overwrite removes; name another "
           "folder");
  }
  if (overwrite) return replaced;
  if (!foreign.empty()) {
    refuse(folder, named(foreign) + ", which trainyard " + by.command +
                       " did not write; name another folder, or say --overwrite, which leaves that "
                       "where it is");
  }
  if (written.empty() || same) return {};
  if (!found) {
    refuse(folder, named(written) +
                       ", and nothing that says which command wrote it; name another folder, or "
                       "say --overwrite");
  }
  refuse(folder, "what trainyard " + found->command + " wrote of " + in_quotes(found->input) +
                     (found->command == by.command ? ", another input" : "") +
                     "; name another folder, or say --overwrite");
}

void remove_drafts_in(const std::string& folder) {
  for (const fs::path& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    for (const char* command : {"simulate", "simulate --compare-tensor-methods", "compile", "sweep",
                                "train", "validate", "calibrate --fit", "export"}) {
      const std::vector<std::string>& files = files_of(command);
      const bool draft = std::any_of(files.begin(), files.end(), [&](const std::string& file) {
        return is_draft_of(name, file);
      });
      if (draft) {
        remove_stale_draft(entry.string());
        break;
      }
    }
  }
  for (const fs::path& entry : entries_of(folder + "/" + kCheckpoints)) {
    std::error_code ignored;
    if (entry.filename().string().starts_with(kCheckpointDraft)) fs::remove_all(entry, ignored);
  }
}

LockedFile::LockedFile(const std::string& path)
    : path_(path),
      lock_(fs::path(path).has_parent_path() ? fs::path(path).parent_path().string() : ".") {
  remove_drafts();
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  const std::string mark = "# Written by trainyard calibrate";
  std::string head(mark.size(), '\0');
  std::ifstream(path, std::ios::binary)
      .read(head.data(), static_cast<std::streamsize>(head.size()));
  if (head == mark) return;
  throw ConfigError("--out " + path +
                    ": is there, and trainyard calibrate did not write it; name another file");
}

void LockedFile::remove_drafts() const {
  if (!lock_.held()) return;
  const fs::path file = path_;
  const std::string name = file.filename().string();
  for (const fs::path& entry :
       entries_of(file.has_parent_path() ? file.parent_path().string() : ".")) {
    const std::string draft = entry.filename().string();
    const bool ours = is_draft_of(draft, name) || is_draft_of(draft, name + ".partial") ||
                      is_draft_of(draft, fs::path(name).replace_extension(".html").string());
    if (ours) remove_stale_draft(entry.string());
  }
}

OutputFolder::OutputFolder(const std::string& folder, WrittenBy by, bool overwrite)
    : folder_(folder),
      by_(std::move(by)),
      lock_(folder) {
  if (lock_.held()) remove_drafts_in(folder_);
  replaced_ = check_output_folder(folder_, by_, overwrite);
}

void OutputFolder::write(
    const std::string& name,
    const std::function<void(const std::function<void(std::string_view)>&)>& produce) {
  const fs::path path = fs::path(folder_) / name;
  if (fs::path(name).has_parent_path()) made_.emplace_back(path.parent_path().string());
  DraftFile& draft = drafts_.emplace_back(path.string());
  produce([&](std::string_view piece) { draft.write(piece); });
  draft.close();
}

void OutputFolder::write(const std::string& name, std::string_view text) {
  write(name, [&](const std::function<void(std::string_view)>& sink) { sink(text); });
}

void OutputFolder::commit(const std::vector<std::string>& others) {
  const HeldSignals together;
  for (DraftFile& draft : drafts_) draft.publish();
  for (const std::string& old : replaced_) {
    const bool written = is_one_of(fs::path(old).filename().string(), others) ||
                         std::any_of(drafts_.begin(), drafts_.end(),
                                     [&](const DraftFile& draft) { return draft.path() == old; });
    std::error_code error;
    if (!written) fs::remove(old, error);
    if (error) throw BackendError("cannot remove " + plain_text(old) + ": " + error.message());
  }
  drafts_.clear();
  keeps("what was written into " + folder_ + " is complete");
}

}  // namespace trainyard
