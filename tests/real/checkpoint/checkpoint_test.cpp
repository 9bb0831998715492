// Writing and reading checkpoints: what is written comes back, whole or not at all.
#include "real/checkpoint/checkpoint.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "tests/real/checkpoint/checkpoint_fixture.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::checkpoint_test {

namespace {

namespace fs = std::filesystem;

const Values kValues = {{"w", {0, 1, 2, 3, 4, 5, 6, 7}}, {"b", {0.5, -0.5}}, {"t", {42}}};

Piece columns(std::int64_t begin, std::int64_t end) {
  return rectangle("w", DType::kFp32, {2, 4}, {0, begin}, {2, end - begin});
}

/// Two ranks: w by columns, the second half of it in two ranges; b and the scalar t whole.
std::vector<std::vector<Piece>> two_ranks() {
  Piece first = columns(2, 4);
  Piece second = columns(2, 4);
  first.flat_end = 3;
  second.flat_begin = 3;
  return {{columns(0, 2), second, whole_tensor("b", DType::kFp32, {2})},
          {first, whole_tensor("t", DType::kFp32, {})}};
}

CheckpointInfo info_of_step(std::int64_t step) {
  return {.step = step,
          .samples = 8 * step,
          .program_digest = "7dcb1b35",
          .study = "study.resolved.yaml",
          .seed = 18446744073709551615ULL,
          .state = R"({"loss_scale":65536.0,"rng":[1,2]})"};
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("a checkpoint gives back what was written into it") {
  const ScratchFolder scratch;
  const std::string folder = scratch / "run/checkpoints";
  write_checkpoint(folder, info_of_step(100), two_ranks(), kValues);
  CHECK(names_in(folder) == std::vector<std::string>{"step-00000100"});
  CHECK(names_in(folder + "/step-00000100") ==
        std::vector<std::string>{"index.json", "rank-00000.safetensors", "rank-00001.safetensors"});

  const Verify verify = GENERATE(Verify::kChecksums, Verify::kStructure);
  const Checkpoint checkpoint = Checkpoint::open(latest_complete(folder).value(), verify);
  CHECK(checkpoint.info() == info_of_step(100));
  CHECK(checkpoint.tensors().size() == 3);
  CHECK(checkpoint.tensors().at("w").shape == std::vector<std::int64_t>{2, 4});
  CHECK(read_floats(checkpoint, whole_tensor("w", DType::kFp32, {2, 4})) == kValues.at("w"));
  CHECK(read_floats(checkpoint, columns(1, 3)) == std::vector<float>{1, 2, 5, 6});
  CHECK(read_floats(checkpoint, whole_tensor("t", DType::kFp32, {})) == kValues.at("t"));

  std::vector<double> wide(2);
  checkpoint.read(whole_tensor("b", DType::kFp64, {2}), std::as_writable_bytes(std::span(wide)));
  CHECK(wide == std::vector<double>{0.5, -0.5});
}

TEST_CASE("a shard explains itself") {
  const ScratchFolder scratch;
  write_checkpoint(scratch.path(), info_of_step(100), two_ranks(), kValues);
  const SafetensorsFile file(scratch / "step-00000100/rank-00001.safetensors");
  CHECK(file.metadata().at("rank") == "1");
  CHECK(file.metadata().at("step") == "100");
  CHECK(file.tensors().at("w[0:2, 2:4](0:3)").shape == std::vector<std::int64_t>{3});
  const auto pieces = nlohmann::json::parse(file.metadata().at("pieces")).at("pieces");
  CHECK(pieces[0] == nlohmann::json::parse(R"({"tensor": "w", "dtype": "fp32", "shape": [2, 4],
      "start": [0, 2], "extent": [2, 2], "range": [0, 3]})"));
}

TEST_CASE("wider types lie in front of narrower ones, so that all are aligned") {
  const ScratchFolder scratch;
  begin_checkpoint(scratch.path(), 1);
  ShardWriter shard(
      scratch.path(), 1, 0,
      {whole_tensor("half", DType::kBf16, {3}), whole_tensor("w", DType::kFp32, {1}),
       whole_tensor("none", DType::kFp32, {0}), whole_tensor("d", DType::kFp64, {1})});
  std::string order;
  while (const Piece* piece = shard.next()) {
    order += piece->tensor + " ";
    const std::vector<std::byte> bytes(static_cast<std::size_t>(num_bytes(*piece)));
    shard.append(std::span(bytes).first(1));
    shard.append(std::span(bytes).subspan(1));
  }
  CHECK(order == "d w half ");
  commit_checkpoint(scratch.path(), at_step(1), std::vector{shard.finish()}, 1);
  CHECK(Checkpoint::open(scratch / "step-00000001", Verify::kChecksums).tensors().size() == 3);
}

TEST_CASE("what the checkpoint does not have is refused") {
  const ScratchFolder scratch;
  write_checkpoint(scratch.path(), info_of_step(100), two_ranks(), kValues);
  const std::string path = scratch / "step-00000100";
  const Checkpoint checkpoint = Checkpoint::open(path, Verify::kChecksums);
  const auto error = [&](const Piece& piece) {
    std::vector<std::byte> out(static_cast<std::size_t>(num_bytes(piece)));
    return error_of([&] { checkpoint.read(piece, out); });
  };
  CHECK(error(whole_tensor("x", DType::kFp32, {2})) == path + ": has no tensor x");
  CHECK(error(whole_tensor("w", DType::kFp32, {4, 2})) ==
        path + ": w: of shape [2, 4], expected [4, 2]");
  CHECK(error(whole_tensor("w", DType::kInt32, {2, 4})) == path + ": w: is fp32, expected int32");
}

TEST_CASE("the newest checkpoints are kept, drafts and half-removed ones ignored and cleared") {
  const ScratchFolder scratch;
  const std::string folder = scratch / "checkpoints";
  CHECK(latest_complete(folder) == std::nullopt);
  begin_checkpoint(folder, 50);  // and the run dies
  write_shard(folder, 50, 0, two_ranks()[0], kValues);
  CHECK(latest_complete(folder) == std::nullopt);

  for (const std::int64_t step : {100, 200, 300}) {
    write_checkpoint(folder, info_of_step(step), two_ranks(), kValues, 2);
  }
  fs::create_directory(folder + "/step-00000400");  // no index.json
  fs::create_directory(folder + "/notes");
  CHECK(names_in(folder) ==
        std::vector<std::string>{"notes", "step-00000200", "step-00000300", "step-00000400"});
  CHECK(latest_complete(folder) == folder + "/step-00000300");
}

TEST_CASE("a checkpoint of the same step replaces the one that is there") {
  const ScratchFolder scratch;
  write_checkpoint(scratch.path(), info_of_step(100), two_ranks(), kValues);
  Values changed = kValues;
  changed["t"] = {43};
  write_checkpoint(scratch.path(), info_of_step(100), two_ranks(), changed);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"step-00000100"});
  const Checkpoint checkpoint = Checkpoint::open(scratch / "step-00000100", Verify::kChecksums);
  CHECK(read_floats(checkpoint, whole_tensor("t", DType::kFp32, {})) == std::vector<float>{43});
}

