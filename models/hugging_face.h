// A model's architecture from the config.json that Hugging Face publishes beside its weights.
// Keys that the file leaves out take the defaults of the transformers library for its model_type.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/model_config.h"

namespace trainyard {

struct HuggingFaceModel {
  ModelConfig config;                 // seq_len: the longest that the model is made for
  std::vector<std::string> warnings;  // what the file asks for and the graph leaves out
};

/// model_type is gpt2, bert, roberta, t5, llama, mistral, qwen2, qwen3, gemma, gemma2, phi3,
/// gpt_neox, falcon, opt, mpt, vit, swin or resnet. Anything that cannot be read or
/// built throws ConfigError with the file, the place and the key.
HuggingFaceModel read_hugging_face_config(const std::string& path);
HuggingFaceModel parse_hugging_face_config(const std::string& text, const std::string& file_name);

/// Throws ConfigError at the key of the file that says `key` of the study's model.
[[noreturn]] void fail_in_hugging_face_config(const std::string& path, const std::string& key,
                                              const std::string& problem);

}  // namespace trainyard
