"""Writes hugging_face_keys.cpp: what becomes of every key of a config.json, by model type.

    python3 -m venv oracle && oracle/bin/pip install transformers==5.23.0
    oracle/bin/python models/hugging_face_keys.py > models/hugging_face_keys.cpp

Keys and defaults are those of the transformers library, and those that its earlier versions wrote. What becomes of each
is said here, by hand; a key that transformers has and this file does not say ends the script.
"""
import dataclasses
import json
import sys

import transformers as tf

CONFIGS = {"gpt2": tf.GPT2Config, "bert": tf.BertConfig, "roberta": tf.RobertaConfig, "t5": tf.T5Config,
           "llama": tf.LlamaConfig, "mistral": tf.MistralConfig, "qwen2": tf.Qwen2Config,
           "qwen3": tf.Qwen3Config, "gemma": tf.GemmaConfig, "gemma2": tf.Gemma2Config, "phi3": tf.Phi3Config,
           "gpt_neox": tf.GPTNeoXConfig, "falcon": tf.FalconConfig, "opt": tf.OPTConfig, "mpt": tf.MptConfig,
           "mamba2": tf.Mamba2Config, "vit": tf.ViTConfig, "swin": tf.SwinConfig, "resnet": tf.ResNetConfig,
           "clip": tf.CLIPConfig, "clip_text_model": tf.CLIPTextConfig, "clip_vision_model": tf.CLIPVisionConfig}

