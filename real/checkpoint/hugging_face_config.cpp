// config.json for a model of ours.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "models/families.h"
#include "real/checkpoint/hugging_face_types.h"
#include "real/checkpoint/save_hugging_face.h"

namespace trainyard {

namespace {

const char* torch_name(DType dtype) {
  switch (dtype) {
    case DType::kFp64: return "float64";
    case DType::kFp32: return "float32";
    case DType::kFp16: return "float16";
    case DType::kBf16: return "bfloat16";
    default: bug("weights are of a floating-point type");
  }
}

const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::kGelu: return "gelu";
    case Activation::kGeluTanh: return "gelu_new";
    case Activation::kRelu: return "relu";
    case Activation::kSwiglu: return "gated-silu";
    case Activation::kGeglu: return "gated-gelu";
  }
  bug("an activation without a name");
}

void describe_gpt2(const ModelConfig& c, nlohmann::json& json) {
  json.update({{"architectures", {"GPT2LMHeadModel"}},
               {"model_type", "gpt2"},
               {"n_layer", c.layers},
               {"n_embd", c.hidden},
               {"n_head", c.heads},
               {"n_inner", c.ffn},
               {"n_positions", c.max_positions},
               {"activation_function", activation_name(c.activation)},
               {"layer_norm_epsilon", c.norm_eps},
               {"scale_attn_weights", c.scaled_attention},
               {"scale_attn_by_inverse_layer_idx", c.layer_scaled_attention}});
  if (c.vocab <= 50256) {  // the default, which has to be one of the tokens
    json["bos_token_id"] = nullptr;
    json["eos_token_id"] = nullptr;
  }
}

void describe_bert(const ModelConfig& c, bool is_roberta, nlohmann::json& json) {
  const char* architecture = is_roberta        ? "RobertaForMaskedLM"
                             : c.next_sentence ? "BertForPreTraining"
                                               : "BertForMaskedLM";
  json.update({{"architectures", {architecture}},
               {"model_type", is_roberta ? "roberta" : "bert"},
               {"num_hidden_layers", c.layers},
               {"hidden_size", c.hidden},
               {"num_attention_heads", c.heads},
               {"intermediate_size", c.ffn},
               {"max_position_embeddings", c.max_positions},
               {"type_vocab_size", c.token_types},
               {"hidden_act", activation_name(c.activation)},
               {"layer_norm_eps", c.norm_eps},
               {"pad_token_id", is_roberta ? 1 : 0}});
}

void describe_t5(const ModelConfig& c, nlohmann::json& json) {
  json.update({{"architectures", {"T5ForConditionalGeneration"}},
               {"model_type", "t5"},
               {"num_layers", c.layers},
               {"num_decoder_layers", c.decoder_layers},
               {"d_model", c.hidden},
               {"num_heads", c.heads},
               {"d_kv", c.head_dim},
               {"d_ff", c.ffn},
               {"n_positions", std::max(c.seq_len, c.decoder_seq_len)},
               {"relative_attention_num_buckets", c.relative_buckets},
               {"feed_forward_proj", activation_name(c.activation)},
               {"layer_norm_epsilon", c.norm_eps},
               {"is_encoder_decoder", true},
               {"decoder_start_token_id", 0}});
}

void describe_window(const ModelConfig& c, nlohmann::json& json) {
  json["use_sliding_window"] = c.attention_window > 0;
  if (c.attention_window == 0) return;
  json["sliding_window"] = c.attention_window;
  std::vector<std::string> types;
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    types.emplace_back(has_window(c, layer) ? "sliding_attention" : "full_attention");
  json["layer_types"] = types;
}

/// rope_scaling, which both versions of transformers read.
void describe_rotary(const ModelConfig& c, const char* base, nlohmann::json& json) {
  json[base] = c.rope_base;
  if (c.rope_factor == 1) return;
  nlohmann::json scaling = {{"rope_type", c.rope_original > 0 ? "llama3" : "linear"},
                            {"factor", c.rope_factor}};
  if (c.rope_original > 0) {
    scaling["low_freq_factor"] = c.rope_low;
    scaling["high_freq_factor"] = c.rope_high;
    scaling["original_max_position_embeddings"] = c.rope_original;
  }
  json["rope_scaling"] = scaling;
}

