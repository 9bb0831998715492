// One command at a time writes in a folder.
#pragma once

#include <string>

#include "engine/base/draft_file.h"

namespace trainyard {

/// The folder's lock (flock() on the folder itself, so no file), held by this process and those
/// that it starts until the last of them has gone. Makes the folder where it is not there; it goes
/// again where it stays empty. Throws ConfigError, with who holds the lock, or where a file stands
/// in its place or on the way. Where the file system has none, a warning says so.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  bool held() const { return held_; }

 private:
  DraftFolder folder_;
  int descriptor_ = -1;
  bool held_ = false;
};

}  // namespace trainyard
