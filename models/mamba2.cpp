// Mamba-2: a language model of state space layers (Dao and Gu 2024, arXiv:2405.21060;
// state-spaces/mamba's Mamba2 with one group, Hugging Face's Mamba2ForCausalLM). Each head h of a
// layer has a state of K x P numbers and does to it, token by token,
//     state <- exp(dt A) state + dt B x^T,   y = C state + D x,   A = -exp(A_log) < 0,
// with dt > 0, B and C of the token. That is not how it is computed: tokens of a chunk read each
// other by products of matrices, and chunks what those before them leave (section 6 of the paper,
// listing 1: the "minimal" form). All exponents are sums of dt A, hence <= 0, and what a token must
// not see is multiplied by 0: nothing overflows, forward or backward. How many ops there are does
// not depend on the number of tokens or chunks.
//
// Shapes: B = sequences, S = sequence, C = chunks, Q = tokens of a chunk, E = channels of all
// heads (expand x hidden), N = heads, P = channels of one, K = state size.
#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/blocks.h"
#include "models/families.h"

namespace trainyard {

namespace {

/// Triangles of ones that all layers share: made once, and named by their size.
class Triangles {
 public:
  explicit Triangles(ModelBuilder& m) : m_(m) {}

  /// [n, n]: 1 where the row is behind the column.
  TensorId behind(std::int64_t n) { return once("behind.", n, 1); }
  /// [n, n]: 1 where the row is the column, or behind it.
  TensorId from(std::int64_t n) { return once("from.", n, 0); }

 private:
  TensorId once(const char* name, std::int64_t n, std::int64_t least) {
    const auto [known, fresh] = made_.try_emplace(name + std::to_string(n));
    if (!fresh) return known->second;
    const Constant content = real_constant([n, least](std::span<double> out) {
      auto element = out.begin();
      for (std::int64_t row = 0; row < n; ++row) {
        for (std::int64_t column = 0; column < n; ++column)
          *element++ = row - column >= least ? 1 : 0;
      }
    });
    return known->second = m_.graph.constant(known->first, {n, n}, m_.options.compute, content);
  }

  ModelBuilder& m_;
  std::map<std::string, TensorId> made_;
};

/// What a layer's scan reads of every token.
struct ScanInputs {
  TensorId x;     // [B, C, Q, N, P]
  TensorId b, c;  // [B, C, Q, K]
  TensorId dt;    // [B, C, Q, N]
};

class ChunkedScan {
 public:
  ChunkedScan(ModelBuilder& m, std::string module, Triangles& triangles, const ScanInputs& inputs)
      : g_(m.graph),
        module_(std::move(module)),
        triangles_(triangles),
        in_(inputs),
        sizes_(m.graph.shape(inputs.x)),
        states_(m.graph.shape(inputs.b).back()) {}

  /// y, as x: without D x.
  TensorId run(TensorId a) {
    const TensorId steps = g_.mul(module_, in_.dt, a);  // dt A
    moved_ = g_.mul(module_, in_.x, last_dim_of_one(in_.dt));
    // What is left of each token's state at each later one of its chunk.
    const TensorId decay = products(g_.permute(module_, steps, {0, 1, 3, 2}));
    const TensorId y = within_chunks(decay);
    return sizes_[1] == 1 ? y : g_.add(module_, y, from_chunks_before(steps, decay));
  }

 private:
  TensorId last_dim_of_one(TensorId x) {
    Shape shape = g_.shape(x);
    shape.push_back(1);
    return g_.view(module_, x, shape);
  }
  TensorId chunks(TensorId x, std::int64_t first) {
    return g_.narrow(module_, x, 1, first, sizes_[1] - 1);
  }

  /// exponents [.., T] -> [.., T, T]: at row i, column j <= i e to the sum of those behind j, up to
  /// i; 1 elsewhere. Sums are taken anew from each column on: close ones stay exact.
  TensorId products(TensorId exponents) {
    const std::int64_t n = g_.shape(exponents).back();
    const TensorId each = g_.mul(module_, last_dim_of_one(exponents), triangles_.behind(n));
    const int rows = static_cast<int>(g_.shape(each).size()) - 2;
    return g_.activation(module_, OpKind::kExp, g_.cumsum(module_, each, rows));
  }

