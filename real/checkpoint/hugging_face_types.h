// Which classes of the transformers library hold a model of ours.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/model_config.h"

namespace trainyard {

enum class HuggingFaceType : std::uint8_t {
  kGpt2,
  kBert,
  kRoberta,
  kT5,
  kLlama,
  kMistral,
  kQwen2,
  kQwen3,
  kGemma,
  kGemma2,
  kPhi3,
  kGptNeox,
  kFalcon,
  kFalconTwoNorms,  // the same class, with a norm for attention and one for the MLP
  kOpt,
  kMpt,
  kMamba2,
  kVit,
  kSwin,
  kResnet,
  kClip
};

/// The class that holds what we train: GPT2LMHeadModel, BertForPreTraining with a next-sentence
/// head and BertForMaskedLM without, RobertaForMaskedLM, T5ForConditionalGeneration,
/// LlamaForCausalLM, MistralForCausalLM with a window, Qwen2ForCausalLM, and so on,
/// Mamba2ForCausalLM, ViTForImageClassification, SwinForImageClassification, CLIPModel. RoBERTa is
/// what has one token type. Throws ConfigError on what no such class can be: a GPT without biases,
/// say.
HuggingFaceType hugging_face_type(const ModelConfig& config);

/// Whether models of the family have such a class.
bool has_hugging_face_type(Family family);

/// That class, and others whose files may hold the same model under other names: Phi-3's.
std::vector<HuggingFaceType> hugging_face_types(const ModelConfig& config);

}  // namespace trainyard
