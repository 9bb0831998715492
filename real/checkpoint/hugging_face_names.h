// What our weights are called in the transformers library, and where they lie in its tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/plan/model_config.h"

namespace trainyard {

enum class HuggingFaceType : std::uint8_t { kGpt2, kBert, kRoberta, kT5, kLlama, kQwen2 };

/// The class that holds what we train: GPT2LMHeadModel, BertForPreTraining with a next-sentence
/// head and BertForMaskedLM without, RobertaForMaskedLM, T5ForConditionalGeneration,
/// LlamaForCausalLM (Mistral's is the same but for its window), Qwen2ForCausalLM. RoBERTa is what
/// has one token type. Throws ConfigError on what no such class can be: a GPT without biases, say.
HuggingFaceType hugging_face_type(const ModelConfig& config);

/// One weight of ours in one tensor of theirs.
struct HuggingFaceWeight {
  std::string ours;                 // "decoder.layers.0.attention.k.weight"
  std::vector<std::int64_t> shape;  // of ours
  std::string theirs;               // "transformer.h.0.attn.c_attn.weight"
  bool transposed = false;          // theirs is [in, out] where ours is [out, in]
  std::int64_t first_row = 0;  // of ours among the rows that theirs stacks (before transposing)
  std::int64_t rows = 0;       // that theirs stacks
};

/// Every weight of `graph`, a graph of build_model(), at least once; what transformers keeps twice
/// is there twice, first where it is computed with. Weights stacked in one tensor follow each
/// other.
std::vector<HuggingFaceWeight> hugging_face_weights(HuggingFaceType type, const Graph& graph);

/// "transformer.", "bert.", ...: files of the base class alone have their names without it.
std::string_view base_prefix(HuggingFaceType type);

}  // namespace trainyard
