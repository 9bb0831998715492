// Which checkpoint a run goes on from, and what it says where that cannot be.
#include "real/checkpoint/resume_point.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "engine/base/error.h"
#include "tests/real/checkpoint/checkpoint_fixture.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::resume_point_test {

namespace {

namespace fs = std::filesystem;

/// Complete checkpoints of steps 2, 4 and 6.
class Subject {
 public:
  Subject() {
    for (const std::int64_t step : {2, 4, 6}) {
      write_checkpoint(scratch_.path(), at_step(step), {{whole_tensor("a", DType::kFp32, {2})}},
                       {{"a", {0, 1}}}, 3);
    }
  }
  std::string folder() const { return scratch_.path(); }
  std::string path(const std::string& name) const { return scratch_ / name; }
  /// Its size and its header stay.
  void damage(std::int64_t step) const {
    const std::string shard =
        path("step-0000000" + std::to_string(step) + "/rank-00000.safetensors");
    std::string bytes = read_text(shard);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_text(shard, bytes);
  }
  std::string opening(std::optional<std::int64_t> from) const {
    return error_of([&] { open_to_resume(find_resume_point(folder(), from), Verify::kChecksums); });
  }

 private:
  ScratchFolder scratch_;
};

}  // namespace

TEST_CASE("a run goes on from the newest complete checkpoint, or from that of a step") {
  const Subject subject;
  CHECK(find_resume_point(subject.folder(), {}).path == subject.path("step-00000006"));
  CHECK(find_resume_point(subject.folder(), 4).path == subject.path("step-00000004"));
  CHECK(error_of([&] { find_resume_point(subject.folder(), 5); }) ==
        subject.folder() +
            ": no complete checkpoint of step 5 to resume from; there are those of steps 2, 4, 6");
  CHECK(error_of([&] { find_resume_point(subject.path("none"), {}); }) ==
        subject.path("none") + ": no complete checkpoint to resume from");
}

TEST_CASE("a checkpoint that was never completed is passed over") {
  const Subject subject;
  fs::create_directory(subject.path(".tmp-step-00000008"));
  fs::create_directory(subject.path("step-00000010"));  // without an index
  fs::create_directory(subject.path(".tmp-step-00000005"));
  const ResumePoint newest = find_resume_point(subject.folder(), {});
  CHECK(newest.step == 6);
  CHECK(newest.passed_over == std::vector<std::string>{".tmp-step-00000008", "step-00000010"});
}

TEST_CASE("the error of a damaged checkpoint names it, and the newest whole one before it") {
  const Subject subject;
  subject.damage(6);
  CHECK(subject.opening({}) ==
        subject.path("step-00000006/rank-00000.safetensors") +
            ": changed since it was written: it does not have the sha256 that index.json "
            "expects; step-00000004 before it is whole: --resume-from 4 goes on from there");
  subject.damage(4);
  CHECK_THAT(
      subject.opening({}),
      Catch::EndsWith("; step-00000002 before it is whole: --resume-from 2 goes on from there"));
  CHECK_THAT(subject.opening(4), Catch::StartsWith(subject.path("step-00000004/")) &&
                                     Catch::EndsWith("--resume-from 2 goes on from there"));
  subject.damage(2);
  CHECK_THAT(subject.opening({}), Catch::EndsWith("; no checkpoint before it is whole"));
}

TEST_CASE("checkpoints behind the one that a run goes back to are kept under other names") {
  const Subject subject;
  fs::create_directory(subject.path("aside-step-00000006"));  // of an earlier return
  CHECK(set_aside_later(find_resume_point(subject.folder(), 2)) ==
        std::vector<std::string>{"aside-step-00000004", "aside-step-00000006.2"});
  CHECK(find_resume_point(subject.folder(), {}).step == 2);
  CHECK_NOTHROW(Checkpoint::open(subject.path("aside-step-00000006.2"), Verify::kChecksums));
}

}  // namespace trainyard::resume_point_test
