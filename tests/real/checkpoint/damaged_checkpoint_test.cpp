// Every way in which a checkpoint can be damaged is refused on opening, with the file and the
// reason.
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "real/checkpoint/checkpoint.h"
#include "real/checkpoint/training_state.h"
#include "tests/real/checkpoint/checkpoint_fixture.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::damaged_checkpoint_test {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kRank0 = "rank-00000.safetensors";
constexpr const char* kRank1 = "rank-00001.safetensors";

/// A good checkpoint of two ranks with equally large files: a [4, 2] by rows, b and c whole.
class Subject {
 public:
  Subject() {
    const Values values = {{"a", {0, 1, 2, 3, 4, 5, 6, 7}}, {"b", {8, 9}}, {"c", {10, 11}}};
    write_checkpoint(scratch_.path(), at_step(100),
                     {{rows(0), whole_tensor("b", DType::kFp32, {2})},
                      {rows(2), whole_tensor("c", DType::kFp32, {2})}},
                     values);
  }

  std::string path(const std::string& file = "") const {
    return scratch_ / "step-00000100" + (file.empty() ? "" : "/" + file);
  }

  /// Changes index.json; its checksum is made to fit again.
  void edit_index(const std::function<void(json&)>& change) const {
    trainyard::edit_index(path("index.json"), change);
  }

  /// Replaces a shard's file; size and checksum in index.json are made to fit again.
  void replace_shard(const char* name, const std::string& contents) const {
    write_text(path(name), contents);
    edit_index([&](json& index) {
      for (json& file : index["files"]) {
        if (file["name"] != name) continue;
        file["bytes"] = contents.size();
        file["sha256"] = sha256_hex(std::as_bytes(std::span(contents)));
      }
    });
  }

  std::string shard(const char* name) const { return read_text(path(name)); }

  /// The error on opening, without the checkpoint's own path in front of the file.
  std::string error(Verify verify = Verify::kChecksums) const {
    try {
      Checkpoint::open(path(), verify);
    } catch (const ConfigError& error) {
      const std::string what = error.what();
      REQUIRE(what.starts_with(path()));
      // Lines and columns of index.json have a test of their own.
      const std::string place = to_string(error.where());
      const std::string rest =
          error.where().line > 0 ? path("index.json") + what.substr(place.size()) : what;
      return rest.substr(path().size() + (rest[path().size()] == '/' ? 1 : 0));
    }
    return "none";
  }

 private:
  static Piece rows(std::int64_t begin) {
    return rectangle("a", DType::kFp32, {4, 2}, {begin, 0}, {2, 2});
  }

  ScratchFolder scratch_;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  REQUIRE(from.size() == to.size());  // the header's length stays
  return text.replace(at, from.size(), to);
}

std::string flipped(std::string text, std::size_t at) {
  text[at] = static_cast<char>(text[at] ^ 4);
  return text;
}

}  // namespace

TEST_CASE("an undamaged checkpoint is not refused") { CHECK(Subject().error() == "none"); }

TEST_CASE("damage: a missing checkpoint, index or file") {
  const Subject subject;
  SECTION("checkpoint") {
    fs::remove_all(subject.path());
    CHECK(subject.error() == ": there is no such checkpoint");
  }
  SECTION("index") {
    fs::remove(subject.path("index.json"));
    CHECK(subject.error() == ": not a complete checkpoint: it has no index.json");
  }
  SECTION("file") {
    fs::remove(subject.path(kRank1));
    CHECK(subject.error() == "rank-00001.safetensors: missing");
  }
}

