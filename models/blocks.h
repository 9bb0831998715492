// What several families are made of, each block a short run of ops.
//
// Shapes: B = sequences of one microbatch, S = sequence, D = hidden, F = ffn, V = vocabulary,
// N = heads, H = head dim.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "engine/graph/graph_builder.h"
#include "models/model.h"

namespace trainyard {

/// A model under construction.
struct ModelBuilder {
  ModelBuilder(const ModelConfig& c, const BuildOptions& o)
      : graph(c.name, o.compute),
        config(c),
        options(o) {
    graph.set_norm_eps(c.norm_eps);
    graph.set_norm_shift(c.offset_norms ? 1 : 0);
  }

  GraphBuilder graph;
  const ModelConfig& config;
  const BuildOptions& options;
};

/// Standard deviations of initial weights. 0.02, and what ends a residual branch of a GPT over
/// sqrt(2 layers) (Radford et al. 2019); T5: 1 / sqrt(fan in), its queries over sqrt(head dim) more
/// (Raffel et al. 2020; Hugging Face's T5).
double input_deviation(const ModelConfig& config);
double output_deviation(const ModelConfig& config,
                        std::int64_t width);  // of a projection [D, width]
std::array<float, 3> query_key_value_deviation(const ModelConfig& config);

/// LibTorch's linear layers start uniform in +-1 / sqrt(features); of that the deviation.
double linear_deviation(std::int64_t features);

/// Data input of integers [B, length]: tokens, positions, labels.
TensorId token_input(ModelBuilder& m, std::string_view name, std::int64_t length);

/// Parameter [V, D], split by rows, padded to config.pad_vocab_to.
TensorId vocabulary_table(ModelBuilder& m, std::string_view name);

/// Looks `ids` up in a new table `module`.weight [rows, D] that every rank holds whole.
TensorId small_embedding(ModelBuilder& m, std::string_view module, TensorId ids, std::int64_t rows);

struct SelfAttention {
  bool causal = false;
  std::int32_t layer = -1;   // of a decoder, whose number decides on a window; -1: none has one
  bool scaled = true;        // scores over sqrt(H)
  double divisor = 1;        // of the scores, beside it
  TensorId mask = kNoIndex;  // padding mask [B, S]; -1: none
  TensorId bias = kNoIndex;  // trained score bias [N, S, S]; -1: none
};
AttentionShape attention_shape(const ModelBuilder& m, bool causal, bool scaled);

/// x [B,S,D] -> fused qkv projection -> attention -> output projection -> [B,S,D]. q and k are
/// normalised by head and turned where the model's are.
TensorId self_attention(ModelBuilder& m, const std::string& module, TensorId x,
                        const SelfAttention& how);

/// x [B,S,D] -> up to F (2F where gated) -> activation -> down to D.
TensorId mlp(ModelBuilder& m, const std::string& module, TensorId x, double inner_dropout = 0);

/// residual + dropout(branch): the dropout belongs to `module`, the sum to `layer`.
TensorId add_residual(ModelBuilder& m, const std::string& layer, const std::string& module,
                      TensorId residual, TensorId branch);

/// The table that turns hidden states into logits: `tokens` where tied, else `name`, a new one of
/// the training head.
TensorId output_table(ModelBuilder& m, std::string_view name, TensorId tokens);

/// Next-token loss of x [B,S,D] against the input `labels` [B,S], through output_table().
TensorId language_model_loss(ModelBuilder& m, TensorId x, TensorId tokens, double scale = 1);

}  // namespace trainyard