struct LlamaClass {
  const char* architecture;
  const char* model_type;
};

LlamaClass llama_class(HuggingFaceType type) {
  switch (type) {
    case HuggingFaceType::kMistral: return {"MistralForCausalLM", "mistral"};
    case HuggingFaceType::kQwen2: return {"Qwen2ForCausalLM", "qwen2"};
    case HuggingFaceType::kQwen3: return {"Qwen3ForCausalLM", "qwen3"};
    case HuggingFaceType::kGemma: return {"GemmaForCausalLM", "gemma"};
    case HuggingFaceType::kGemma2: return {"Gemma2ForCausalLM", "gemma2"};
    case HuggingFaceType::kPhi3: return {"Phi3ForCausalLM", "phi3"};
    default: return {"LlamaForCausalLM", "llama"};
  }
}

/// Which part of a head turns, so that transformers, which rounds down, comes to the same number.
double rotary_part(const ModelConfig& c) {
  if (c.rotary_dim == 0) return 1;
  const auto head_dim = static_cast<double>(c.head_dim);
  const double part = static_cast<double>(c.rotary_dim) / head_dim;
  const bool rounds_well = static_cast<std::int64_t>(head_dim * part) == c.rotary_dim;
  return rounds_well ? part : (static_cast<double>(c.rotary_dim) + 0.25) / head_dim;
}

void describe_llama(const ModelConfig& c, HuggingFaceType type, nlohmann::json& json) {
  const auto [architecture, model_type] = llama_class(type);
  json.update({{"architectures", {architecture}},
               {"model_type", model_type},
               {"num_hidden_layers", c.layers},
               {"hidden_size", c.hidden},
               {"num_attention_heads", c.heads},
               {"num_key_value_heads", c.kv_heads},
               {"head_dim", c.head_dim},
               {"intermediate_size", c.ffn},
               {"max_position_embeddings", c.seq_len},
               {"hidden_act", "silu"},
               {"rms_norm_eps", c.norm_eps}});
  describe_rotary(c, "rope_theta", json);
  switch (type) {
    case HuggingFaceType::kQwen2:
    case HuggingFaceType::kQwen3: describe_window(c, json); break;
    case HuggingFaceType::kMistral: json["sliding_window"] = c.attention_window; break;
    case HuggingFaceType::kPhi3:
      json.erase("head_dim");
      if (c.attention_window > 0) json["sliding_window"] = c.attention_window;
      json["partial_rotary_factor"] = rotary_part(c);
      json["original_max_position_embeddings"] = c.seq_len;
      if (c.vocab <= 32000) json.update({{"pad_token_id", nullptr}, {"eos_token_id", nullptr}});
      break;
    case HuggingFaceType::kGemma: json["hidden_act"] = "gelu_pytorch_tanh"; break;
    case HuggingFaceType::kGemma2:
      json["hidden_activation"] = "gelu_pytorch_tanh";
      json.erase("hidden_act");
      describe_window(c, json);
      json.erase("use_sliding_window");
      if (c.attention_window == 0) json["sliding_window"] = nullptr;
      json["attn_logit_softcapping"] = c.score_cap > 0 ? nlohmann::json(c.score_cap) : nullptr;
      json["final_logit_softcapping"] = c.logit_cap > 0 ? nlohmann::json(c.logit_cap) : nullptr;
      json["query_pre_attn_scalar"] =  // a whole number there
          c.query_scalar > 0 ? static_cast<std::int64_t>(c.query_scalar) : c.head_dim;
      break;
    default: json["attention_bias"] = c.linear_bias; json["mlp_bias"] = c.linear_bias;
  }
}

void describe_gpt_neox(const ModelConfig& c, nlohmann::json& json) {
  json.update({{"architectures", {"GPTNeoXForCausalLM"}},
               {"model_type", "gpt_neox"},
               {"num_hidden_layers", c.layers},
               {"hidden_size", c.hidden},
               {"num_attention_heads", c.heads},
               {"intermediate_size", c.ffn},
               {"max_position_embeddings", c.seq_len},
               {"hidden_act", activation_name(c.activation)},
               {"layer_norm_eps", c.norm_eps},
               {"use_parallel_residual", c.residual == Residual::kParallel},
               {"rotary_pct", rotary_part(c)}});
  describe_rotary(c, "rotary_emb_base", json);
}