TEST_CASE("damage: files of another length") {
  const Subject subject;
  const std::string good = subject.shard(kRank1);
  const std::string size = std::to_string(good.size());
  SECTION("truncated") {
    write_text(subject.path(kRank1), good.substr(0, good.size() - 1));
    CHECK(subject.error(Verify::kStructure) == "rank-00001.safetensors: has " +
                                                   std::to_string(good.size() - 1) +
                                                   " bytes, index.json expects " + size);
  }
  SECTION("truncated, and the index with it") {
    subject.replace_shard(kRank1, good.substr(0, good.size() - 1));
    CHECK(subject.error() ==
          "rank-00001.safetensors: truncated: 24 bytes of data expected, 23 are there");
  }
  SECTION("extra bytes") {
    write_text(subject.path(kRank1), good + "x");
    CHECK(subject.error() == "rank-00001.safetensors: has " + std::to_string(good.size() + 1) +
                                 " bytes, index.json expects " + size);
  }
  SECTION("extra bytes, and the index with them") {
    subject.replace_shard(kRank1, good + "x");
    CHECK(subject.error() == "rank-00001.safetensors: 1 extra bytes after the last tensor");
  }
  SECTION("empty") {
    write_text(subject.path(kRank1), "");
    CHECK(subject.error() == "rank-00001.safetensors: has 0 bytes, index.json expects " + size);
  }
  SECTION("empty index") {
    write_text(subject.path("index.json"), "");
    CHECK_THAT(subject.error(), Catch::StartsWith("index.json: the file is empty"));
  }
}

TEST_CASE("damage: flipped bits") {
  const Subject subject;
  const std::string good = subject.shard(kRank0);
  SECTION("in the data") {
    write_text(subject.path(kRank0), flipped(good, good.size() - 3));
    CHECK(subject.error() ==
          "rank-00000.safetensors: changed since it was written: it does not have the sha256 that "
          "index.json expects");
    CHECK(subject.error(Verify::kStructure) == "none");  // that is what checksums are for
  }
  SECTION("anywhere") {
    for (std::size_t i = 0; i < good.size(); ++i) {
      write_text(subject.path(kRank0), flipped(good, i));
      CAPTURE(i);
      CHECK_THAT(subject.error(), Catch::StartsWith("rank-00000.safetensors: "));
    }
  }
  SECTION("in the header's length") {
    write_text(subject.path(kRank0), flipped(good, 6));
    CHECK_THAT(subject.error(), Catch::StartsWith("rank-00000.safetensors: not a safetensors file: "
                                                  "its header would take 11258999068"));
  }
  SECTION("anywhere in the index") {
    const std::string index = read_text(subject.path("index.json"));
    for (std::size_t i = 0; i < index.size(); ++i) {
      write_text(subject.path("index.json"), flipped(index, i));
      CAPTURE(i, index.substr(i, 20));
      // Bits of the white space between tokens may turn into other white space.
      if (index[i] == ' ' || index[i] == '\n') continue;
      CHECK_THAT(subject.error(), Catch::StartsWith("index.json: "));
    }
  }
}

TEST_CASE("damage: files that are good, each for itself, but not together") {
  const Subject subject;
  SECTION("swapped") {
    fs::rename(subject.path(kRank0), subject.path("x"));
    fs::rename(subject.path(kRank1), subject.path(kRank0));
    fs::rename(subject.path("x"), subject.path(kRank1));
    CHECK(subject.error(Verify::kStructure) ==
          "rank-00000.safetensors: does not hold a[0:2, 0:2], which index.json expects in it");
  }
  SECTION("of another step") {
    subject.replace_shard(kRank0,
                          replaced(subject.shard(kRank0), R"("step":"100")", R"("step":"200")"));
    CHECK(subject.error() == "rank-00000.safetensors: is of step 200, index.json of step 100");
  }
  SECTION("index of another step than the folder") {
    subject.edit_index([](json& index) { index["step"] = 200; });
    CHECK(subject.error() == "index.json: is of step 200, its folder is called step-00000100");
  }
}