TEST_CASE("resuming from an older step removes no newer checkpoint") {
  const ScratchFolder scratch;
  for (const std::int64_t step : {100, 300, 200}) {
    write_checkpoint(scratch.path(), info_of_step(step), two_ranks(), kValues, 1);
  }
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"step-00000200", "step-00000300"});
}

TEST_CASE("pieces that do not make up the tensors are not committed") {
  const ScratchFolder scratch;
  const std::string& folder = scratch.path();
  auto ranks = two_ranks();
  const auto commit = [&] { write_checkpoint(folder, info_of_step(7), ranks, kValues); };
  const std::string index = folder + "/.tmp-step-00000007/index.json: ";
  ranks[1].erase(ranks[1].begin());
  CHECK(error_of(commit) == index + "w: 3 elements before w[0:2, 2:4](3:4) are missing");
  ranks = two_ranks();
  ranks[1].push_back(whole_tensor("b", DType::kFp32, {2}));
  CHECK(error_of(commit) == index + "b: b and b overlap");
  ranks = two_ranks();
  ranks[1].push_back(columns(1, 2));
  CHECK(error_of(commit) == index + "w: w[0:2, 0:2] and w[0:2, 1:2] overlap");
  CHECK(latest_complete(folder) == std::nullopt);
}

TEST_CASE("a file that a rank announced and that is not there as announced is not committed") {
  const ScratchFolder scratch;
  const std::string& folder = scratch.path();
  begin_checkpoint(folder, 7);
  const std::vector<std::string> shards = {write_shard(folder, 7, 0, two_ranks()[0], kValues),
                                           write_shard(folder, 7, 1, two_ranks()[1], kValues)};
  const std::string path = folder + "/.tmp-step-00000007/rank-00001.safetensors";
  const auto commit = [&] { commit_checkpoint(folder, info_of_step(7), shards, 2); };
  write_text(path, "x");
  CHECK_THAT(error_of(commit), Catch::StartsWith(path + ": has 1 bytes, its rank wrote "));
  fs::remove(path);
  CHECK(error_of(commit) == path + ": cannot find what a rank wrote: No such file or directory");
  CHECK(latest_complete(folder) == std::nullopt);
}

TEST_CASE("what the system refuses is told with the path and its reason") {
  const ScratchFolder scratch;
  write_text(scratch / "file", "");
  CHECK_THROWS_AS(begin_checkpoint(scratch / "file/checkpoints", 1), BackendError);
  CHECK(error_of([&] { begin_checkpoint(scratch / "file/checkpoints", 1); }) ==
        (scratch / "file/checkpoints") + ": cannot create: Not a directory");
  CHECK(error_of([&] { ShardWriter(scratch.path(), 1, 0, two_ranks()[0]); }) ==
        "cannot write " + (scratch / ".tmp-step-00000001/rank-00000.safetensors") +
            ": No such file or directory");
}

TEST_CASE("a disk that fills up leaves no checkpoint and no part of the file") {
  const ScratchFolder scratch;
  const std::string& folder = scratch.path();
  // Stands for a full disk: no file of this process may grow beyond 2000 bytes.
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {2000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Piece piece = whole_tensor("w", DType::kFp32, {1000});
  const std::string error = error_of([&] {
    write_checkpoint(folder, info_of_step(7), {{piece}}, {{"w", std::vector<float>(1000)}});
  });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);

  CHECK(error ==
        folder + "/.tmp-step-00000007/rank-00000.safetensors: cannot write: File too large");
  CHECK(names_in(folder + "/.tmp-step-00000007").empty());
  CHECK(latest_complete(folder) == std::nullopt);
}

TEST_CASE("a copy under another name is read too") {
  const ScratchFolder scratch;
  write_checkpoint(scratch.path(), info_of_step(100), two_ranks(), kValues);
  fs::copy(scratch / "step-00000100", scratch / "best");
  CHECK(Checkpoint::open(scratch / "best/", Verify::kChecksums).info().step == 100);
}

}  // namespace trainyard::checkpoint_test
