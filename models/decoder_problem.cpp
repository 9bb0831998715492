#include "models/decoder_problem.h"

#include <algorithm>
#include <string>

#include "engine/base/quantity.h"
#include "engine/plan/plan_limits.h"

namespace trainyard {

namespace {

using Problem = std::optional<ModelProblem>;

/// What is said of a model of a family that has no such thing.
Problem find_foreign_number(const ModelConfig& c) {
  const bool gpt = c.family == Family::kGpt, llama = c.family == Family::kLlama;
  const bool rotary = is_rotary(c);
  const struct {
    const char* key;
    bool said, belongs;
    const char* whose;
  } kNumbers[] = {
      {"positions", c.positions != Positions::kLearned, gpt, "gpt chooses how it knows positions"},
      {"position_offset", c.position_offset != 0, gpt, "gpt has a first row of its positions"},
      {"residual", c.residual != Residual::kSequential, gpt, "gpt has parallel layers"},
      {"norm_bias", !c.norm_bias, gpt, "gpt leaves out biases of layer norms"},
      {"query_scalar", c.query_scalar != 0, llama, "llama chooses by what scores are divided"},
      {"head_norm", c.head_norm, llama, "llama normalises heads"},
      {"offset_norms", c.offset_norms, llama, "llama adds 1 to the weights of norms"},
      {"branch_norms", c.branch_norms, llama, "llama has norms behind attention and MLP"},
      {"scaled_embedding", c.scaled_embedding, llama, "llama scales embeddings"},
      {"score_cap", c.score_cap != 0, gpt || llama, "gpt and llama cap scores"},
      {"logit_cap", c.logit_cap != 0, gpt || llama, "gpt and llama cap logits"},
      {"window_from", c.window_from != 0, gpt || llama, "gpt and llama have windows"},
      {"window_cycle", c.window_cycle != 0, gpt || llama, "gpt and llama have windows"},
      {"rotary_dim", c.rotary_dim != 0, rotary, "models with rotary positions have it"},
      {"rope_factor", c.rope_factor != 1, rotary, "models with rotary positions have it"},
      {"rope_original", c.rope_original != 0, rotary, "models with rotary positions have it"},
  };
  for (const auto& number : kNumbers) {
    if (number.said && !number.belongs)
      return ModelProblem{number.key, std::string("only ") + number.whose + "; leave this key out"};
  }
  return std::nullopt;
}

Problem find_range_problem(const ModelConfig& c) {
  const struct {
    const char* key;
    double value, least, below;
  } kNumbers[] = {
      {"query_scalar", c.query_scalar, 0, kDecoderNumberBelow},
      {"score_cap", c.score_cap, 0, kDecoderNumberBelow},
      {"logit_cap", c.logit_cap, 0, kDecoderNumberBelow},
      {"rope_factor", c.rope_factor, 1, kDecoderNumberBelow},
      {"rope_low", c.rope_low, 0, kDecoderNumberBelow},
      {"rope_high", c.rope_high, 0, kDecoderNumberBelow},
      {"window_from", static_cast<double>(c.window_from), 0, double{kMaxLayers} + 1},
      {"window_cycle", static_cast<double>(c.window_cycle), 0, double{kMaxLayers} + 1},
      {"rotary_dim", static_cast<double>(c.rotary_dim), 0, double{kMaxModelNumber} + 1},
      {"rope_original", static_cast<double>(c.rope_original), 0, double{kMaxModelNumber} + 1},
      {"position_offset", static_cast<double>(c.position_offset), 0, double{kMaxModelNumber} + 1},
  };
  for (const auto& number : kNumbers) {
    if (number.value >= number.least && number.value < number.below) continue;
    return ModelProblem{number.key, "expected at least " + number_text(number.least) +
                                        " and less than " + number_text(number.below) + ", got " +
                                        number_text(number.value)};
  }
  return std::nullopt;
}

Problem find_rotary_problem(const ModelConfig& c) {
  if (!is_rotary(c)) return std::nullopt;
  const std::string head_dim = std::to_string(c.head_dim);
  if (c.rotary_dim == 0 && c.head_dim % 2 != 0)
    return ModelProblem{"head_dim",
                        "rotary positions turn pairs; expected an even number, got " + head_dim};
  if (c.rotary_dim % 2 != 0)
    return ModelProblem{"rotary_dim", "rotary positions turn pairs; expected an even number, got " +
                                          std::to_string(c.rotary_dim)};
  if (c.rotary_dim > c.head_dim)
    return ModelProblem{"rotary_dim", "expected at most head_dim, " + head_dim + ", got " +
                                          std::to_string(c.rotary_dim)};
  if (c.rope_original > 0 && c.rope_high <= c.rope_low)
    return ModelProblem{"rope_high", "expected more than rope_low, " + number_text(c.rope_low) +
                                         ", got " + number_text(c.rope_high)};
  return std::nullopt;
}

Problem find_position_problem(const ModelConfig& c) {
  if (c.family != Family::kGpt) return std::nullopt;
  const bool learned = c.positions == Positions::kLearned;
  if (!learned && c.max_positions > 0)
    return ModelProblem{"max_positions", "only learned positions have a table; expected 0, got " +
                                             std::to_string(c.max_positions)};
  if (!learned && c.position_offset > 0)
    return ModelProblem{"position_offset", "only learned positions have a table; expected 0, got " +
                                               std::to_string(c.position_offset)};
  if (learned && c.seq_len + c.position_offset > c.max_positions)
    return ModelProblem{
        "seq_len", "expected at most max_positions" +
                       std::string(c.position_offset > 0 ? " less position_offset" : "") + ", " +
                       std::to_string(c.max_positions - c.position_offset) + ", got " +
                       std::to_string(c.seq_len)};
  return std::nullopt;
}

/// Only what comes before a token can be out of its window.
Problem find_window_problem(const ModelConfig& c) {
  const std::int64_t longest = std::max(c.seq_len, c.decoder_seq_len);
  if (c.attention_window == 0) {
    const bool says = c.window_from != 0 || c.window_cycle != 0;
    if (!says) return std::nullopt;
    return ModelProblem{c.window_from != 0 ? "window_from" : "window_cycle",
                        "says which layers have the window, and attention_window is 0: none has"};
  }
  if (c.family == Family::kGpt || c.family == Family::kLlama || c.attention_window >= longest)
    return std::nullopt;
  return ModelProblem{
      "attention_window",
      "a window of " + std::to_string(c.attention_window) + " tokens is shorter than the " +
          std::to_string(longest) +
          " of a sequence, which only gpt and llama have; say a seq_len of at most " +
          std::to_string(c.attention_window)};
}

}  // namespace

std::optional<ModelProblem> find_decoder_problem(const ModelConfig& config) {
  for (const auto find : {find_foreign_number, find_range_problem, find_rotary_problem,
                          find_position_problem, find_window_problem}) {
    if (Problem problem = find(config)) return problem;
  }
  return std::nullopt;
}

}  // namespace trainyard
