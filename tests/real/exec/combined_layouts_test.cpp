// Seeded combinations of everything that divides a step (tensor and sequence, pipeline and
// schedule, data, context, stages of ZeRO, groups of replicas, recomputation, activations, state
// and parameters on the host) train as one device does.
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::combined_layouts_test {

namespace {

const std::string kSgd =
    "precision: fp64, dropout: 0, optimizer: sgd, clip_norm: 0.5, lr: {peak: 0.05}, weight_decay: "
    "0";

class RandomLayout {
 public:
  explicit RandomLayout(std::uint64_t seed) : random_(seed) {}

  Sets make() {
    do {
      tensor_ = pick({1, 1, 2, 4});
      pipeline_ = pick({1, 1, 2, 4});
      data_ = pick({1, 2, 2, 4, 8});
      context_ = pick({1, 1, 1, 2});
    } while (num_ranks() < 2 || num_ranks() > 8);
    Sets sets = {"cluster.ranks=" + std::to_string(num_ranks()),
                 "parallel.tensor=" + std::to_string(tensor_),
                 "parallel.pipeline=" + std::to_string(pipeline_),
                 "parallel.data=" + std::to_string(data_), "training.microbatch=1"};
    // Sequences of 8 tokens have 2 pieces for each context rank.
    if (tensor_ > 1 && tensor_ * context_ <= 4 && below(2) == 0)
      sets.push_back("parallel.sequence_parallel=true");
    if (context_ > 1)
      sets.push_back("parallel.context={degree: 2, method: " + word({"ring", "all-gather"}) + "}");
    if (data_ * context_ > 1) sets.push_back("parallel.zero=" + zero());
    if (pipeline_ > 1) add_schedule(sets);
    const std::string recompute = word({"none", "full", "selective", "full"});
    sets.push_back("recompute=" + recompute);
    if (recompute == "full" && below(2) == 0)
      sets.push_back("offload={activations: true, horizon: " + std::to_string(below(3)) + "}");
    return sets;
  }

 private:
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }
  template <typename T>
  T one_of(const std::vector<T>& all) {
    return all[static_cast<std::uint64_t>(below(std::ssize(all)))];
  }
  int pick(const std::vector<int>& numbers) { return one_of(numbers); }
  std::string word(const std::vector<std::string>& words) { return one_of(words); }

  int num_ranks() const { return tensor_ * pipeline_ * data_ * context_; }

  std::string zero() {
    const int stage = pick({0, 1, 2, 2, 3, 3, 3, 3});
    std::string text = "{stage: " + std::to_string(stage);
    const bool replicates = stage > 0 && data_ > 1 && data_ * context_ > 2 && below(2) == 0;
    if (replicates) text += ", replicate: 2";
    if (stage > 1) text += word({"", ", reduce: last", ", reduce: each"});
    if (stage > 2) {
      text += word({"", ", prefetch: 0", ", prefetch: 2, gathers_in_flight: 3"});
      // Two neighbours are some of those that divide the parameters.
      const bool to_some = data_ * context_ / (replicates ? 2 : 1) >= 4;
      text +=
          word({"", to_some ? ", reshard_after_forward: 2" : "", ", reshard_after_forward: false"});
      text += word({"", "", ", units: ['*attention', '*.mlp']"});
    }
    if (stage > 0) {
      const std::string both = "{optimizer: host, parameters: host}";
      const std::string host = word({"", "", "", "optimizer", stage == 3 ? both : "optimizer"});
      if (!host.empty()) text += ", offload: " + host;
    }
    return text + "}";
  }

  void add_schedule(Sets& sets) {
    const std::string schedule =
        word({"1f1b", "gpipe", "zb-h1", "zb-1p", pipeline_ == 2 ? "interleaved" : "1f1b",
              pipeline_ == 2 ? "zb-v" : "zb-h1"});
    sets.push_back("schedule=" + schedule);
    if (schedule == "interleaved") sets.push_back("parallel.virtual_stages=2");
  }

  std::mt19937_64 random_;
  int tensor_ = 1, pipeline_ = 1, data_ = 1, context_ = 1;
};

void check_seeds(std::uint64_t first, std::uint64_t end, const LoopbackOptions& options) {
  for (const std::string family : {"gpt", "llama"}) {
    const std::string text = parity_study(family, kSgd);
    const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
    for (std::uint64_t seed = first; seed < end; ++seed) {
      if (seed % 2 != (family == "llama" ? 1U : 0U)) continue;
      const Sets layout = RandomLayout(seed).make();
      CAPTURE(family, seed, layout);
      check_same(one, run_loopback(text, layout, options), kFp64);
    }
  }
}

}  // namespace

TEST_CASE("combined layouts train as one device does") { check_seeds(1, 65, {.steps = 2}); }

TEST_CASE("combined layouts train over Gloo as one device does") {
  LoopbackOptions over_gloo;
  over_gloo.steps = 2;
  over_gloo.over_gloo = true;
  check_seeds(65, 73, over_gloo);
}

}  // namespace trainyard::combined_layouts_test
