// What LibTorch has allocated after each call is what the Program says is alive, to the byte; and
// that never is more than the peak that the simulator reports.
#include "engine/memory/memory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/real/exec/watched_memory.h"
#include "tests/real/loopback_run.h"

namespace trainyard::memory_test {

TEST_CASE("memory in use is that of the Program's live values") {
  const std::vector<std::string> models = {
      "{family: gpt, layers: 3, hidden: 64, heads: 4, vocab: 62, seq_len: 16}",
      "{family: llama, layers: 3, hidden: 64, heads: 4, kv_heads: 2, ffn: 96, vocab: 62, seq_len: "
      "16}",
      "{family: bert, layers: 3, hidden: 64, heads: 4, vocab: 62, seq_len: 16, next_sentence: "
      "true}",
      "{family: t5, layers: 2, hidden: 64, heads: 4, head_dim: 16, ffn: 96, vocab: 150, seq_len: "
      "16, decoder_seq_len: 8}"};
  for (const std::string& model : models) {
    for (const std::string training :
         {"precision: fp32", "precision: bf16", "precision: fp32, dropout: 0, optimizer: sgd"}) {
      for (const std::string recompute : {"none", "full"}) {
        if (model.find("llama") != std::string::npos &&
            training.find("dropout") != std::string::npos)
          continue;
        CAPTURE(model, training, recompute);
        const std::string study =
            "model: " + model +
            "\ncluster: {preset: local, ranks: 1}\ntraining: {global_batch: 6, microbatch: 2, " +
            training + "}\nrecompute: " + recompute + "\ndata: {path: synthetic}\n";
        const WatchedMemory watched = watch_memory(study, {});
        CHECK(watched.live.size() == 2 * watched.run.program.body[0].calls.size());
        CHECK(watched.most <= watched.peak.total);
      }
    }
  }
}

TEST_CASE("gathered parameters are in memory while the Program says so") {
  const std::string study =
      "model: {family: gpt, layers: 3, hidden: 64, heads: 4, vocab: 62, seq_len: 16}\n"
      "cluster: {preset: local, ranks: 4}\nparallel: {data: 4}\n"
      "training: {global_batch: 16, microbatch: 2, precision: bf16}\ndata: {path: synthetic}\n";
  for (const std::string keys : {"", ", prefetch: 0", ", prefetch: 2, gathers_in_flight: 3",
                                 ", reshard_after_forward: false", ", reshard_after_forward: 2",
                                 ", reshard_after_forward: 2, prefetch: 2"}) {
    CAPTURE(keys);
    std::mutex mutex;
    std::map<std::thread::id, std::vector<std::int64_t>> live_on;  // each rank's thread
    LoopbackOptions options;
    options.watch_memory = [&](const Call&, std::int64_t, std::int64_t live) {
      const std::lock_guard lock(mutex);
      live_on[std::this_thread::get_id()].push_back(live);
    };
    const LoopbackRun run = run_loopback(study, {"parallel.zero={stage: 3" + keys + "}"}, options);
    std::vector<std::int64_t> counted;
    follow_memory(run.program, {}, [&](std::size_t, const MemoryStep& step) {
      if (step.segment != kNoIndex) counted.push_back(sum(step.after));
    });
    REQUIRE(live_on.size() == 4);
    for (auto& [thread, live] : live_on) {
      live.resize(counted.size());  // of the first step
      CHECK(live == counted);
    }
  }
}

}  // namespace trainyard::memory_test