# hugging_face.cpp reads these.
USED = {
    "gpt2": """n_layer n_embd n_head n_inner vocab_size n_positions activation_function tie_word_embeddings
               layer_norm_epsilon scale_attn_weights scale_attn_by_inverse_layer_idx""",
    "bert": """num_hidden_layers hidden_size num_attention_heads intermediate_size vocab_size
               max_position_embeddings type_vocab_size hidden_act tie_word_embeddings layer_norm_eps""",
    "roberta": """num_hidden_layers hidden_size num_attention_heads intermediate_size vocab_size
                  max_position_embeddings type_vocab_size hidden_act tie_word_embeddings layer_norm_eps pad_token_id""",
    "t5": """num_layers num_decoder_layers d_model num_heads d_kv d_ff vocab_size relative_attention_num_buckets
             feed_forward_proj tie_word_embeddings layer_norm_epsilon scale_decoder_outputs dense_act_fn is_gated_act""",
    "llama": """num_hidden_layers hidden_size num_attention_heads num_key_value_heads head_dim intermediate_size
                vocab_size max_position_embeddings hidden_act tie_word_embeddings rms_norm_eps rope_parameters
                attention_bias mlp_bias""",
    "mistral": """num_hidden_layers hidden_size num_attention_heads num_key_value_heads head_dim intermediate_size
                  vocab_size max_position_embeddings hidden_act tie_word_embeddings rms_norm_eps rope_parameters
                  sliding_window""",
    "qwen2": """num_hidden_layers hidden_size num_attention_heads num_key_value_heads intermediate_size vocab_size
                max_position_embeddings hidden_act tie_word_embeddings rms_norm_eps rope_parameters use_sliding_window
                sliding_window max_window_layers layer_types""",
    "qwen3": """num_hidden_layers hidden_size num_attention_heads num_key_value_heads head_dim intermediate_size
                vocab_size max_position_embeddings hidden_act tie_word_embeddings rms_norm_eps rope_parameters
                attention_bias use_sliding_window sliding_window max_window_layers layer_types""",
    "gemma": """num_hidden_layers hidden_size num_attention_heads num_key_value_heads head_dim intermediate_size
                vocab_size max_position_embeddings hidden_act tie_word_embeddings rms_norm_eps rope_parameters
                attention_bias use_bidirectional_attention""",
    "gemma2": """num_hidden_layers hidden_size num_attention_heads num_key_value_heads head_dim intermediate_size
                 vocab_size max_position_embeddings hidden_activation tie_word_embeddings rms_norm_eps rope_parameters
                 attention_bias use_bidirectional_attention attn_logit_softcapping final_logit_softcapping
                 query_pre_attn_scalar sliding_window layer_types""",
    "phi3": """num_hidden_layers hidden_size num_attention_heads num_key_value_heads intermediate_size vocab_size
               max_position_embeddings hidden_act tie_word_embeddings rms_norm_eps rope_parameters sliding_window""",
    "gpt_neox": """num_hidden_layers hidden_size num_attention_heads intermediate_size vocab_size
                   max_position_embeddings hidden_act tie_word_embeddings layer_norm_eps rope_parameters
                   use_parallel_residual attention_bias""",
    "falcon": """num_hidden_layers hidden_size num_attention_heads num_kv_heads ffn_hidden_size vocab_size
                 max_position_embeddings activation tie_word_embeddings layer_norm_epsilon rope_parameters alibi bias
                 multi_query new_decoder_architecture num_ln_in_parallel_attn parallel_attn""",
    "opt": """num_hidden_layers hidden_size num_attention_heads ffn_dim vocab_size max_position_embeddings
              activation_function tie_word_embeddings do_layer_norm_before enable_bias _remove_final_layer_norm
              layer_norm_elementwise_affine word_embed_proj_dim""",
    "mpt": """n_layers d_model n_heads expansion_ratio vocab_size max_seq_len tie_word_embeddings layer_norm_epsilon
              no_bias attn_config""",
    "mamba2": """num_hidden_layers hidden_size num_heads head_dim state_size conv_kernel expand chunk_size n_groups
                 vocab_size tie_word_embeddings layer_norm_epsilon time_step_limit""",
    "vit": """num_hidden_layers hidden_size num_attention_heads intermediate_size hidden_act layer_norm_eps image_size
              patch_size num_channels qkv_bias id2label problem_type""",
    "swin": """depths embed_dim hidden_size num_heads num_layers image_size patch_size window_size num_channels id2label
               problem_type drop_path_rate""",
    "resnet": "depths layer_type embedding_size hidden_sizes num_channels id2label problem_type",
    "clip": "text_config vision_config projection_dim",
    "clip_text_model": """num_hidden_layers hidden_size num_attention_heads intermediate_size vocab_size
                          max_position_embeddings""",
    "clip_vision_model": """num_hidden_layers hidden_size num_attention_heads intermediate_size image_size patch_size
                            num_channels""",
}
# Keys of earlier versions, with their defaults.
USED_BEFORE = {
    "bert": {"position_embedding_type": "absolute"},
    "roberta": {"position_embedding_type": "absolute"},
    "t5": {"n_positions": 512},
    "llama": {"rope_theta": 10000.0, "rope_scaling": None},
    "mistral": {"rope_theta": 10000.0, "rope_scaling": None},
    "qwen2": {"rope_theta": 10000.0, "rope_scaling": None, "head_dim": None},
    "qwen3": {"rope_theta": 10000.0, "rope_scaling": None},
    "gemma": {"rope_theta": 10000.0, "rope_scaling": None, "hidden_activation": None},
    "gemma2": {"rope_theta": 10000.0, "rope_scaling": None},
    "phi3": {"rope_theta": 10000.0, "rope_scaling": None, "partial_rotary_factor": 1.0},
    "gpt_neox": {"rotary_emb_base": 10000, "rotary_pct": 0.25, "rope_scaling": None},
    "falcon": {"rope_theta": 10000.0, "rope_scaling": None, "n_embed": None},
    "vit": {"num_labels": None}, "swin": {"num_labels": None}, "resnet": {"num_labels": None},
}
# Other values would make another model, which no family here has.
REFUSED = {"is_encoder_decoder", "is_decoder", "add_cross_attention", "relative_attention_max_distance", "layerdrop",
           "logit_scale", "mlp_ratio", "use_absolute_embeddings", "hidden_act", "qkv_bias", "layer_norm_eps",
           "downsample_in_first_stage", "downsample_in_bottleneck", "use_bias", "use_conv_bias"}
REFUSED_BEFORE = {"tie_encoder_decoder": False, "pruned_heads": {}, "quantization_config": None,
                  "cross_attention_hidden_size": None}
