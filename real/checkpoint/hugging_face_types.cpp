#include "real/checkpoint/hugging_face_types.h"

#include <cmath>
#include <string>

#include "engine/base/error.h"

namespace trainyard {

namespace {

[[noreturn]] void refuse_model(const std::string& key, const std::string& problem) {
  throw ConfigError({}, "model." + key, problem);
}

/// Refuses a model that the library lacks: "GPT-2 with windows".
void refuse_if(bool has, const char* key, const std::string& name, const char* expected) {
  if (has) refuse_model(key, "Hugging Face has no " + name + "; expected " + expected);
}

void check_plain_mlp(const ModelConfig& c, const std::string& name) {
  if (c.activation != Activation::kGelu && c.activation != Activation::kGeluTanh &&
      c.activation != Activation::kRelu) {
    refuse_model("activation", "Hugging Face's " + name + " has no " +
                                   std::string(to_string(c.activation)) +
                                   "; expected gelu, gelu-tanh or relu");
  }
}

void check_heads(const ModelConfig& c, const std::string& name, bool grouped) {
  if (!grouped && c.kv_heads != c.heads) {
    refuse_model("kv_heads", "Hugging Face's " + name + " has as many as heads, " +
                                 std::to_string(c.heads) + ", got " + std::to_string(c.kv_heads));
  }
  if (c.head_dim * c.heads != c.hidden) {
    refuse_model("head_dim", "Hugging Face's " + name + " has hidden / heads, got " +
                                 std::to_string(c.head_dim));
  }
}

void check_gpt2_or_bert(const ModelConfig& c) {
  const std::string name = c.family == Family::kGpt ? "GPT-2" : "BERT";
  check_plain_mlp(c, name);
  if (!c.linear_bias || !c.qkv_bias) {
    refuse_model("linear_bias", "Hugging Face's " + name + " has all biases; expected true");
  }
  check_heads(c, name, false);
}

void check_t5(const ModelConfig& c) {
  if (c.activation == Activation::kGeluTanh) {
    refuse_model("activation",
                 "Hugging Face's T5 has no gelu-tanh; expected relu, gelu, geglu or swiglu");
  }
  if (c.linear_bias || c.qkv_bias) {
    refuse_model("linear_bias", "Hugging Face's T5 has no biases; expected false");
  }
}

void check_vit(const ModelConfig& c) {
  check_plain_mlp(c, "ViT");
  check_heads(c, "ViT", false);
  if (!c.linear_bias)
    refuse_model("linear_bias", "Hugging Face's ViT has biases but of q, k and v; expected true");
}

void check_swin(const ModelConfig& c) {
  if (c.norm_eps != 1e-5)
    refuse_model("norm_eps",
                 "Hugging Face's Swin has 1e-05 in some norms whatever its config.json "
                 "says; expected 1e-05");
}

// --- gpt ---

bool scales_otherwise(const ModelConfig& c) {
  return !c.scaled_attention || c.layer_scaled_attention;
}

void check_no_window_or_cap(const ModelConfig& c, const std::string& name) {
  refuse_if(c.attention_window > 0, "attention_window", name + " with windows", "0");
  refuse_if(c.score_cap > 0, "score_cap", name + " with caps", "0");
  refuse_if(c.logit_cap > 0, "logit_cap", name + " with caps", "0");
}

/// What no class of GPT's relatives has.
void check_gpt_relative(const ModelConfig& c, const std::string& name) {
  check_plain_mlp(c, name);
  refuse_if(scales_otherwise(c), "scaled_attention", name + " with other scales", "true");
  check_no_window_or_cap(c, name);
}

void check_gpt_neox(const ModelConfig& c) {
  check_gpt_relative(c, "GPT-NeoX");
  check_heads(c, "GPT-NeoX", false);
}

void check_falcon(const ModelConfig& c) {
  check_gpt_relative(c, "Falcon");
  check_heads(c, "Falcon", true);
  refuse_if(c.rotary_dim > 0, "rotary_dim", "Falcon with other rotary parts", "0");
  refuse_if(!c.norm_bias, "norm_bias", "Falcon without biases of norms", "true");
  if (c.qkv_bias != c.linear_bias)
    refuse_model("qkv_bias", "Hugging Face's Falcon has biases everywhere or nowhere; expected " +
                                 std::string(c.linear_bias ? "true" : "false"));
  const bool grouped = c.kv_heads > 1 && c.kv_heads < c.heads;
  if (grouped && c.residual == Residual::kSequential)
    refuse_model("residual",
                 "Hugging Face's Falcon with kv_heads has parallel layers; expected "
                 "parallel or parallel-one-norm");
}

void check_gpt2(const ModelConfig& c) {
  check_gpt2_or_bert(c);
  check_no_window_or_cap(c, "GPT-2");
  refuse_if(c.residual != Residual::kSequential, "residual", "GPT-2 with parallel layers",
            "sequential");
  refuse_if(!c.norm_bias, "norm_bias", "GPT-2 without biases of norms", "true");
}

void check_opt(const ModelConfig& c) {
  check_gpt_relative(c, "OPT");
  check_heads(c, "OPT", false);
  refuse_if(c.residual != Residual::kSequential, "residual", "OPT with parallel layers",
            "sequential");
  refuse_if(!c.norm_bias, "norm_bias", "OPT without biases of norms", "true");
  if (c.position_offset != 2)
    refuse_model("position_offset", "Hugging Face's OPT begins at row 2, GPT-2 at 0, got " +
                                        std::to_string(c.position_offset));
  if (c.norm_eps != 1e-5)
    refuse_model("norm_eps", "Hugging Face's OPT has 1e-05, whatever its config.json says");
  if (c.qkv_bias != c.linear_bias)
    refuse_model("qkv_bias", "Hugging Face's OPT has biases everywhere or nowhere; expected " +
                                 std::string(c.linear_bias ? "true" : "false"));
}

void check_mpt(const ModelConfig& c) {
  check_gpt_relative(c, "MPT");
  check_heads(c, "MPT", false);
  refuse_if(c.activation != Activation::kGelu, "activation", "MPT with another activation", "gelu");
  refuse_if(c.residual != Residual::kSequential, "residual", "MPT with parallel layers",
            "sequential");
  refuse_if(c.linear_bias || c.qkv_bias, "linear_bias", "MPT with biases", "false");
  refuse_if(c.norm_bias, "norm_bias", "MPT with biases of norms", "false");
  if (c.ffn != 4 * c.hidden)
    refuse_model("ffn", "Hugging Face's MPT has 4 x hidden, " + std::to_string(4 * c.hidden) +
                            ", got " + std::to_string(c.ffn));
}

HuggingFaceType gpt_type(const ModelConfig& c) {
  switch (c.positions) {
    case Positions::kLearned: break;
    case Positions::kAlibi: check_mpt(c); return HuggingFaceType::kMpt;
    case Positions::kRotary: {
      const bool neox = c.linear_bias && c.qkv_bias && c.norm_bias && c.kv_heads == c.heads &&
                        c.residual != Residual::kParallelOneNorm;
      if (!neox) break;
      check_gpt_neox(c);
      return HuggingFaceType::kGptNeox;
    }
    case Positions::kScaledAlibi: break;
  }
  if (c.positions != Positions::kLearned) {
    check_falcon(c);
    return c.residual == Residual::kParallel ? HuggingFaceType::kFalconTwoNorms
                                             : HuggingFaceType::kFalcon;
  }
  if (c.position_offset == 0) {
    check_gpt2(c);
    return HuggingFaceType::kGpt2;
  }
  check_opt(c);
  return HuggingFaceType::kOpt;
}

// --- llama ---

void check_no_biases(const ModelConfig& c, const std::string& name) {
  if (c.linear_bias || c.qkv_bias)
    refuse_model(c.linear_bias ? "linear_bias" : "qkv_bias",
                 "Hugging Face's " + name + " has no biases; expected false");
}

void check_gated(const ModelConfig& c, const std::string& name, Activation expected) {
  if (c.activation == expected) return;
  refuse_model("activation", "Hugging Face's " + name + " has " + std::string(to_string(expected)) +
                                 ", got " + std::string(to_string(c.activation)));
}

void check_no_caps(const ModelConfig& c, const std::string& name) {
  refuse_if(c.score_cap > 0, "score_cap", name + " with caps", "0");
  refuse_if(c.logit_cap > 0, "logit_cap", name + " with caps", "0");
  refuse_if(c.query_scalar > 0, "query_scalar", name + " with another scale", "0");
}

void check_no_windows(const ModelConfig& c, const std::string& name) {
  refuse_if(c.attention_window > 0, "attention_window", name + " with windows", "0");
}

/// Gemma's, of which the first has fewer of its parts.
HuggingFaceType gemma_type(const ModelConfig& c) {
  const std::string name = c.branch_norms ? "Gemma 2" : "Gemma";
  check_gated(c, name, Activation::kGeglu);
  check_no_biases(c, name);
  refuse_if(c.head_norm, "head_norm", name + " with norms of heads", "false");
  refuse_if(!c.offset_norms, "offset_norms", name + " without them", "true");
  refuse_if(!c.scaled_embedding, "scaled_embedding", name + " without it", "true");
  refuse_if(c.rotary_dim > 0, "rotary_dim", name + " with other rotary parts", "0");
  if (c.query_scalar != std::floor(c.query_scalar))
    refuse_model("query_scalar", "Hugging Face's Gemma 2 has a whole number there");
  if (c.branch_norms) return HuggingFaceType::kGemma2;
  check_no_caps(c, name);
  check_no_windows(c, name);
  return HuggingFaceType::kGemma;
}

HuggingFaceType llama_type(const ModelConfig& c) {
  if (c.branch_norms || c.offset_norms || c.scaled_embedding) return gemma_type(c);
  const bool window = c.attention_window > 0;
  const bool everywhere = c.window_from == 0 && c.window_cycle == 0;
  const bool qwen2 = c.qkv_bias && !c.linear_bias;
  const std::string name = c.head_norm ? "Qwen3" : window && !qwen2 ? "Mistral" : "Llama";
  check_gated(c, name, Activation::kSwiglu);
  check_no_caps(c, name);
  if (c.head_norm || c.rotary_dim > 0 || (window && !qwen2)) check_no_biases(c, name);
  if (c.head_norm) {
    refuse_if(c.rotary_dim > 0, "rotary_dim", "Qwen3 with other rotary parts", "0");
    return HuggingFaceType::kQwen3;
  }
  if (c.linear_bias && !c.qkv_bias) {
    refuse_model("qkv_bias",
                 "Hugging Face's Llama has biases everywhere or nowhere, Qwen2 on "
                 "query, key and value only; expected true");
  }
  if (c.rotary_dim > 0) {
    refuse_if(c.rope_factor != 1, "rope_factor", "Phi-3 with smaller angles", "1");
    refuse_if(!everywhere, "window_from", "Phi-3 with windows of some layers", "0");
    if (c.head_dim * c.heads != c.hidden) check_heads(c, "Phi-3", true);
    return HuggingFaceType::kPhi3;
  }
  if (qwen2) return HuggingFaceType::kQwen2;
  if (!window) return HuggingFaceType::kLlama;
  refuse_if(!everywhere, c.window_from > 0 ? "window_from" : "window_cycle",
            "Mistral with windows of some layers", "0");
  return HuggingFaceType::kMistral;
}

}  // namespace

HuggingFaceType hugging_face_type(const ModelConfig& config) {
  switch (config.family) {
    case Family::kGpt: return gpt_type(config);
    case Family::kBert:
      check_gpt2_or_bert(config);
      if (config.token_types != 1) return HuggingFaceType::kBert;
      if (config.next_sentence) {
        refuse_model("next_sentence",
                     "Hugging Face's RoBERTa, BERT with one token type, has no "
                     "next-sentence head; expected false");
      }
      return HuggingFaceType::kRoberta;
    case Family::kT5: check_t5(config); return HuggingFaceType::kT5;
    case Family::kLlama: return llama_type(config);
    case Family::kVit: check_vit(config); return HuggingFaceType::kVit;
    case Family::kSwin: check_swin(config); return HuggingFaceType::kSwin;
    case Family::kResnet:
      refuse_if(config.norm_eps != 1e-5, "norm_eps", "ResNet with another epsilon", "1e-5");
      return HuggingFaceType::kResnet;
    case Family::kMamba2: return HuggingFaceType::kMamba2;
    case Family::kClip:
      refuse_if(config.norm_eps != 1e-5, "norm_eps", "CLIP with another epsilon", "1e-5");
      return HuggingFaceType::kClip;
    case Family::kVgg:
    case Family::kDensenet:
    case Family::kUnet:
    case Family::kNcf:
    case Family::kOnnx:
      refuse_model("family", "weights of " + std::string(to_string(config.family)) +
                                 " have no Hugging Face form in this version");
  }
  bug("a family without a model type");
}

bool has_hugging_face_type(Family family) {
  return is_transformer_of_text(family) || family == Family::kVit || family == Family::kSwin ||
         family == Family::kResnet || family == Family::kMamba2 || family == Family::kClip;
}

std::vector<HuggingFaceType> hugging_face_types(const ModelConfig& config) {
  const HuggingFaceType type = hugging_face_type(config);
  const bool plain = !config.qkv_bias && !config.linear_bias && config.rope_factor == 1 &&
                     config.head_dim * config.heads == config.hidden;
  const bool like_phi3 = type == HuggingFaceType::kLlama || type == HuggingFaceType::kMistral;
  if (like_phi3 && plain) return {type, HuggingFaceType::kPhi3};
  return {type};
}

}  // namespace trainyard
