// What --out DIR means: the folder is this command's alone while it runs, what others have there
// stays, and the files appear together at the end or not at all.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/draft_file.h"
#include "system/folder_lock.h"
#include "system/written_by.h"

namespace trainyard {

class OutputFolder {
 public:
  /// Takes the folder's lock, removes drafts that a command left there when it died, and refuses
  /// (ConfigError) a folder that holds anything but what the same command wrote from the same
  /// input. With `overwrite` only checkpoints are refused: what another command wrote goes when
  /// commit() is called, what trainyard did not write stays.
  OutputFolder(const std::string& folder, WrittenBy by, bool overwrite);

  const std::string& path() const { return folder_; }
  /// The file's text, with what says who wrote it; and that alone.
  std::string marked_yaml(const std::string& text) const {
    return trainyard::marked_yaml(text, by_, folder_);
  }
  std::string marked_json(const std::string& text) const {
    return trainyard::marked_json(text, by_, folder_);
  }

  std::string mark() const { return written_by_text(by_, folder_); }

  /// Writes a draft of the file. Throws BackendError.
  void write(const std::string& name,
             const std::function<void(const std::function<void(std::string_view)>&)>& produce);
  void write(const std::string& name, std::string_view text);
  /// Gives all drafts their names. `others`: files that the command has written in another way.
  void commit(const std::vector<std::string>& others = {});

 private:
  std::string folder_;
  WrittenBy by_;
  FolderLock lock_;
  std::vector<std::string> replaced_;  // paths of another command's files
  std::deque<DraftFolder> made_;
  std::deque<DraftFile> drafts_;
};

/// What --out FILE.yaml means for calibrate: the lock of the folder that it lies in is held, its
/// drafts are removed, and a file that calibrate did not write is refused (ConfigError).
class LockedFile {
 public:
  explicit LockedFile(const std::string& path);
  /// Drafts of the file, and of those that are called as it is with more behind, or as a page.
  void remove_drafts() const;

 private:
  std::string path_;
  FolderLock lock_;
};

/// The check of OutputFolder by itself, for a folder that is locked: the paths that --overwrite
/// removes.
std::vector<std::string> check_output_folder(const std::string& folder, const WrittenBy& by,
                                             bool overwrite);

/// Drafts in a locked folder, of files and of checkpoints.
void remove_drafts_in(const std::string& folder);

}  // namespace trainyard