  /// Tokens read those of their chunk, as attention does, with `decay` [B, C, N, Q, Q] in place of
  /// a softmax.
  TensorId within_chunks(TensorId decay) {
    const std::int64_t tokens = sizes_[2];
    const TensorId keys = g_.permute(module_, in_.b, {0, 1, 3, 2});
    TensorId scores = g_.bmm(module_ + ".scores", in_.c, keys);
    scores = g_.mul(module_, scores, triangles_.from(tokens));
    scores = g_.view(module_, scores, {sizes_[0], sizes_[1], 1, tokens, tokens});
    const TensorId by_head = g_.permute(module_, moved_, {0, 1, 3, 2, 4});
    const TensorId y = g_.bmm(module_ + ".context", g_.mul(module_, scores, decay), by_head);
    return g_.permute(module_, y, {0, 1, 3, 2, 4});
  }

  /// What each chunk but the last leaves by itself, [B, C - 1, K, N P].
  TensorId left_states(TensorId decay) {
    const auto [batch, num_chunks, tokens, heads, channels] = extents();
    TensorId left = g_.narrow(module_, chunks(decay, 0), 3, tokens - 1, 1);
    left = g_.view(module_, left, {batch, num_chunks - 1, heads, tokens});
    left = last_dim_of_one(g_.permute(module_, left, {0, 1, 3, 2}));
    TensorId x = g_.mul(module_, chunks(moved_, 0), left);
    x = g_.view(module_, x, {batch, num_chunks - 1, tokens, heads * channels});
    const TensorId b = g_.permute(module_, chunks(in_.b, 0), {0, 1, 3, 2});
    return g_.bmm(module_ + ".states", b, x);
  }

  /// The state behind each chunk but the last, from what all up to it left: as left_states().
  TensorId states_behind(TensorId left, TensorId steps) {
    const auto [batch, num_chunks, tokens, heads, channels] = extents();
    const std::int64_t before = num_chunks - 1;
    const TensorId sums = g_.sum(module_, chunks(steps, 0), {2});  // [B, C - 1, N]
    TensorId decay = products(g_.permute(module_, sums, {0, 2, 1}));
    decay = g_.mul(module_, decay, triangles_.from(before));
    left = g_.view(module_, left, {batch, before, states_, heads, channels});
    left = g_.permute(module_, left, {0, 3, 1, 2, 4});
    left = g_.view(module_, left, {batch, heads, before, states_ * channels});
    TensorId behind = g_.bmm(module_ + ".carried", decay, left);
    behind = g_.view(module_, behind, {batch, heads, before, states_, channels});
    behind = g_.permute(module_, behind, {0, 2, 3, 1, 4});
    return g_.view(module_, behind, {batch, before, states_, heads * channels});
  }

  /// What tokens of all chunks but the first read of the chunks before theirs; the first: zeros.
  TensorId from_chunks_before(TensorId steps, TensorId decay) {
    const auto [batch, num_chunks, tokens, heads, channels] = extents();
    const TensorId behind = states_behind(left_states(decay), steps);
    TensorId y = g_.bmm(module_ + ".output", chunks(in_.c, 1), behind);
    y = g_.view(module_, y, {batch, num_chunks - 1, tokens, heads, channels});
    const TensorId since =
        g_.activation(module_, OpKind::kExp, g_.cumsum(module_, chunks(steps, 1), 2));
    y = g_.mul(module_, y, last_dim_of_one(since));
    return g_.zero_pad(module_, y, 1, 1, 0);
  }

  struct Extents {
    std::int64_t batch, chunks, tokens, heads, channels;
  };
  Extents extents() const { return {sizes_[0], sizes_[1], sizes_[2], sizes_[3], sizes_[4]}; }

