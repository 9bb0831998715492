#include "models/model.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/quantity.h"
#include "engine/plan/plan_limits.h"
#include "models/families.h"

namespace trainyard {

namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 30;  // products of two sizes fit in 63 bits

using Problem = std::optional<ModelProblem>;

std::string in_range_problem(std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least) {
    return "expected at least " + std::to_string(least) + ", got " + std::to_string(value);
  }
  if (value > most) {
    return "expected at most " + std::to_string(most) + ", got " + std::to_string(value);
  }
  return {};
}

/// Every size lies in its range; which sizes a family needs (at least 1) depends on the family.
Problem find_size_problem(const ModelConfig& config) {
  const bool is_t5 = config.family == Family::kT5;
  const bool has_positions = config.family == Family::kGpt || config.family == Family::kBert;
  const struct {
    const char* key;
    std::int64_t value;
    std::int64_t least;
  } kSizes[] = {
      {"layers", config.layers, 1},
      {"decoder_layers", config.decoder_layers, is_t5 ? 1 : 0},
      {"hidden", config.hidden, 1},
      {"heads", config.heads, 1},
      {"kv_heads", config.kv_heads, 1},
      {"head_dim", config.head_dim, 1},
      {"ffn", config.ffn, 1},
      {"vocab", config.vocab, 1},
      {"seq_len", config.seq_len, 1},
      {"decoder_seq_len", config.decoder_seq_len, is_t5 ? 1 : 0},
      {"max_positions", config.max_positions, has_positions ? 1 : 0},
      {"token_types", config.token_types, config.family == Family::kBert ? 1 : 0},
      {"relative_buckets", config.relative_buckets, is_t5 ? 1 : 0},
      {"pad_vocab_to", config.pad_vocab_to, 0},
  };
  for (const auto& size : kSizes) {
    const std::string problem = in_range_problem(size.value, size.least, kMaxSize);
    if (!problem.empty()) return ModelProblem{size.key, problem};
  }
  const std::int64_t num_layers = config.layers + config.decoder_layers;
  if (num_layers > kMaxLayers) {
    return ModelProblem{"layers", in_range_problem(num_layers, 1, kMaxLayers)};
  }
  return std::nullopt;
}

/// Sizes that depend on each other agree.
Problem find_relation_problem(const ModelConfig& config) {
  const std::string seq_len = std::to_string(config.seq_len);
  if (config.heads % config.kv_heads != 0) {
    return ModelProblem{"kv_heads", std::to_string(config.kv_heads) + " does not divide heads, " +
                                        std::to_string(config.heads)};
  }
  if (config.family == Family::kT5 && config.kv_heads != config.heads) {
    return ModelProblem{"kv_heads", "t5 has as many as heads, " + std::to_string(config.heads) +
                                        ", got " + std::to_string(config.kv_heads)};
  }
  if (config.family == Family::kLlama && config.head_dim % 2 != 0) {
    return ModelProblem{"head_dim", "rotary positions turn pairs; expected an even number, got " +
                                        std::to_string(config.head_dim)};
  }
  if (config.max_positions > 0 && config.seq_len > config.max_positions) {
    return ModelProblem{"seq_len", "expected at most max_positions, " +
                                       std::to_string(config.max_positions) + ", got " + seq_len};
  }
  if (config.pad_vocab_to > 0 && config.pad_vocab_to < config.vocab) {
    return ModelProblem{"pad_vocab_to", "expected at least vocab, " + std::to_string(config.vocab) +
                                            ", got " + std::to_string(config.pad_vocab_to)};
  }
  if (config.next_sentence && config.family != Family::kBert) {
    return ModelProblem{"next_sentence", "only bert has a next-sentence head"};
  }
  return std::nullopt;
}

Problem find_attention_problem(const ModelConfig& config) {
  if (config.family != Family::kGpt &&
      (!config.scaled_attention || config.layer_scaled_attention)) {
    return ModelProblem{config.scaled_attention ? "layer_scaled_attention" : "scaled_attention",
                        "only gpt chooses how scores are scaled; leave this key out"};
  }
  const std::int64_t longest = std::max(config.seq_len, config.decoder_seq_len);
  if (config.attention_window > 0 && config.attention_window < longest) {
    return ModelProblem{"attention_window",
                        "a window of " + std::to_string(config.attention_window) +
                            " tokens is shorter than the " + std::to_string(longest) +
                            " of a sequence, which is not in this version; say a seq_len of " +
                            "at most " + std::to_string(config.attention_window)};
  }
  return std::nullopt;
}

/// Numbers of the layers, in the ranges that a study has for them.
Problem find_number_problem(const ModelConfig& config) {
  const auto outside = [](const char* key, double value, double least, double below) {
    return ModelProblem{key, "expected at least " + number_text(least) + " and less than " +
                                 number_text(below) + ", got " + number_text(value)};
  };
  if (!(config.norm_eps >= 0 && config.norm_eps < kNormEpsBelow)) {
    return outside("norm_eps", config.norm_eps, 0, kNormEpsBelow);
  }
  if (!(config.rope_base >= kLeastRotaryBase && config.rope_base < kRotaryBaseBelow)) {
    return outside("rope_base", config.rope_base, kLeastRotaryBase, kRotaryBaseBelow);
  }
  return std::nullopt;
}

void check_options(const ModelConfig& config, const BuildOptions& options) {
  const std::string problem = in_range_problem(options.microbatch, 1, kMaxSize);
  if (!problem.empty()) throw ConfigError({}, "training.microbatch", problem);
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    throw ConfigError({}, "training.dropout",
                      "expected at least 0 and below 1, got " + std::to_string(options.dropout));
  }
  if (config.family == Family::kLlama && options.dropout > 0) {
    throw ConfigError({}, "training.dropout",
                      "llama has no dropout; expected 0, got " + std::to_string(options.dropout));
  }
}

Graph build_family(const ModelConfig& config, const BuildOptions& options) {
  switch (config.family) {
    case Family::kGpt: return build_gpt(config, options);
    case Family::kBert: return build_bert(config, options);
    case Family::kT5: return build_t5(config, options);
    case Family::kLlama: return build_llama(config, options);
  }
  bug("a family without a builder");
}

}  // namespace

std::optional<ModelProblem> find_problem(const ModelConfig& config) {
  if (Problem problem = find_size_problem(config)) return problem;
  if (Problem problem = find_number_problem(config)) return problem;
  if (Problem problem = find_relation_problem(config)) return problem;
  return find_attention_problem(config);
}

Graph build_model(const ModelConfig& config, const BuildOptions& options) {
  if (const Problem problem = find_problem(config)) {
    throw ConfigError({}, "model." + problem->key, problem->problem);
  }
  check_options(config, options);
  Graph graph = build_family(config, options);
  for (const Tensor& tensor : graph.tensors) {
    if (const std::int64_t count = num_elements(tensor.shape); count > kMaxTensorElements) {
      throw ConfigError(
          {}, "model",
          tensor.name + " has " + std::to_string(count) + " elements; a tensor has at most 2^40");
    }
  }
  if (const std::string violation = find_violation(graph); !violation.empty()) bug(violation);
  return graph;
}

}  // namespace trainyard
