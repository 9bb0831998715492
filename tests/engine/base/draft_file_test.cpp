// Files appear whole, and never through a link that somebody has put where a draft would go.
#include "engine/base/draft_file.h"

#include <sys/file.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "engine/base/error.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::draft_file_test {

namespace fs = std::filesystem;

TEST_CASE("a file has its old text until the new one is whole") {
  const ScratchFolder folder;
  write_text(folder / "file", "old");
  {
    DraftFile draft(folder / "file");
    draft.write("never published");
    draft.close();
    CHECK(read_text(folder / "file") == "old");
  }
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  DraftFile draft(folder / "file");
  draft.write("new");
  draft.publish();
  CHECK(read_text(folder / "file") == "new");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a link or a file in the place of a draft is never written through") {
  const ScratchFolder folder;
  write_text(folder / "victim", "precious");
  const std::string draft = folder / ("file.part" + std::to_string(getpid()));
  fs::create_symlink(folder / "victim", draft);
  DraftFile file(folder / "file");
  file.write("text");
  file.publish();
  CHECK(read_text(folder / "victim") == "precious");
  CHECK(read_text(folder / "file") == "text");
  CHECK_FALSE(fs::is_symlink(folder / "file"));
  fs::create_symlink(folder / "nothing", folder / "link");
  CHECK(open_new_file(folder / "link") == -1);
  CHECK(open_new_file(folder / "file") == -1);
  CHECK_FALSE(fs::exists(folder / "nothing"));
}

TEST_CASE("a file that is a link is replaced, not what it leads to") {
  const ScratchFolder folder;
  write_text(folder / "target", "kept");
  fs::create_symlink(folder / "target", folder / "file");
  DraftFile file(folder / "file");
  file.write("text");
  file.publish();
  CHECK(read_text(folder / "target") == "kept");
  CHECK_FALSE(fs::is_symlink(folder / "file"));
}

TEST_CASE("a draft goes when nobody writes it, and only a draft") {
  const ScratchFolder folder;
  CHECK(is_draft_of("trace.json.part12", "trace.json"));
  CHECK_FALSE(is_draft_of("trace.json.part", "trace.json"));
  CHECK_FALSE(is_draft_of("trace.json.part1x", "trace.json"));
  CHECK_FALSE(is_draft_of("trace.json", "trace.json"));
  write_text(folder / "trace.json.part1", "");
  remove_stale_draft(folder / "trace.json.part1");
  CHECK_FALSE(fs::exists(folder / "trace.json.part1"));
  const DraftFile written(folder / "trace.json");
  remove_stale_draft(folder / ("trace.json.part" + std::to_string(getpid())));
  CHECK(fs::exists(folder / ("trace.json.part" + std::to_string(getpid()))));
}

TEST_CASE("folders made for files that never came go again, and no others") {
  const ScratchFolder folder;
  {
    const DraftFolder made(folder / "a/b/c");
    CHECK(fs::is_directory(folder / "a/b/c"));
  }
  CHECK_FALSE(fs::exists(folder / "a"));
  {
    const DraftFolder made(folder / "a/b/c");
    write_text(folder / "a/b/file", "");
  }
  CHECK(fs::exists(folder / "a/b"));
  CHECK_FALSE(fs::exists(folder / "a/b/c"));
  CHECK(error_of([&] { DraftFolder(folder / "a/b/file/d"); }) ==
        "cannot make the folder " + (folder / "a/b/file/d") + ": Not a directory");
}

}  // namespace trainyard::draft_file_test
