#include "real/checkpoint/hugging_face_tables.h"

#include "engine/base/error.h"
#include "real/checkpoint/hugging_face_names.h"

namespace trainyard {

namespace {

using Row = NameRow;

/// A table that theirs has as a batch of one.
constexpr Row boxed(std::string_view ours, std::string_view theirs) {
  return {ours, theirs, false, false, false, true};
}

/// Theirs lacks a dim of ours.
constexpr Row lacking(std::string_view ours, std::string_view theirs, std::int8_t dim,
                      double offset = 0) {
  Row row{ours, theirs};
  row.lacks = dim;
  row.offset = offset;
  return row;
}

/// A part of a weight that theirs holds by groups.
constexpr Row by_group(std::string_view ours, std::string_view theirs) {
  return {ours, theirs, false, false, true};
}

/// One of q, k and v, which ours holds head by head.
constexpr Row of_heads(std::string_view ours, std::string_view theirs, std::int8_t which) {
  Row row{ours, theirs};
  row.of_heads = which;
  return row;
}

constexpr Row kGpt2[] = {
    {"embedding.tokens", "transformer.wte"},
    {"embedding.positions", "transformer.wpe"},
    {"decoder.layers.*.norm_1", "transformer.h.*.ln_1"},
    // Conv1D: weights are [in, out]; c_attn is q, k and v beside each other.
    {"decoder.layers.*.attention.q", "transformer.h.*.attn.c_attn", true},
    {"decoder.layers.*.attention.k", "transformer.h.*.attn.c_attn", true},
    {"decoder.layers.*.attention.v", "transformer.h.*.attn.c_attn", true},
    {"decoder.layers.*.attention.proj", "transformer.h.*.attn.c_proj", true},
    {"decoder.layers.*.norm_2", "transformer.h.*.ln_2"},
    {"decoder.layers.*.mlp.fc1", "transformer.h.*.mlp.c_fc", true},
    {"decoder.layers.*.mlp.fc2", "transformer.h.*.mlp.c_proj", true},
    {"decoder.final_norm", "transformer.ln_f"},
    {"lm_head", "lm_head"},  // nn.Linear
};

constexpr Row kBert[] = {
    {"embedding.tokens", "bert.embeddings.word_embeddings"},
    {"embedding.token_types", "bert.embeddings.token_type_embeddings"},
    {"embedding.positions", "bert.embeddings.position_embeddings"},
    {"embedding.norm", "bert.embeddings.LayerNorm"},
    {"encoder.layers.*.attention.q", "bert.encoder.layer.*.attention.self.query"},
    {"encoder.layers.*.attention.k", "bert.encoder.layer.*.attention.self.key"},
    {"encoder.layers.*.attention.v", "bert.encoder.layer.*.attention.self.value"},
    {"encoder.layers.*.attention.proj", "bert.encoder.layer.*.attention.output.dense"},
    {"encoder.layers.*.norm_1", "bert.encoder.layer.*.attention.output.LayerNorm"},
    {"encoder.layers.*.mlp.fc1", "bert.encoder.layer.*.intermediate.dense"},
    {"encoder.layers.*.mlp.fc2", "bert.encoder.layer.*.output.dense"},
    {"encoder.layers.*.norm_2", "bert.encoder.layer.*.output.LayerNorm"},
    {"pooler", "bert.pooler.dense"},
    {"mlm_head.dense", "cls.predictions.transform.dense"},
    {"mlm_head.norm", "cls.predictions.transform.LayerNorm"},
    {"mlm_head.bias", "cls.predictions.decoder.bias", false, /*untied=*/true},
    {"mlm_head.bias", "cls.predictions.bias"},
    {"mlm_head.weight", "cls.predictions.decoder.weight"},
    {"next_sentence_head", "cls.seq_relationship"},
};

constexpr Row kRoberta[] = {
    {"embedding.tokens", "roberta.embeddings.word_embeddings"},
    {"embedding.token_types", "roberta.embeddings.token_type_embeddings"},
    {"embedding.positions", "roberta.embeddings.position_embeddings"},
    {"embedding.norm", "roberta.embeddings.LayerNorm"},
    {"encoder.layers.*.attention.q", "roberta.encoder.layer.*.attention.self.query"},
    {"encoder.layers.*.attention.k", "roberta.encoder.layer.*.attention.self.key"},
    {"encoder.layers.*.attention.v", "roberta.encoder.layer.*.attention.self.value"},
    {"encoder.layers.*.attention.proj", "roberta.encoder.layer.*.attention.output.dense"},
    {"encoder.layers.*.norm_1", "roberta.encoder.layer.*.attention.output.LayerNorm"},
    {"encoder.layers.*.mlp.fc1", "roberta.encoder.layer.*.intermediate.dense"},
    {"encoder.layers.*.mlp.fc2", "roberta.encoder.layer.*.output.dense"},
    {"encoder.layers.*.norm_2", "roberta.encoder.layer.*.output.LayerNorm"},
    {"mlm_head.dense", "lm_head.dense"},
    {"mlm_head.norm", "lm_head.layer_norm"},
    {"mlm_head.bias", "lm_head.decoder.bias", false, /*untied=*/true},
    {"mlm_head.bias", "lm_head.bias"},
    {"mlm_head.weight", "lm_head.decoder.weight"},
};

constexpr Row kT5[] = {
    {"embedding.tokens", "shared"},
    {"encoder.layers.*.norm_1", "encoder.block.*.layer.0.layer_norm"},
    {"encoder.layers.*.self_attention.q", "encoder.block.*.layer.0.SelfAttention.q"},
    {"encoder.layers.*.self_attention.k", "encoder.block.*.layer.0.SelfAttention.k"},
    {"encoder.layers.*.self_attention.v", "encoder.block.*.layer.0.SelfAttention.v"},
    {"encoder.layers.*.self_attention.proj", "encoder.block.*.layer.0.SelfAttention.o"},
    {"encoder.layers.*.self_attention.relative_bias",
     "encoder.block.*.layer.0.SelfAttention.relative_attention_bias"},
    {"encoder.layers.*.norm_2", "encoder.block.*.layer.1.layer_norm"},
    {"encoder.layers.*.mlp.fc1", "encoder.block.*.layer.1.DenseReluDense.wi"},
    {"encoder.layers.*.mlp.gate", "encoder.block.*.layer.1.DenseReluDense.wi_0"},  // activated
    {"encoder.layers.*.mlp.up", "encoder.block.*.layer.1.DenseReluDense.wi_1"},
    {"encoder.layers.*.mlp.fc2", "encoder.block.*.layer.1.DenseReluDense.wo"},
    {"encoder.layers.*.mlp.down", "encoder.block.*.layer.1.DenseReluDense.wo"},
    {"encoder.final_norm", "encoder.final_layer_norm"},
    {"decoder.layers.*.norm_1", "decoder.block.*.layer.0.layer_norm"},
    {"decoder.layers.*.self_attention.q", "decoder.block.*.layer.0.SelfAttention.q"},
    {"decoder.layers.*.self_attention.k", "decoder.block.*.layer.0.SelfAttention.k"},
    {"decoder.layers.*.self_attention.v", "decoder.block.*.layer.0.SelfAttention.v"},
    {"decoder.layers.*.self_attention.proj", "decoder.block.*.layer.0.SelfAttention.o"},
    {"decoder.layers.*.self_attention.relative_bias",
     "decoder.block.*.layer.0.SelfAttention.relative_attention_bias"},
    {"decoder.layers.*.norm_2", "decoder.block.*.layer.1.layer_norm"},
    {"decoder.layers.*.cross_attention.q", "decoder.block.*.layer.1.EncDecAttention.q"},
    {"decoder.layers.*.cross_attention.k", "decoder.block.*.layer.1.EncDecAttention.k"},
    {"decoder.layers.*.cross_attention.v", "decoder.block.*.layer.1.EncDecAttention.v"},
    {"decoder.layers.*.cross_attention.proj", "decoder.block.*.layer.1.EncDecAttention.o"},
    {"decoder.layers.*.norm_3", "decoder.block.*.layer.2.layer_norm"},
    {"decoder.layers.*.mlp.fc1", "decoder.block.*.layer.2.DenseReluDense.wi"},
    {"decoder.layers.*.mlp.gate", "decoder.block.*.layer.2.DenseReluDense.wi_0"},
    {"decoder.layers.*.mlp.up", "decoder.block.*.layer.2.DenseReluDense.wi_1"},
    {"decoder.layers.*.mlp.fc2", "decoder.block.*.layer.2.DenseReluDense.wo"},
    {"decoder.layers.*.mlp.down", "decoder.block.*.layer.2.DenseReluDense.wo"},
    {"decoder.final_norm", "decoder.final_layer_norm"},
    {"lm_head", "lm_head"},
};

constexpr Row kLlama[] = {
    // and Mistral, Qwen2, Gemma
    {"embedding.tokens", "model.embed_tokens"},
    {"decoder.layers.*.norm_1", "model.layers.*.input_layernorm"},
    {"decoder.layers.*.attention.q", "model.layers.*.self_attn.q_proj"},
    {"decoder.layers.*.attention.k", "model.layers.*.self_attn.k_proj"},
    {"decoder.layers.*.attention.v", "model.layers.*.self_attn.v_proj"},
    {"decoder.layers.*.attention.proj", "model.layers.*.self_attn.o_proj"},
    {"decoder.layers.*.norm_2", "model.layers.*.post_attention_layernorm"},
    {"decoder.layers.*.mlp.gate", "model.layers.*.mlp.gate_proj"},
    {"decoder.layers.*.mlp.up", "model.layers.*.mlp.up_proj"},
    {"decoder.layers.*.mlp.down", "model.layers.*.mlp.down_proj"},
    {"decoder.final_norm", "model.norm"},
    {"lm_head", "lm_head"},
};

constexpr Row kQwen3[] = {
    {"decoder.layers.*.attention.q_norm", "model.layers.*.self_attn.q_norm"},
    {"decoder.layers.*.attention.k_norm", "model.layers.*.self_attn.k_norm"},
};

constexpr Row kGemma2[] = {
    {"decoder.layers.*.post_norm_1", "model.layers.*.post_attention_layernorm"},
    {"decoder.layers.*.norm_2", "model.layers.*.pre_feedforward_layernorm"},
    {"decoder.layers.*.post_norm_2", "model.layers.*.post_feedforward_layernorm"},
};

constexpr Row kPhi3[] = {
    {"decoder.layers.*.attention.q", "model.layers.*.self_attn.qkv_proj"},
    {"decoder.layers.*.attention.k", "model.layers.*.self_attn.qkv_proj"},
    {"decoder.layers.*.attention.v", "model.layers.*.self_attn.qkv_proj"},
    {"decoder.layers.*.mlp.gate", "model.layers.*.mlp.gate_up_proj"},
    {"decoder.layers.*.mlp.up", "model.layers.*.mlp.gate_up_proj"},
};

constexpr Row kGptNeox[] = {
    {"embedding.tokens", "gpt_neox.embed_in"},
    {"decoder.layers.*.norm_1", "gpt_neox.layers.*.input_layernorm"},
    by_group("decoder.layers.*.attention.q", "gpt_neox.layers.*.attention.query_key_value"),
    by_group("decoder.layers.*.attention.k", "gpt_neox.layers.*.attention.query_key_value"),
    by_group("decoder.layers.*.attention.v", "gpt_neox.layers.*.attention.query_key_value"),
    {"decoder.layers.*.attention.proj", "gpt_neox.layers.*.attention.dense"},
    {"decoder.layers.*.norm_2", "gpt_neox.layers.*.post_attention_layernorm"},
    {"decoder.layers.*.mlp.fc1", "gpt_neox.layers.*.mlp.dense_h_to_4h"},
    {"decoder.layers.*.mlp.fc2", "gpt_neox.layers.*.mlp.dense_4h_to_h"},
    {"decoder.final_norm", "gpt_neox.final_layer_norm"},
    {"lm_head", "embed_out"},
};

constexpr Row kFalcon[] = {
    {"embedding.tokens", "transformer.word_embeddings"},
    {"decoder.layers.*.norm_1", "transformer.h.*.input_layernorm"},
    by_group("decoder.layers.*.attention.q", "transformer.h.*.self_attention.query_key_value"),
    by_group("decoder.layers.*.attention.k", "transformer.h.*.self_attention.query_key_value"),
    by_group("decoder.layers.*.attention.v", "transformer.h.*.self_attention.query_key_value"),
    {"decoder.layers.*.attention.proj", "transformer.h.*.self_attention.dense"},
    {"decoder.layers.*.norm_2", "transformer.h.*.post_attention_layernorm"},
    {"decoder.layers.*.mlp.fc1", "transformer.h.*.mlp.dense_h_to_4h"},
    {"decoder.layers.*.mlp.fc2", "transformer.h.*.mlp.dense_4h_to_h"},
    {"decoder.final_norm", "transformer.ln_f"},
    {"lm_head", "lm_head"},
};

constexpr Row kFalconTwoNorms[] = {
    {"decoder.layers.*.norm_1", "transformer.h.*.ln_attn"},
    {"decoder.layers.*.norm_2", "transformer.h.*.ln_mlp"},
};

constexpr Row kOpt[] = {
    {"embedding.tokens", "model.decoder.embed_tokens"},
    {"embedding.positions", "model.decoder.embed_positions"},
    {"decoder.layers.*.norm_1", "model.decoder.layers.*.self_attn_layer_norm"},
    {"decoder.layers.*.attention.q", "model.decoder.layers.*.self_attn.q_proj"},
    {"decoder.layers.*.attention.k", "model.decoder.layers.*.self_attn.k_proj"},
    {"decoder.layers.*.attention.v", "model.decoder.layers.*.self_attn.v_proj"},
    {"decoder.layers.*.attention.proj", "model.decoder.layers.*.self_attn.out_proj"},
    {"decoder.layers.*.norm_2", "model.decoder.layers.*.final_layer_norm"},
    {"decoder.layers.*.mlp.fc1", "model.decoder.layers.*.fc1"},
    {"decoder.layers.*.mlp.fc2", "model.decoder.layers.*.fc2"},
    {"decoder.final_norm", "model.decoder.final_layer_norm"},
    {"lm_head", "lm_head"},
};

constexpr Row kMpt[] = {
    {"embedding.tokens", "transformer.wte"},
    {"decoder.layers.*.norm_1", "transformer.blocks.*.norm_1"},
    {"decoder.layers.*.attention.q", "transformer.blocks.*.attn.Wqkv"},
    {"decoder.layers.*.attention.k", "transformer.blocks.*.attn.Wqkv"},
    {"decoder.layers.*.attention.v", "transformer.blocks.*.attn.Wqkv"},
    {"decoder.layers.*.attention.proj", "transformer.blocks.*.attn.out_proj"},
    {"decoder.layers.*.norm_2", "transformer.blocks.*.norm_2"},
    {"decoder.layers.*.mlp.fc1", "transformer.blocks.*.ffn.up_proj"},
    {"decoder.layers.*.mlp.fc2", "transformer.blocks.*.ffn.down_proj"},
    {"decoder.final_norm", "transformer.norm_f"},
    {"lm_head", "lm_head"},
};

constexpr Row kMamba2[] = {
    {"embedding.tokens", "backbone.embeddings"},
    {"layers.*.norm", "backbone.layers.*.norm"},
    {"layers.*.mixer.in_proj", "backbone.layers.*.mixer.in_proj"},
    lacking("layers.*.mixer.conv.weight", "backbone.layers.*.mixer.conv1d.weight", 2),
    {"layers.*.mixer.conv", "backbone.layers.*.mixer.conv1d"},
    {"layers.*.mixer.A_log", "backbone.layers.*.mixer.A_log"},
    {"layers.*.mixer.dt_bias", "backbone.layers.*.mixer.dt_bias"},
    {"layers.*.mixer.D", "backbone.layers.*.mixer.D"},
    {"layers.*.mixer.norm", "backbone.layers.*.mixer.norm"},
    {"layers.*.mixer.out_proj", "backbone.layers.*.mixer.out_proj"},
    {"final_norm", "backbone.norm_f"},
    {"lm_head", "lm_head"},
};

constexpr Row kVit[] = {
    {"embedding.patches", "vit.embeddings.patch_embeddings.projection"},
    boxed("embedding.class_token.weight", "vit.embeddings.cls_token"),
    boxed("embedding.positions.weight", "vit.embeddings.position_embeddings"),
    {"encoder.layers.*.norm_1", "vit.encoder.layer.*.layernorm_before"},
    {"encoder.layers.*.attention.q", "vit.encoder.layer.*.attention.attention.query"},
    {"encoder.layers.*.attention.k", "vit.encoder.layer.*.attention.attention.key"},
    {"encoder.layers.*.attention.v", "vit.encoder.layer.*.attention.attention.value"},
    {"encoder.layers.*.attention.proj", "vit.encoder.layer.*.attention.output.dense"},
    {"encoder.layers.*.norm_2", "vit.encoder.layer.*.layernorm_after"},
    {"encoder.layers.*.mlp.fc1", "vit.encoder.layer.*.intermediate.dense"},
    {"encoder.layers.*.mlp.fc2", "vit.encoder.layer.*.output.dense"},
    {"encoder.final_norm", "vit.layernorm"},
    {"head", "classifier"},
};

constexpr Row kSwin[] = {
    {"embedding.patches", "swin.embeddings.patch_embeddings.projection"},
    {"embedding.norm", "swin.embeddings.norm"},
    {"layers.*.norm_1", "swin.encoder.layers.*.blocks.*.layernorm_before"},
    of_heads("layers.*.attention.qkv", "swin.encoder.layers.*.blocks.*.attention.self.query", 1),
    of_heads("layers.*.attention.qkv", "swin.encoder.layers.*.blocks.*.attention.self.key", 2),
    of_heads("layers.*.attention.qkv", "swin.encoder.layers.*.blocks.*.attention.self.value", 3),
    {"layers.*.attention.position_bias.weight",
     "swin.encoder.layers.*.blocks.*.attention.self.relative_position_bias_table"},
    {"layers.*.attention.proj", "swin.encoder.layers.*.blocks.*.attention.output.dense"},
    {"layers.*.norm_2", "swin.encoder.layers.*.blocks.*.layernorm_after"},
    {"layers.*.mlp.fc1", "swin.encoder.layers.*.blocks.*.intermediate.dense"},
    {"layers.*.mlp.fc2", "swin.encoder.layers.*.blocks.*.output.dense"},
    {"merges.*.norm", "swin.encoder.layers.*.downsample.norm"},
    {"merges.*.reduction", "swin.encoder.layers.*.downsample.reduction"},
    {"final_norm", "swin.layernorm"},
    {"head", "classifier"},
};

// ln(1 / 0.07), from where the scale of ours counts.
constexpr double kFirstLogScale = 2.6592600369327779;

constexpr Row kClip[] = {
    {"text.embedding.tokens", "text_model.embeddings.token_embedding"},
    {"text.embedding.positions", "text_model.embeddings.position_embedding"},
    {"text.layers.*.norm_1", "text_model.encoder.layers.*.layer_norm1"},
    {"text.layers.*.attention.q", "text_model.encoder.layers.*.self_attn.q_proj"},
    {"text.layers.*.attention.k", "text_model.encoder.layers.*.self_attn.k_proj"},
    {"text.layers.*.attention.v", "text_model.encoder.layers.*.self_attn.v_proj"},
    {"text.layers.*.attention.proj", "text_model.encoder.layers.*.self_attn.out_proj"},
    {"text.layers.*.norm_2", "text_model.encoder.layers.*.layer_norm2"},
    {"text.layers.*.mlp.fc1", "text_model.encoder.layers.*.mlp.fc1"},
    {"text.layers.*.mlp.fc2", "text_model.encoder.layers.*.mlp.fc2"},
    {"text.final_norm", "text_model.final_layer_norm"},
    {"text.projection", "text_projection"},
    {"image.embedding.patches", "vision_model.embeddings.patch_embedding"},
    lacking("image.embedding.class_token.weight", "vision_model.embeddings.class_embedding", 1),
    {"image.embedding.positions", "vision_model.embeddings.position_embedding"},
    {"image.embedding.norm", "vision_model.pre_layrnorm"},
    {"image.layers.*.norm_1", "vision_model.encoder.layers.*.layer_norm1"},
    {"image.layers.*.attention.q", "vision_model.encoder.layers.*.self_attn.q_proj"},
    {"image.layers.*.attention.k", "vision_model.encoder.layers.*.self_attn.k_proj"},
    {"image.layers.*.attention.v", "vision_model.encoder.layers.*.self_attn.v_proj"},
    {"image.layers.*.attention.proj", "vision_model.encoder.layers.*.self_attn.out_proj"},
    {"image.layers.*.norm_2", "vision_model.encoder.layers.*.layer_norm2"},
    {"image.layers.*.mlp.fc1", "vision_model.encoder.layers.*.mlp.fc1"},
    {"image.layers.*.mlp.fc2", "vision_model.encoder.layers.*.mlp.fc2"},
    {"image.final_norm", "vision_model.post_layernorm"},
    {"image.projection", "visual_projection"},
    lacking("logit_scale", "logit_scale", 1, kFirstLogScale),
};

constexpr Row kResnet[] = {
    {"stem.conv", "resnet.embedder.embedder.convolution"},
    {"stem.norm", "resnet.embedder.embedder.normalization"},
    {"layers.*.conv_1", "resnet.encoder.stages.*.layers.*.layer.0.convolution"},
    {"layers.*.norm_1", "resnet.encoder.stages.*.layers.*.layer.0.normalization"},
    {"layers.*.conv_2", "resnet.encoder.stages.*.layers.*.layer.1.convolution"},
    {"layers.*.norm_2", "resnet.encoder.stages.*.layers.*.layer.1.normalization"},
    {"layers.*.conv_3", "resnet.encoder.stages.*.layers.*.layer.2.convolution"},
    {"layers.*.norm_3", "resnet.encoder.stages.*.layers.*.layer.2.normalization"},
    {"layers.*.shortcut", "resnet.encoder.stages.*.layers.*.shortcut.convolution"},
    {"layers.*.shortcut_norm", "resnet.encoder.stages.*.layers.*.shortcut.normalization"},
    {"head", "classifier.1"},
};

}  // namespace

std::vector<std::span<const NameRow>> name_tables(HuggingFaceType type) {
  switch (type) {
    case HuggingFaceType::kGpt2: return {kGpt2};
    case HuggingFaceType::kBert: return {kBert};
    case HuggingFaceType::kRoberta: return {kRoberta};
    case HuggingFaceType::kT5: return {kT5};
    case HuggingFaceType::kLlama:
    case HuggingFaceType::kMistral:
    case HuggingFaceType::kQwen2:
    case HuggingFaceType::kGemma: return {kLlama};
    case HuggingFaceType::kQwen3: return {kQwen3, kLlama};
    case HuggingFaceType::kGemma2: return {kGemma2, kLlama};
    case HuggingFaceType::kPhi3: return {kPhi3, kLlama};
    case HuggingFaceType::kGptNeox: return {kGptNeox};
    case HuggingFaceType::kFalcon: return {kFalcon};
    case HuggingFaceType::kFalconTwoNorms: return {kFalconTwoNorms, kFalcon};
    case HuggingFaceType::kOpt: return {kOpt};
    case HuggingFaceType::kMpt: return {kMpt};
    case HuggingFaceType::kMamba2: return {kMamba2};
    case HuggingFaceType::kVit: return {kVit};
    case HuggingFaceType::kSwin: return {kSwin};
    case HuggingFaceType::kResnet: return {kResnet};
    case HuggingFaceType::kClip: return {kClip};
  }
  bug("a model type without names");
}

std::string_view base_prefix(HuggingFaceType type) {
  switch (type) {
    case HuggingFaceType::kGpt2:
    case HuggingFaceType::kFalcon:
    case HuggingFaceType::kFalconTwoNorms:
    case HuggingFaceType::kMpt: return "transformer.";
    case HuggingFaceType::kBert: return "bert.";
    case HuggingFaceType::kRoberta: return "roberta.";
    case HuggingFaceType::kT5:
    case HuggingFaceType::kClip: return "";
    case HuggingFaceType::kMamba2: return "backbone.";
    case HuggingFaceType::kVit: return "vit.";
    case HuggingFaceType::kSwin: return "swin.";
    case HuggingFaceType::kResnet: return "resnet.";
    case HuggingFaceType::kGptNeox: return "gpt_neox.";
    case HuggingFaceType::kLlama:
    case HuggingFaceType::kMistral:
    case HuggingFaceType::kQwen2:
    case HuggingFaceType::kQwen3:
    case HuggingFaceType::kGemma:
    case HuggingFaceType::kGemma2:
    case HuggingFaceType::kPhi3:
    case HuggingFaceType::kOpt: return "model.";
  }
  bug("a model type without a prefix");
}

}  // namespace trainyard
