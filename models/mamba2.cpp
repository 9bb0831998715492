// Mamba-2: a language model of state space layers (Dao and Gu 2024, arXiv:2405.21060;
// state-spaces/mamba's Mamba2). Each head h of a layer has a state of K x P numbers and does to it,
// token by token,
//     state <- exp(dt A) state + dt B x^T,   y = C state + D x,   A = -exp(A_log) < 0,
// with dt > 0, and B and C of the token and of the head's group. One op computes that by chunks of
// tokens, and saves what it reads alone, as mamba_ssm's kernels do. As there, the norm behind is of
// each group by itself, and ranks of tensor parallelism have whole groups.
//
// Shapes: B = sequences, S = sequence, E = channels of all heads (expand x hidden), N = heads, P =
// channels of one, G = groups, K = state size.
#include <cmath>
#include <span>
#include <string>

#include "models/blocks.h"
#include "models/families.h"

namespace trainyard {

namespace {

/// A number of each head, which starts with `form`; weight decay leaves it alone.
TensorId of_heads(ModelBuilder& m, const std::string& name, std::int64_t heads,
                  const ParameterForm& form) {
  return m.graph.parameter(name, {heads}, SplitHint::kNone, /*decay=*/false, 0, form);
}

/// Rows of a weight that ranks split each by itself: of so many each, drawn alike.
ParameterForm in_runs(std::span<const std::int64_t> sizes, double deviation) {
  ParameterForm form{.deviation = deviation};
  for (const std::int64_t rows : sizes)
    form.parts.push_back({"", rows, static_cast<float>(deviation)});
  return form;
}

StateSpaceShape space_of(const ModelConfig& config) {
  StateSpaceShape space;
  space.heads = static_cast<std::int32_t>(config.expand * config.hidden / config.head_dim);
  space.groups = static_cast<std::int32_t>(config.groups);
  space.head_dim = static_cast<std::int32_t>(config.head_dim);
  space.states = static_cast<std::int32_t>(config.state_size);
  space.chunk = static_cast<std::int32_t>(config.chunk_size);
  return space;
}

/// [B, S, D] -> [B, S, D].
TensorId mixer(ModelBuilder& m, const std::string& module, TensorId x) {
  const ModelConfig& config = m.config;
  const StateSpaceShape space = space_of(config);
  const std::int64_t width = config.expand * config.hidden, heads = space.heads;
  const std::int64_t read = config.groups * config.state_size;
  GraphBuilder& g = m.graph;
  const bool splits = config.groups > 1;  // ranks have whole groups

  const std::int64_t projected[] = {width, width, read, read, heads};
  x = g.linear(module + ".in_proj", x, 2 * width + 2 * read + heads, /*bias=*/false,
               splits ? SplitHint::kColumn : SplitHint::kNone,
               in_runs(projected, linear_deviation(config.hidden)));
  const auto [z, all, dt] = g.split_projection(module, x, space);
  const TensorId gate = g.activation(module + ".gate", OpKind::kSilu, z);
  const std::int64_t convolved[] = {width, read, read};
  const TensorId made = g.causal_conv1d(module + ".conv", all, config.conv_width,
                                        in_runs(convolved, linear_deviation(config.conv_width)));
  const auto [of_heads_x, b, c] = g.split_convolved(module + ".conv", made, space);
  // exp(A_log) and softplus(dt_bias) are of many orders of magnitude: heads forget after one token
  // or after hundreds. Published models draw both uniformly by their logarithms.
  const TensorId a_log = of_heads(m, module + ".A_log", heads, {.deviation = 1});
  const TensorId dt_bias = of_heads(m, module + ".dt_bias", heads, {.deviation = 3});
  const TensorId d = of_heads(m, module + ".D", heads, {.init = Init::kOnes});
  TensorId y = g.chunk_scan(module + ".scan", {of_heads_x, dt, b, c, a_log, dt_bias, d}, space);
  y = g.mul(module + ".gate", y, gate);
  y = g.rms_norm_of_groups(module + ".norm", y, config.groups);
  const double branches = static_cast<double>(config.layers);
  return g.linear(module + ".out_proj", y, config.hidden, /*bias=*/false,
                  splits ? SplitHint::kRow : SplitHint::kNone,
                  {.deviation = linear_deviation(width) / std::sqrt(branches)});
}

}  // namespace

Graph build_mamba2(const ModelConfig& config, const BuildOptions& options) {
  ModelBuilder m(config, options);
  const TensorId table = vocabulary_table(m, "embedding.tokens.weight");
  TensorId x =
      m.graph.embedding("embedding.tokens", token_input(m, "tokens", config.seq_len), table);
  for (std::int32_t i = 0; i < config.layers; ++i) {
    m.graph.set_layer(i);
    const std::string layer = "layers." + std::to_string(i);
    const TensorId normed = m.graph.rms_norm(layer + ".norm", x);
    x = m.graph.add(layer, x, mixer(m, layer + ".mixer", normed));
  }
  m.graph.set_layer(-1);
  x = m.graph.rms_norm("final_norm", x);
  return m.graph.finish(language_model_loss(m, x, table));
}

}  // namespace trainyard