TEST_CASE("damage: a shard's header that says something else than the index") {
  const Subject subject;
  const std::string good = subject.shard(kRank0);
  SECTION("shape") {
    const std::string from = R"("data_offsets":[16,24],"dtype":"F32","shape":[2])";
    const std::string to = R"("data_offsets":[16,24],"dtype":"F32","shape":[3])";
    subject.replace_shard(kRank0, replaced(good, from, to));
    CHECK(subject.error() ==
          "rank-00000.safetensors: b.data_offsets: 8 bytes, where shape [3] of F32 takes 12");
  }
  SECTION("type") {
    const std::string from = R"("data_offsets":[16,24],"dtype":"F32")";
    const std::string to = R"("data_offsets":[16,24],"dtype":"I32")";
    subject.replace_shard(kRank0, replaced(good, from, to));
    CHECK(subject.error() == "rank-00000.safetensors: b: is I32, index.json expects fp32");
  }
  SECTION("global shape") {
    subject.replace_shard(kRank0, replaced(good, R"(\"shape\":[4,2])", R"(\"shape\":[5,2])"));
    CHECK(subject.error() ==
          "rank-00000.safetensors: a[0:2, 0:2]: of shape [5, 2], index.json expects [4, 2]");
  }
  SECTION("overlapping data") {
    subject.replace_shard(kRank0, replaced(good, "[16,24]", "[12,20]"));
    CHECK(subject.error() ==
          "rank-00000.safetensors: b: begins at byte 12 of the data, inside the tensor before it, "
          "which ends at 16");
  }
  SECTION("negative offsets") {
    subject.replace_shard(kRank0, replaced(good, "[16,24]", "[-9,-1]"));
    CHECK(subject.error() ==
          "rank-00000.safetensors: b.data_offsets[0]: expected at least 0, got -9");
  }
  SECTION("name") {
    subject.replace_shard(kRank0, replaced(good, R"("b":{)", R"("d":{)"));
    CHECK(subject.error() ==
          "rank-00000.safetensors: does not hold b, which index.json expects in it");
  }
}

TEST_CASE("damage: an index that is not one") {
  const Subject subject;
  const auto error_with_text = [&](const std::string& text) {
    write_text(subject.path("index.json"), text);
    return subject.error();
  };
  CHECK_THAT(error_with_text("not JSON"), Catch::StartsWith("index.json: is not JSON: "));
  CHECK_THAT(error_with_text(R"({"step": NaN})"), Catch::StartsWith("index.json: is not JSON: "));
  CHECK(error_with_text("[]") == "index.json: expected a JSON object, got []");
  CHECK(error_with_text("{}") == "index.json: format: missing");
  CHECK(error_with_text(R"({"step":1,"step":2})") ==
        "index.json: step: appears twice in this object");
  CHECK(error_with_text(R"({"format":"other"})") ==
        "index.json: format: expected trainyard-checkpoint, got 'other'");
  CHECK(error_with_text(R"({"format":"trainyard-checkpoint","version":2})") ==
        "index.json: version: this program reads version 1, got 2");
}