# What the study says itself (dropout, precision), how weights begin, tokens by number, heads of other tasks, output,
# inference, and what only changes rounding. Of images: the numbers of backbones and of masked images.
HARMLESS = set("""
    transformers_version architectures output_hidden_states return_dict dtype chunk_size_feed_forward id2label label2id
    problem_type _name_or_path model_type output_attentions use_cache initializer_range initializer_factor
    bos_token_id eos_token_id pad_token_id classifier_dropout resid_pdrop embd_pdrop attn_pdrop hidden_dropout_prob
    attention_probs_dropout_prob dropout_rate attention_dropout summary_type summary_use_proj summary_activation
    summary_proj_to_labels summary_first_dropout reorder_and_upcast_attn pretraining_tp hidden_dropout dropout init_std
    original_max_position_embeddings init_device learned_pos_emb embedding_fraction norm_type resid_pdrop emb_pdrop
    residual_in_fp32 time_step_rank time_step_min time_step_max time_step_floor rescale_prenorm_residual
    projection_dim logit_scale_init_value
    encoder_stride pooler_output_size pooler_act stage_names out_features out_indices _out_features _out_indices
    """.split())
HARMLESS_BEFORE = """
    torch_dtype task_specific_params gradient_checkpointing attn_implementation _attn_implementation
    _attn_implementation_autoset attn_implementation_internal finetuning_task num_labels _num_labels
    decoder_start_token_id prefix sep_token_id cls_token_id mask_token_id tokenizer_class auto_map torchscript
    use_bfloat16 tf_legacy_loss output_past n_ctx directionality pooler_fc_size pooler_num_attention_heads
    pooler_num_fc_layers pooler_size_per_head pooler_type do_sample early_stopping max_length min_length num_beams
    num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty
    no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids num_return_sequences output_scores
    return_dict_in_generate forced_bos_token_id forced_eos_token_id remove_invalid_values
    exponential_decay_length_penalty suppress_tokens begin_suppress_tokens transformers.js_config
    """.split()


def fields(config):
    """Every key with its default: of the class, and what instances add to it."""
    defaults = config().to_dict()
    for field in dataclasses.fields(config):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
    defaults["model_type"] = config.model_type
    return defaults


def rows(model_type, config):
    defaults = fields(config)
    used = USED[model_type].split()
    missing = [key for key in used if key not in defaults]
    if missing:
        sys.exit(f"{model_type}: transformers {tf.__version__} has no {missing}")
    for key, default in defaults.items():
        if key in used:
            yield key, "kUsed", default
        elif key in REFUSED:
            yield key, "kRefused", default
        elif key in HARMLESS:
            yield key, "kHarmless", None
        elif key in USED_BEFORE.get(model_type, {}):
            continue
        else:
            sys.exit(f"{model_type}: say what becomes of {key}, default {default!r}")
    for key, default in USED_BEFORE.get(model_type, {}).items():
        yield key, "kUsed", default
    for key, target in config.attribute_map.items():
        if key not in defaults:
            yield key, "kOtherName", target
    if model_type == "qwen2":  # of later versions of the model
        yield "use_mrope", "kRefused", False
    if model_type == "clip":  # towers said twice
        yield "text_config_dict", "kRefused", None
        yield "vision_config_dict", "kRefused", None
    if model_type == "mamba2":  # of earlier ones
        yield "rms_norm", "kRefused", True
    for key, default in REFUSED_BEFORE.items():
        yield key, "kRefused", default
    for key in HARMLESS_BEFORE:
        if key not in defaults and key not in USED_BEFORE.get(model_type, {}):
            yield key, "kHarmless", None


def main():
    print("// Generated by hugging_face_keys.py; do not edit.")
    print('#include "models/hugging_face_keys.h"\n\nnamespace trainyard {\n\nnamespace {\n')
    print("constexpr HuggingFaceKey kKeys[] = {")
    for model_type, config in CONFIGS.items():
        for key, use, default in sorted(rows(model_type, config)):
            text = default if use == "kOtherName" else "" if use == "kHarmless" else json.dumps(default)
            # Lists and maps of layers are made from other keys; JSON has no infinity.
            if use == "kUsed" and (isinstance(default, (list, dict)) or "Infinity" in text):
                text = "null"
            print(f'    {{"{model_type}", "{key}", KeyUse::{use}, {json.dumps(text)}}},')
    print("};\n\n}  // namespace\n")
    print(f'const char* const kTransformersVersion = "{tf.__version__}";\n')
    print("std::span<const HuggingFaceKey> hugging_face_keys() { return kKeys; }\n\n}  // namespace trainyard")


main()