  GraphBuilder& g_;
  std::string module_;
  Triangles& triangles_;
  ScanInputs in_;
  Shape sizes_;          // of x
  std::int64_t states_;  // K
  TensorId moved_;       // dt x
};

/// A number of each head, which starts with `form`; weight decay leaves it alone.
TensorId of_heads(ModelBuilder& m, const std::string& name, std::int64_t heads,
                  const ParameterForm& form) {
  return m.graph.parameter(name, {heads}, SplitHint::kNone, /*decay=*/false, 0, form);
}

/// Each channel of x [B, S, E] from the latest conv_width tokens, itself among them.
TensorId causal_convolution(ModelBuilder& m, const std::string& module, TensorId x) {
  const Shape shape = m.graph.shape(x);
  const std::int64_t width = m.config.conv_width, channels = shape[2];
  x = m.graph.permute(module, x, {0, 2, 1});
  x = m.graph.view(module, x, {shape[0], channels, 1, shape[1]});
  if (width > 1) x = m.graph.zero_pad(module, x, 3, width - 1, 0);
  x = m.graph.conv2d(
      module, x, channels,
      {.window = {1, static_cast<std::int32_t>(width)}, .groups = channels, .bias = true},
      {.deviation = linear_deviation(width)});
  x = m.graph.activation(module, OpKind::kSilu, x);
  x = m.graph.view(module, x, {shape[0], channels, shape[1]});
  return m.graph.permute(module, x, {0, 2, 1});
}

/// [B, S, D] -> [B, S, D].
TensorId mixer(ModelBuilder& m, const std::string& module, TensorId x, Triangles& triangles) {
  const ModelConfig& config = m.config;
  const std::int64_t batch = m.graph.shape(x)[0], seq_len = config.seq_len;
  const std::int64_t width = config.expand * config.hidden, states = config.state_size;
  const std::int64_t channels = config.head_dim, heads = width / channels;
  const std::int64_t tokens = std::min(config.chunk_size, seq_len), chunks = seq_len / tokens;
  GraphBuilder& g = m.graph;

  x = g.linear(module + ".in_proj", x, 2 * width + 2 * states + heads, /*bias=*/false,
               SplitHint::kNone, {.deviation = linear_deviation(config.hidden)});
  const std::int64_t projected[] = {width, width + 2 * states, heads};
  const std::vector<TensorId> made = g.split(module, x, 2, projected);
  const TensorId gate = made[0];
  const std::int64_t convolved[] = {width, states, states};
  const std::vector<TensorId> parts =
      g.split(module, causal_convolution(m, module + ".conv", made[1]), 2, convolved);
  // exp(A_log) and softplus(dt_bias) are of many orders of magnitude: heads forget after one token
  // or after hundreds. Published models draw both uniformly by their logarithms.
  const TensorId a_log = of_heads(m, module + ".A_log", heads, {.deviation = 1});
  const TensorId dt_bias = of_heads(m, module + ".dt_bias", heads, {.deviation = 3});
  const TensorId a = g.affine(module, g.activation(module, OpKind::kExp, a_log), -1);
  const TensorId dt =
      g.activation(module, OpKind::kSoftplus, g.add(module + ".dt", made[2], dt_bias));

  const ScanInputs inputs = {g.view(module, parts[0], {batch, chunks, tokens, heads, channels}),
                             g.view(module, parts[1], {batch, chunks, tokens, states}),
                             g.view(module, parts[2], {batch, chunks, tokens, states}),
                             g.view(module, dt, {batch, chunks, tokens, heads})};
  TensorId y = ChunkedScan(m, module, triangles, inputs).run(a);
  const TensorId d = of_heads(m, module + ".D", heads, {.init = Init::kOnes});
  y = g.add(module + ".skip", y, g.mul(module + ".skip", inputs.x, g.view(module, d, {heads, 1})));
  y = g.view(module, y, {batch, seq_len, width});
  y = g.mul(module + ".gate", y, g.activation(module + ".gate", OpKind::kSilu, gate));
  y = g.rms_norm(module + ".norm", y);
  const double branches = static_cast<double>(config.layers);
  return g.linear(module + ".out_proj", y, config.hidden, /*bias=*/false, SplitHint::kNone,
                  {.deviation = linear_deviation(width) / std::sqrt(branches)});
}

}  // namespace

Graph build_mamba2(const ModelConfig& config, const BuildOptions& options) {
  ModelBuilder m(config, options);
  Triangles triangles(m);
  const TensorId table = vocabulary_table(m, "embedding.tokens.weight");
  TensorId x =
      m.graph.embedding("embedding.tokens", token_input(m, "tokens", config.seq_len), table);
  for (std::int32_t i = 0; i < config.layers; ++i) {
    m.graph.set_layer(i);
    const std::string layer = "layers." + std::to_string(i);
    const TensorId normed = m.graph.rms_norm(layer + ".norm", x);
    x = m.graph.add(layer, x, mixer(m, layer + ".mixer", normed, triangles));
  }
  m.graph.set_layer(-1);
  x = m.graph.rms_norm("final_norm", x);
  return m.graph.finish(language_model_loss(m, x, table));
}

}  // namespace trainyard