void describe_falcon(const ModelConfig& c, nlohmann::json& json) {
  const bool grouped = c.kv_heads > 1 && c.kv_heads < c.heads;
  const bool is_new = grouped || c.residual == Residual::kParallel;
  json.update({{"architectures", {"FalconForCausalLM"}},
               {"model_type", "falcon"},
               {"num_hidden_layers", c.layers},
               {"hidden_size", c.hidden},
               {"num_attention_heads", c.heads},
               {"ffn_hidden_size", c.ffn},
               {"max_position_embeddings", c.seq_len},
               {"activation", activation_name(c.activation)},
               {"layer_norm_epsilon", c.norm_eps},
               {"bias", c.linear_bias},
               {"alibi", c.positions == Positions::kScaledAlibi},
               {"new_decoder_architecture", is_new},
               {"multi_query", c.kv_heads == 1},
               {"parallel_attn", c.residual != Residual::kSequential}});
  if (is_new) {
    json["num_kv_heads"] = c.kv_heads;
    json["num_ln_in_parallel_attn"] = c.residual == Residual::kParallel ? 2 : 1;
  }
  if (c.positions == Positions::kRotary) describe_rotary(c, "rope_theta", json);
}

void describe_opt(const ModelConfig& c, nlohmann::json& json) {
  json.update({{"architectures", {"OPTForCausalLM"}},
               {"model_type", "opt"},
               {"num_hidden_layers", c.layers},
               {"hidden_size", c.hidden},
               {"word_embed_proj_dim", c.hidden},
               {"num_attention_heads", c.heads},
               {"ffn_dim", c.ffn},
               {"max_position_embeddings", c.max_positions - c.position_offset},
               {"activation_function", activation_name(c.activation)},
               {"enable_bias", c.linear_bias},
               {"do_layer_norm_before", true}});
}

void describe_mpt(const ModelConfig& c, nlohmann::json& json) {
  json.update({{"architectures", {"MptForCausalLM"}},
               {"model_type", "mpt"},
               {"n_layers", c.layers},
               {"d_model", c.hidden},
               {"n_heads", c.heads},
               {"max_seq_len", c.seq_len},
               {"layer_norm_epsilon", c.norm_eps},
               {"attn_config", {{"alibi", true}}}});
}

void describe_mamba2(const ModelConfig& c, nlohmann::json& json) {
  json.update({{"architectures", {"Mamba2ForCausalLM"}},
               {"model_type", "mamba2"},
               {"num_hidden_layers", c.layers},
               {"hidden_size", c.hidden},
               {"expand", c.expand},
               {"num_heads", c.expand * c.hidden / c.head_dim},
               {"head_dim", c.head_dim},
               {"n_groups", c.groups},
               {"state_size", c.state_size},
               {"conv_kernel", c.conv_width},
               {"chunk_size", c.chunk_size},
               {"layer_norm_epsilon", c.norm_eps}});
}

/// Labels have numbers and no names.
nlohmann::json describe_vit(const ModelConfig& c) {
  return {{"architectures", {"ViTForImageClassification"}},
          {"model_type", "vit"},
          {"image_size", c.image_size},
          {"patch_size", c.patch_size},
          {"num_channels", c.channels},
          {"num_labels", c.classes},
          {"num_hidden_layers", c.layers},
          {"hidden_size", c.hidden},
          {"num_attention_heads", c.heads},
          {"intermediate_size", c.ffn},
          {"hidden_act", activation_name(c.activation)},
          {"qkv_bias", c.qkv_bias},
          {"layer_norm_eps", c.norm_eps}};
}

nlohmann::json describe_swin(const ModelConfig& c) {
  return {{"architectures", {"SwinForImageClassification"}},
          {"model_type", "swin"},
          {"image_size", c.image_size},
          {"patch_size", c.patch_size},
          {"num_channels", c.channels},
          {"num_labels", c.classes},
          {"embed_dim", c.hidden},
          {"depths", swin_stages(c.layers)},
          {"num_heads", {c.heads, 2 * c.heads, 4 * c.heads, 8 * c.heads}},
          {"window_size", c.window_size},
          {"drop_path_rate", 0.0}};
}

