// From a config.json of a model type to a model's numbers; each starts from the defaults of
// transformers.
#pragma once

#include "engine/plan/model_config.h"
#include "models/json_object.h"

namespace trainyard {

// hugging_face_gpt.cpp
ModelConfig read_gpt2(const JsonObject& json);
ModelConfig read_gpt_neox(const JsonObject& json);
ModelConfig read_falcon(const JsonObject& json);
ModelConfig read_opt(const JsonObject& json);
ModelConfig read_mpt(const JsonObject& json);

// hugging_face_llama.cpp
ModelConfig read_llama(const JsonObject& json);
ModelConfig read_mistral(const JsonObject& json);
ModelConfig read_qwen2(const JsonObject& json);
ModelConfig read_qwen3(const JsonObject& json);
ModelConfig read_gemma(const JsonObject& json);
ModelConfig read_gemma2(const JsonObject& json);
ModelConfig read_phi3(const JsonObject& json);

// hugging_face_mamba2.cpp, hugging_face_clip.cpp
ModelConfig read_mamba2(const JsonObject& json);
ModelConfig read_clip(const JsonObject& json);

// hugging_face_images.cpp
ModelConfig read_vit(const JsonObject& json);
ModelConfig read_swin(const JsonObject& json);
ModelConfig read_resnet(const JsonObject& json);

}  // namespace trainyard