TEST_CASE("damage: an index whose contents are wrong") {
  const Subject subject;
  const auto error_after = [&](const std::function<void(json&)>& change) {
    subject.edit_index(change);
    return subject.error();
  };
  const std::string expected = "index.json: ";
  SECTION("edited by hand") {
    const std::string index = read_text(subject.path("index.json"));
    write_text(subject.path("index.json"), replaced(index, "\"samples\": 0", "\"samples\": 8"));
    CHECK(subject.error() ==
          "index.json: changed since it was written: its contents do not have its sha256");
  }
  SECTION("a gap in a tensor") {
    CHECK(error_after([](json& index) { index["tensors"]["a"]["pieces"].erase(1); }) ==
          expected + "a: 4 elements of 8 are missing");
  }
  SECTION("an overlap in a tensor") {
    CHECK(error_after([](json& index) {
            json& pieces = index["tensors"]["a"]["pieces"];
            pieces[1]["start"] = {1, 0};
            pieces[1]["key"] = "a[1:3, 0:2]";
          }) == expected + "a: a[0:2, 0:2] and a[1:3, 0:2] overlap");
  }
  SECTION("no pieces") {
    CHECK(error_after([](json& index) { index["tensors"]["b"]["pieces"] = json::array(); }) ==
          expected + "tensors.b.pieces: no piece of it is there");
  }
  SECTION("a missing tensor") {
    CHECK(error_after([](json& index) { index["tensors"].erase("b"); }) ==
          "rank-00000.safetensors: holds 2 pieces, index.json expects 1");
  }
  SECTION("a negative start") {
    CHECK(error_after([](json& index) { index["tensors"]["b"]["pieces"][0]["start"] = {-1}; }) ==
          expected + "tensors.b.pieces[0].start[0]: expected at least 0, got -1");
  }
  SECTION("a piece outside its tensor") {
    CHECK(error_after([](json& index) { index["tensors"]["b"]["pieces"][0]["start"] = {1}; }) ==
          expected + "tensors.b.pieces[0].range: b: start [1] and extent [2] leave shape [2]");
  }
  SECTION("another type") {
    CHECK(error_after([](json& index) { index["tensors"]["b"]["dtype"] = "bf16"; }) ==
          "rank-00000.safetensors: b: is F32, index.json expects bf16");
  }
  SECTION("no type") {
    CHECK(error_after([](json& index) { index["tensors"]["b"]["dtype"] = "real"; }) ==
          expected + "tensors.b.dtype: unknown type 'real'");
  }
  SECTION("another shape") {
    CHECK(error_after([](json& index) { index["tensors"]["b"]["shape"] = {1}; }) ==
          expected + "tensors.b.pieces[0].range: b: start [0] and extent [2] leave shape [1]");
  }
  SECTION("a file that it does not list") {
    CHECK(error_after([](json& index) { index["tensors"]["b"]["pieces"][0]["file"] = "x"; }) ==
          expected + "tensors.b.pieces[0].file: 'x' is not among the files");
  }
  SECTION("a file listed twice") {
    CHECK(error_after([](json& index) { index["files"].push_back(index["files"][0]); }) ==
          expected + "rank-00000.safetensors is listed twice");
  }
  SECTION("a file elsewhere") {
    CHECK(error_after([](json& index) { index["files"][0]["name"] = "../x"; }) ==
          expected + "files[0].name: expected the name of a file beside index.json, got '../x'");
  }
  SECTION("a wrong key") {
    CHECK(error_after([](json& index) { index["tensors"]["b"]["pieces"][0]["key"] = "c"; }) ==
          expected + "tensors.b.pieces[0].key: expected 'b', got 'c'");
  }
  SECTION("no step") {
    CHECK(error_after([](json& index) { index.erase("step"); }) == expected + "step: missing");
  }
  SECTION("a step that is no number") {
    CHECK(error_after([](json& index) { index["step"] = "100"; }) ==
          expected + "step: expected an integer, got \"100\"");
  }
  SECTION("state that is no object") {
    CHECK(error_after([](json& index) { index["state"] = nullptr; }) ==
          expected + "state: expected a JSON object, got null");
  }
}

TEST_CASE("damage: what is wrong in an index is said at its line") {
  const Subject subject;
  write_text(subject.path("index.json"),
             "{\n  \"format\": \"trainyard-checkpoint\",\n  \"version\": 2\n}");
  std::string what;
  try {
    Checkpoint::open(subject.path(), Verify::kStructure);
  } catch (const ConfigError& error) {
    what = error.what();
  }
  CHECK(what == subject.path("index.json") + ":3:3: version: this program reads version 1, got 2");
}

TEST_CASE("damage: a run's state of other types, under a checksum that fits") {
  const auto error_of_state = [](const std::string& state) {
    CheckpointInfo info = at_step(100);
    info.state = state;
    return error_of([&] { read_training_state(info, "index.json", {100, 65536, 0}); });
  };
  CHECK(error_of_state(training_state_json({90, 1024, 7})) == "none");
  CHECK(error_of_state(R"({"updates": 90})") == "none");  // earlier versions say no more
  CHECK(error_of_state(R"({"updates": 90, "mask_rule": 3})") ==
        "index.json: state.mask_rule: expected at most 2, got 3");
  CHECK(error_of_state("{}") ==
        "index.json: state.updates: missing: the state is not that of a training run");
  CHECK(error_of_state(R"({"updates": "ninety"})") ==
        "index.json: state.updates: expected an integer, got \"ninety\"");
  CHECK(error_of_state(R"({"updates": 101})") ==
        "index.json: state.updates: expected at most 100, got 101");
  CHECK(error_of_state(R"({"updates": 90, "loss_scale": null})") ==
        "index.json: state.loss_scale: expected a number, got null");
  CHECK(error_of_state(R"({"updates": 90, "loss_scale": -2})") ==
        "index.json: state.loss_scale: expected a number above 0 and at most 2^127, got -2");
  CHECK(error_of_state(R"({"updates": 90, "good_steps": []})") ==
        "index.json: state.good_steps: expected an integer, got []");
}

}  // namespace trainyard::damaged_checkpoint_test
