// Attention of decoders: windows, capped scores, ALiBi, norms of heads, rotary positions of parts
// of heads and of longer contexts, over random shapes. What the real executor makes of a compiled
// graph is what LibTorch's autograd makes of it, on one rank and split by heads.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "engine/graph/graph_builder.h"
#include "tests/real/exec/against_autograd.h"

namespace trainyard::attention_graphs_test {

namespace {

class RandomAttention {
 public:
  /// `plain`: nothing that a flash kernel does not take.
  RandomAttention(std::uint64_t seed, bool plain) : random_(seed), plain_(plain) {}

  Graph run() {
    GraphBuilder m("random attention", DType::kFp64);
    m.set_norm_eps(0.01);
    const bool shifted = flip();
    m.set_norm_shift(shifted ? 1 : 0);
    const AttentionShape shape = random_shape();
    const std::int64_t length = pick(4, 12), hidden = 2 * pick(2, 5);
    TensorId x = m.input("x", {1, length, hidden}, DType::kFp64);
    m.set_layer(0);
    x = m.linear("first", x, hidden, /*bias=*/false, SplitHint::kNone);
    TensorId h = flip()   ? m.rms_norm("norm", x)
                 : flip() ? m.layer_norm_without_bias("norm", x)
                          : m.layer_norm("norm", x);
    const std::int64_t width = std::int64_t{shape.heads} * shape.head_dim;
    const std::int64_t kv_width = std::int64_t{shape.kv_heads} * shape.head_dim;
    h = m.linear("qkv", h, width + 2 * kv_width, flip(), SplitHint::kColumn,
                 {.parts = {{"q", width}, {"k", kv_width}, {"v", kv_width}}});
    if (flip()) h = m.head_norm("attention", h, shape);
    if (flip()) h = m.rope("attention", h, shape);
    h = m.attention("attention", h, shape);
    h = m.linear("proj", h, hidden, flip(), SplitHint::kRow);
    x = m.add("layer", x, h);
    m.set_layer(-1);
    const TensorId target = m.input("target", {1, length, hidden}, DType::kFp64);
    return m.finish(m.mse("loss", x, target));
  }

 private:
  bool flip() { return std::bernoulli_distribution(0.5)(random_); }
  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }

  /// Heads that two ranks share.
  AttentionShape random_shape() {
    AttentionShape shape;
    shape.kv_heads = static_cast<std::int32_t>(2 * pick(1, 2));
    shape.heads = shape.kv_heads * static_cast<std::int32_t>(pick(1, 3));
    shape.head_dim = static_cast<std::int32_t>(2 * pick(1, 4));
    shape.causal = flip() || flip();
    if (flip()) shape.attended = pick(1, 8);
    if (flip() && !plain_) shape.softcap = 0.5;
    if (flip() && !plain_) shape.alibi = flip() ? 1 : 0.25;
    shape.divisor = flip() ? 1 : 0.3;
    shape.rope_base = 50;
    if (flip()) shape.rotary = 2 * pick(1, shape.head_dim / 2);
    // The original positions turn the first frequency once or more, and the last less than once.
    if (flip()) shape.rope_scaling = {.factor = 4, .low = 0.5, .high = 2, .original = 8};
    if (flip()) shape.rope_scaling.original = 0;
    return shape;
  }

  std::mt19937_64 random_;
  bool plain_;
};

constexpr std::uint64_t kSeeds = 60;
constexpr double kWithin = 1e-10;

}  // namespace

TEST_CASE("attention of decoders trains as autograd says") {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    check_against_autograd(RandomAttention(seed, false).run(), plan_of_graph(), kWithin);
  }
}

TEST_CASE("attention of decoders trains as autograd says in one kernel, windows and all") {
  Plan plan = plan_of_graph();
  plan.training.flash_attention = FlashAttention::kOn;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    check_against_autograd(RandomAttention(seed, seed % 2 == 0).run(), plan, kWithin);
  }
}

TEST_CASE("attention of decoders trains as autograd says with heads split over ranks") {
  Plan plan = plan_of_graph();
  plan.parallel.tensor = 2;
  const bool flash = GENERATE(false, true);
  if (flash) plan.training.flash_attention = FlashAttention::kOn;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed, flash);
    check_against_autograd(RandomAttention(seed, false).run(), plan, kWithin);
  }
}

TEST_CASE("attention of decoders trains as autograd says when it is computed again") {
  Plan plan = plan_of_graph();
  plan.recompute.method =
      GENERATE(RecomputeConfig::Method::kSelective, RecomputeConfig::Method::kFull);
  for (std::uint64_t seed = 0; seed < kSeeds / 2; ++seed) {
    CAPTURE(seed);
    check_against_autograd(RandomAttention(seed, false).run(), plan, kWithin);
  }
}

}  // namespace trainyard::attention_graphs_test