nlohmann::json describe_clip(const ModelConfig& c) {
  const auto tower = [&](const char* type, std::int64_t layers, std::int64_t width,
                         std::int64_t heads) {
    return nlohmann::json{{"model_type", type},
                          {"num_hidden_layers", layers},
                          {"hidden_size", width},
                          {"num_attention_heads", heads},
                          {"intermediate_size", 4 * width},
                          {"projection_dim", c.projection_dim}};
  };
  nlohmann::json text = tower("clip_text_model", c.layers, c.hidden, c.heads);
  text.update({{"vocab_size", c.vocab},
               {"max_position_embeddings", c.seq_len},
               {"pad_token_id", 1},
               {"bos_token_id", c.vocab - 2},
               {"eos_token_id", c.vocab - 1}});
  nlohmann::json image = tower("clip_vision_model", c.image_layers, c.image_hidden, c.image_heads);
  image.update(
      {{"image_size", c.image_size}, {"patch_size", c.patch_size}, {"num_channels", c.channels}});
  return {{"architectures", {"CLIPModel"}},
          {"model_type", "clip"},
          {"projection_dim", c.projection_dim},
          {"text_config", text},
          {"vision_config", image}};
}

nlohmann::json describe_resnet(const ModelConfig& c) {
  const bool bottleneck = c.depth >= kLeastBottleneckDepth;
  const std::int64_t width = kResnetChannels * c.width_factor;  // of the stem
  const std::int64_t first = bottleneck ? 4 * width : width;    // of the first stage
  return {{"architectures", {"ResNetForImageClassification"}},
          {"model_type", "resnet"},
          {"num_channels", c.channels},
          {"num_labels", c.classes},
          {"embedding_size", width},
          {"hidden_sizes", {first, 2 * first, 4 * first, 8 * first}},
          {"depths", blocks_by_stage(Family::kResnet, c.depth)},
          {"layer_type", bottleneck ? "bottleneck" : "basic"},
          {"hidden_act", "relu"}};
}

}  // namespace

std::string hugging_face_config(const ModelConfig& config, DType dtype) {
  nlohmann::json json = {{"vocab_size", config.vocab},
                         {"tie_word_embeddings", config.tied_embeddings},
                         {"torch_dtype", torch_name(dtype)}};
  const HuggingFaceType type = hugging_face_type(config);
  switch (type) {
    case HuggingFaceType::kGpt2: describe_gpt2(config, json); break;
    case HuggingFaceType::kBert:
    case HuggingFaceType::kRoberta:
      describe_bert(config, type == HuggingFaceType::kRoberta, json);
      break;
    case HuggingFaceType::kT5: describe_t5(config, json); break;
    case HuggingFaceType::kGptNeox: describe_gpt_neox(config, json); break;
    case HuggingFaceType::kFalcon:
    case HuggingFaceType::kFalconTwoNorms: describe_falcon(config, json); break;
    case HuggingFaceType::kOpt: describe_opt(config, json); break;
    case HuggingFaceType::kMpt: describe_mpt(config, json); break;
    case HuggingFaceType::kMamba2: describe_mamba2(config, json); break;
    case HuggingFaceType::kVit:
    case HuggingFaceType::kSwin:
    case HuggingFaceType::kResnet:
    case HuggingFaceType::kClip:
      json = type == HuggingFaceType::kVit    ? describe_vit(config)
             : type == HuggingFaceType::kSwin ? describe_swin(config)
             : type == HuggingFaceType::kClip ? describe_clip(config)
                                              : describe_resnet(config);
      json["torch_dtype"] = torch_name(dtype);
      break;
    case HuggingFaceType::kLlama:
    case HuggingFaceType::kMistral:
    case HuggingFaceType::kQwen2:
    case HuggingFaceType::kQwen3:
    case HuggingFaceType::kGemma:
    case HuggingFaceType::kGemma2:
    case HuggingFaceType::kPhi3: describe_llama(config, type, json); break;
  }
  return json.dump(2) + "\n";
}

}  // namespace trainyard
