#include "tests/real/oracle/oracle_studies.h"

namespace trainyard {

namespace {

OracleStudy study(const std::string& name, const std::string& model,
                  const std::string& sgd_rate = "0.1", const std::string& adamw_rate = "1e-3") {
  return {name,
          "model: {" + model +
              "}\n"
              "cluster: {preset: local, ranks: 1}\n"
              "training: {global_batch: 8, microbatch: 2, precision: fp32, dropout: 0}\n"
              "data: {path: generated}\n",
          sgd_rate, adamw_rate};
}

OracleStudy plain(OracleStudy study) {
  study.plain = true;
  return study;
}

}  // namespace

// Epsilons are large where a norm's must not be mixed up with another's or with a default.
// Vocabularies are even, so that two tensor-parallel ranks need no padding.
const std::vector<OracleStudy>& oracle_studies() {
  static const std::vector<OracleStudy> kStudies = {
      study("gpt2",
            "family: gpt, layers: 2, hidden: 48, heads: 4, vocab: 90, seq_len: 24, "
            "activation: gelu-tanh, norm_eps: 0.01"),
      study("gpt-exact-gelu",
            "family: gpt, layers: 2, hidden: 32, heads: 4, ffn: 80, vocab: 70, "
            "seq_len: 24, max_positions: 40, tied_embeddings: false"),
      study("gpt-raw-scores",
            "family: gpt, layers: 2, hidden: 32, heads: 4, vocab: 70, seq_len: 24, "
            "scaled_attention: false"),
      study("gpt-layer-scores",
            "family: gpt, layers: 2, hidden: 32, heads: 4, vocab: 70, seq_len: 24, "
            "layer_scaled_attention: true"),
      study("llama-grouped",
            "family: llama, layers: 2, hidden: 48, heads: 6, kv_heads: 2, ffn: 80, "
            "vocab: 90, seq_len: 32, norm_eps: 0.01, rope_base: 500"),
      study("llama-tied",
            "family: llama, layers: 3, hidden: 32, heads: 4, head_dim: 12, ffn: 64, "
            "vocab: 70, seq_len: 24, tied_embeddings: true"),
      study("qwen2",
            "family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, vocab: 70, "
            "seq_len: 24, qkv_bias: true, norm_eps: 1e-6, rope_base: 1e6"),
      study("llama3.1",
            "family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, vocab: 70, "
            "seq_len: 32, rope_base: 50, rope_factor: 8, rope_low: 0.5, rope_high: 2, "
            "rope_original: 16"),
      study("mistral",
            "family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, vocab: 70, "
            "seq_len: 32, attention_window: 5"),
      study("qwen3",
            "family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, head_dim: 12, ffn: 64, "
            "vocab: 70, seq_len: 24, head_norm: true, norm_eps: 0.01"),
      study("gemma",
            "family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, head_dim: 12, ffn: 64, "
            "vocab: 70, seq_len: 24, activation: geglu, tied_embeddings: true, "
            "offset_norms: true, scaled_embedding: true, norm_eps: 0.01"),
      // Caps so low that they bend scores and logits, which are small here.
      study("gemma2",
            "family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, head_dim: 12, ffn: 64, "
            "vocab: 70, seq_len: 32, activation: geglu, tied_embeddings: true, "
            "offset_norms: true, scaled_embedding: true, branch_norms: true, score_cap: 2, "
            "logit_cap: 3, query_scalar: 7, attention_window: 5, window_cycle: 2"),
      study("phi3",
            "family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, vocab: 70, "
            "seq_len: 32, rotary_dim: 6, attention_window: 7"),
      study("gpt-neox",
            "family: gpt, layers: 2, hidden: 32, heads: 4, vocab: 70, seq_len: 24, "
            "positions: rotary, rotary_dim: 2, residual: parallel, tied_embeddings: false, "
            "norm_eps: 0.01"),
      study("falcon-one-norm",
            "family: gpt, layers: 2, hidden: 32, heads: 4, kv_heads: 2, vocab: 70, seq_len: 24, "
            "positions: rotary, residual: parallel-one-norm, linear_bias: false"),
      study("falcon-two-norms",
            "family: gpt, layers: 2, hidden: 32, heads: 4, kv_heads: 2, vocab: 70, seq_len: 24, "
            "positions: rotary, residual: parallel, linear_bias: false, norm_eps: 0.01"),
      // Slopes of 4 heads are exact in bf16, which transformers rounds them to.
      study("falcon-rw",
            "family: gpt, layers: 2, hidden: 32, heads: 4, vocab: 70, seq_len: 24, "
            "positions: scaled-alibi"),
      study("opt",
            "family: gpt, layers: 2, hidden: 32, heads: 4, vocab: 70, seq_len: 24, "
            "position_offset: 2, activation: relu"),
      study("mpt",
            "family: gpt, layers: 2, hidden: 48, heads: 6, vocab: 70, seq_len: 24, "
            "positions: alibi, linear_bias: false, norm_bias: false"),
      study("bert-masked", "family: bert, layers: 2, hidden: 48, heads: 4, vocab: 90, seq_len: 32"),
      study("bert-next-sentence",
            "family: bert, layers: 2, hidden: 32, heads: 4, vocab: 70, seq_len: 32, "
            "next_sentence: true, activation: gelu-tanh, norm_eps: 0.01"),
      study("roberta",
            "family: bert, layers: 2, hidden: 48, heads: 4, vocab: 90, seq_len: 32, "
            "token_types: 1, max_positions: 34, norm_eps: 1e-5, activation: gelu-tanh"),
      // The decoder is full before the encoder is: what is left of the encoder is masked.
      study("t5-relu",
            "family: t5, layers: 2, decoder_layers: 2, hidden: 32, heads: 4, head_dim: 12, "
            "ffn: 64, vocab: 90, seq_len: 40, decoder_seq_len: 8, relative_buckets: 16"),
      // And here the other way round: the end of the decoder predicts nothing.
      study("t5-gated",
            "family: t5, layers: 2, decoder_layers: 2, hidden: 32, heads: 4, head_dim: 8, "
            "ffn: 80, vocab: 90, seq_len: 48, decoder_seq_len: 32, relative_buckets: 8, "
            "activation: geglu, tied_embeddings: false, norm_eps: 0.01",
            // Its head's rows are of unit variance and nothing scales them down: steps are steep.
            "0.002", "3e-4"),
      study("vit",
            "family: vit, layers: 2, hidden: 32, heads: 4, ffn: 80, image_size: 12, "
            "patch_size: 4, classes: 6, norm_eps: 0.01"),
      plain(study("ncf", "family: ncf, layers: 2, hidden: 6, users: 30, items: 20")),
      // Four chunks of 6 tokens; heads of 12 channels with a state of 10 for each.
      plain(
          study("mamba2",
                "family: mamba2, layers: 2, hidden: 24, head_dim: 12, state_size: 10, "
                "conv_width: 3, expand: 2, chunk_size: 6, vocab: 70, seq_len: 24, norm_eps: 0.01")),
      // One chunk, shorter than it may be; a head and a step of their own.
      plain(study("mamba2-untied",
                  "family: mamba2, layers: 2, hidden: 24, head_dim: 8, state_size: 6, expand: 3, "
                  "conv_width: 1, vocab: 70, seq_len: 16, tied_embeddings: false")),
      // Two groups of heads, each with states and a norm of its own.
      plain(study("mamba2-groups",
                  "family: mamba2, layers: 2, hidden: 24, head_dim: 6, groups: 2, state_size: 5, "
                  "chunk_size: 8, vocab: 70, seq_len: 16")),
      // Two groups of 2 samples in each microbatch.
      plain(study("clip",
                  "family: clip, layers: 2, hidden: 24, heads: 4, vocab: 40, seq_len: 6, "
                  "image_layers: 2, image_hidden: 32, image_heads: 2, image_size: 12, "
                  "patch_size: 4, projection_dim: 20, contrast: 2, norm_eps: 0.01")),
      // Stages of 8, 4, 2 and 1 windows along each dim, the last of which none is moved in.
      study("swin",
            "family: swin, layers: 8, hidden: 8, heads: 2, image_size: 32, patch_size: 2, "
            "window_size: 2, classes: 6"),
  };
  return kStudies;
}

std::vector<OracleTraining> oracle_trainings(const OracleStudy& study) {
  return {{"sgd",
           {"training.optimizer=sgd", "training.lr.peak=" + study.sgd_rate,
            "training.weight_decay=0", "training.clip_norm=0"}},
          {"adamw",
           {"training.optimizer=adamw", "training.lr.peak=" + study.adamw_rate,
            "training.lr.schedule=cosine", "training.lr.warmup=4",
            "training.steps=" + std::to_string(kOracleSteps), "training.weight_decay=0.1",
            "training.clip_norm=1"}}};
}

std::vector<std::string> short_precisions(const OracleStudy& study) {
  if (study.name == "t5-gated") return {"fp16"};
  const bool both = study.name == "gpt-exact-gelu" || study.name == "llama-tied";
  return both ? std::vector<std::string>{"bf16", "fp16"} : std::vector<std::string>{};
}

}  // namespace trainyard
