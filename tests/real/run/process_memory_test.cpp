// The memory of a rank's process is that of its shard while it is initialised, and what the
// Program, the declared workspaces and a few named parts add up to while it trains.
#include <unistd.h>

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/real/run/training_folder.h"
#include "tests/support/cpu_features.h"

namespace trainyard::process_memory_test {

namespace {

constexpr std::int64_t kMB = 1'000'000;

using Figures = std::map<std::string, std::int64_t>;

Figures figures(const std::string& text) {
  Figures out;
  std::istringstream in(text);
  std::string name;
  std::int64_t bytes = 0;
  while (in >> name >> bytes) out[name] = bytes;
  return out;
}

}  // namespace

TEST_CASE("while it is initialised a rank holds its shard, never the model") {
  // 12 layers of width 512 and 8,192 tokens: 42 M weights, 504 MB with the moments; a rank of
  // tensor 2 x pipeline 2 has about a quarter.
  const TrainingFolder folder;
  write_text(folder.path("model.yaml"),
             "model: {family: gpt, layers: 12, hidden: 512, heads: 8, vocab: 8192, seq_len: 32}\n"
             "cluster: {preset: local, ranks: 4}\nparallel: {tensor: 2, pipeline: 2}\n"
             "training: {global_batch: 2, microbatch: 1, dropout: 0, precision: fp32}\ndata: "
             "{path: synthetic}\n");
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      const std::string number = std::to_string(rank);
      const std::string command =
          "RANK=" + number + " WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=" +
          std::to_string(20002 + getpid() % 12000) + " " + RANK_MEMORY + " initialise " +
          folder.path("model.yaml") + " " + folder.path("run") + " > " + folder.path(number);
      CHECK(std::system(command.c_str()) == 0);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  std::int64_t whole = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const Figures memory = figures(read_text(folder.path(std::to_string(rank))));
    CAPTURE(rank, memory);
    const std::int64_t shard = memory.at("shard");
    CHECK(memory.at("initialised.peak") <= memory.at("loaded.resident") + shard + 100 * kMB);
    CHECK(memory.at("initialised.peak") >=
          memory.at("loaded.resident") + shard / 2);  // it measures something
    CHECK(shard + 100 * kMB < 400 * kMB);
    whole += shard;
  }
  CHECK(whole > 500 * kMB);  // norms and tied embeddings are on several ranks
}

TEST_CASE("the peak of a process is explained") {
#ifdef __SANITIZE_ADDRESS__
  WARN("not looked at: AddressSanitizer has a heap of its own, and keeps what is freed");
  return;
#endif
  const TrainingFolder folder;
  write_text(folder.path("model.yaml"),
             "model: {family: gpt, layers: 6, hidden: 512, heads: 8, vocab: 4096, seq_len: 128}\n"
             "cluster: {preset: local, ranks: 1}\ndata: {path: synthetic}\n"
             "training: {global_batch: 8, microbatch: 4, dropout: 0, precision: fp32, steps: 3}\n");
  std::vector<std::string> precisions = {"fp32"};
  if (has_avx512()) {
    precisions.emplace_back("bf16");
  } else {
    WARN("not looked at in bf16: without AVX-512 it takes minutes");
  }
  for (const std::string& precision : precisions) {
    const Answer answer =
        folder.shell(std::string(RANK_MEMORY) + " train " + folder.path("model.yaml") + " " +
                     folder.path(precision) + " training.precision=" + precision);
    CAPTURE(answer.err, answer.out);
    REQUIRE(answer.exit == 0);
    const Figures memory = figures(answer.out);
    // The live values at their peak are the Program's, and no op adds more than it declares.
    CHECK(memory.at("declared") >= memory.at("program"));
    const std::int64_t code = memory.at("trained.files") - memory.at("loaded.files");
    const std::int64_t heap = memory.at("trained.heap") - memory.at("loaded.heap");
    const std::int64_t explained =
        memory.at("loaded.resident") + memory.at("declared") + memory.at("retained") + code + heap;
    CAPTURE(explained, code, heap);
    CHECK(std::abs(static_cast<double>(memory.at("trained.peak") - explained)) <
          0.05 * static_cast<double>(memory.at("trained.peak")));
    CHECK(memory.at("retained") <= memory.at("program") / 6);
    // Once a step has been run, the next asks the system for nothing: fewer pages than half a
    // megabyte has.
    CHECK(memory.at("faults") < 128);
    // A checkpoint is written from the tensors as they are.
    CHECK(memory.at("saved.peak") <= memory.at("trained.peak") + 10 * kMB);
  }
}

}  // namespace trainyard::process_memory_test
