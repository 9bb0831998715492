// The one way in which we write files: under a draft's name first, renamed when the whole file is
// there. So nobody meets half a file, and what had the name stays until then.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// A new file, opened for writing; -1, with errno: not. Never one that is there already, nor what a
/// link of that name leads to: who may write in the folder, but not all that we may write, could
/// have put it there.
int open_new_file(const std::string& path);

/// PATH.part1234 of process 1234, until publish() gives it its name. Gone with this object, or with
/// the process where a signal ends it (remove_drafts()). Throws BackendError, "cannot write PATH:
/// reason".
class DraftFile {
 public:
  explicit DraftFile(std::string path);
  ~DraftFile();
  DraftFile(DraftFile&& other) noexcept;
  DraftFile& operator=(DraftFile&&) = delete;

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }  // for who writes without write()
  void write(std::string_view bytes);
  /// All bytes are with the system then: what is left to go wrong is the rename.
  void close();
  /// Closes it if need be.
  void publish();

 private:
  void flush();
  [[noreturn]] void fail(int code) const;

  std::string path_, draft_;
  std::string buffer_;
  int descriptor_ = -1;
  int slot_ = -1;  // among those that remove_drafts() knows
};

/// A folder that is there from now on, with the parents that it needs. Those that had to be made go
/// again, with this object or by remove_drafts(), where nothing has been put into them.
class DraftFolder {
 public:
  /// Throws BackendError with the system's reason.
  explicit DraftFolder(const std::string& path);
  ~DraftFolder();
  DraftFolder(const DraftFolder&) = delete;
  DraftFolder& operator=(const DraftFolder&) = delete;

  void remove_if_empty();
  void keep();

 private:
  std::vector<std::string> made_;  // the outermost first
  std::vector<int> slots_;
};

/// Removes the drafts of this process: for a handler of signals, so it calls nothing but unlink()
/// and rmdir().
void remove_drafts();

/// Whether `name` is a draft of the file called `file`.
bool is_draft_of(std::string_view name, std::string_view file);

/// Removes the draft at `path` unless a process is writing it.
void remove_stale_draft(const std::string& path);

}  // namespace trainyard
