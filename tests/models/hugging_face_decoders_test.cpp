// What a config.json of each type of decoder comes down to, beside its sizes, and what is refused.
#include <catch2/catch.hpp>

#include "engine/base/error.h"
#include "models/hugging_face.h"
#include "models/model.h"

namespace trainyard::hugging_face_decoders_test {

namespace {

ModelConfig parse(const std::string& type, const std::string& keys = "") {
  const std::string text =
      "{\"model_type\": \"" + type + "\"" + (keys.empty() ? "" : ",\n " + keys) + "}";
  return parse_hugging_face_config(text, "c.json").config;
}

std::string error_of(const std::string& type, const std::string& keys) {
  try {
    parse(type, keys);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("Llama 3.1's rotary angles are read from either place") {
  for (const std::string key : {"rope_scaling", "rope_parameters"}) {
    const ModelConfig c =
        parse("llama", "\"" + key +
                           R"(": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
                              "high_freq_factor": 4, "original_max_position_embeddings": 8192})");
    CHECK((c.rope_factor == 8 && c.rope_low == 1 && c.rope_high == 4 && c.rope_original == 8192));
  }
  const ModelConfig c = parse("llama", R"("rope_scaling": {"type": "linear", "factor": 2.5})");
  CHECK((c.rope_factor == 2.5 && c.rope_original == 0));
}

TEST_CASE("Qwen 3 normalises heads, whose width is said") {
  const ModelConfig c = parse("qwen3");
  CHECK((c.head_norm && c.head_dim == 128 && !c.qkv_bias && c.attention_window == 0));
  CHECK(error_of("qwen3", R"("attention_bias": true)") ==
        "c.json:2:2: attention_bias: biases in only one of attention and MLP are not modelled; "
        "expected false");
}

TEST_CASE("Gemma has norms of 1 + w, scaled embeddings and gelu's approximation") {
  for (const std::string keys :
       {"", R"("hidden_act": "gelu")", R"("hidden_activation": null)",
        R"("hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh")"}) {
    CAPTURE(keys);
    const ModelConfig c = parse("gemma", keys);
    CHECK((c.offset_norms && c.scaled_embedding && c.tied_embeddings && !c.branch_norms));
    CHECK(c.activation == Activation::kGeglu);
    CHECK(c.head_dim == 256);
  }
  CHECK(error_of("gemma", R"("hidden_act": "relu")") ==
        "c.json:2:2: hidden_act: 'relu' is not modelled; expected gelu_pytorch_tanh");
}

TEST_CASE("Gemma 2 has caps, norms behind its branches and a window in every other layer") {
  const ModelConfig c = parse("gemma2");
  CHECK((c.branch_norms && c.offset_norms && c.score_cap == 50 && c.logit_cap == 30));
  CHECK((c.query_scalar == 256 && c.attention_window == 4096));
  CHECK((has_window(c, 0) && !has_window(c, 1) && has_window(c, 24) && !has_window(c, 25)));
  const ModelConfig plain =
      parse("gemma2", R"("attn_logit_softcapping": null, "final_logit_softcapping": null,
                   "query_pre_attn_scalar": 144, "sliding_window": null)");
  CHECK((plain.score_cap == 0 && plain.logit_cap == 0 && plain.query_scalar == 144));
  CHECK((plain.attention_window == 0 && plain.window_cycle == 0));
}

TEST_CASE("windows of layers follow a pattern, or are refused") {
  const auto with = [](const std::string& types) {
    std::string list;
    for (const char c : types)
      list += std::string(list.empty() ? "\"" : ", \"") + (c == 's' ? "sliding" : "full") +
              "_attention\"";
    return R"("num_hidden_layers": )" + std::to_string(types.size()) + ", \"layer_types\": [" +
           list + "]";
  };
  for (const std::string types : {"ssss", "ffss", "sfsf", "ssfssf", "sssf", "fsfs", "s"}) {
    CAPTURE(types);
    const ModelConfig c = parse("gemma2", with(types));
    for (std::size_t layer = 0; layer < types.size(); ++layer)
      CHECK(has_window(c, static_cast<std::int64_t>(layer)) == (types[layer] == 's'));
  }
  CHECK(parse("gemma2", with("ffff")).attention_window == 0);
  CHECK(error_of("gemma2", with("sffs")) ==
        "c.json:2:26: layer_types: windows of layers without a pattern are not modelled; expected "
        "them from some layer on, or in all but the last of every so many layers");
}

TEST_CASE("Phi-3 has a window and turns a part of each head") {
  const ModelConfig c = parse("phi3", R"("sliding_window": 2047, "partial_rotary_factor": 0.75)");
  CHECK((c.attention_window == 2047 && c.rotary_dim == 72));  // of 96
  CHECK(parse("phi3").rotary_dim == 0);
  CHECK(error_of("phi3", R"("rope_scaling": {"type": "longrope", "long_factor": [1.0]})") ==
        "c.json:2:19: rope_scaling.type: 'longrope' is not modelled (a factor for each frequency, "
        "and others for short sequences than for long ones); expected default");
}

TEST_CASE("GPT-NeoX has parallel layers and turns a quarter of each head") {
  const ModelConfig c = parse("gpt_neox");
  CHECK((c.positions == Positions::kRotary && c.rotary_dim == 24 && c.max_positions == 0));
  CHECK((c.residual == Residual::kParallel && !c.tied_embeddings && c.linear_bias));
  CHECK(parse("gpt_neox", R"("use_parallel_residual": false)").residual == Residual::kSequential);
  const ModelConfig whole = parse("gpt_neox", R"("rotary_pct": 1.0, "rotary_emb_base": 500)");
  CHECK((whole.rotary_dim == 0 && whole.rope_base == 500));
  CHECK(error_of("gpt_neox", R"("rotary_pct": 0.01)") ==
        "c.json:2:2: rotary_pct: leaves 0 of the 96 features of a head to turn; expected an even "
        "number, 2 or more");
}

TEST_CASE("Falcons have one norm or two, one key-value head or several, angles or distances") {
  const ModelConfig small = parse("falcon");
  CHECK((small.residual == Residual::kParallelOneNorm && small.kv_heads == 1));
  CHECK((small.positions == Positions::kRotary && !small.linear_bias && small.tied_embeddings));
  const ModelConfig large =
      parse("falcon", R"("new_decoder_architecture": true, "hidden_size": 8192,
                   "num_attention_heads": 128, "num_kv_heads": 8)");
  CHECK((large.residual == Residual::kParallel && large.kv_heads == 8));
  const ModelConfig one_norm =
      parse("falcon", R"("new_decoder_architecture": true, "num_ln_in_parallel_attn": 1)");
  CHECK(one_norm.residual == Residual::kParallelOneNorm);
  const ModelConfig rw = parse("falcon", R"("alibi": true, "multi_query": false, "bias": true,
                                             "parallel_attn": false)");
  CHECK((rw.residual == Residual::kSequential && rw.kv_heads == 71 && rw.linear_bias));
  CHECK(rw.positions == Positions::kScaledAlibi);
  CHECK(error_of("falcon", R"("num_ln_in_parallel_attn": 2)") ==
        "c.json:2:2: num_ln_in_parallel_attn: 2 norms are not modelled; expected 1, or "
        "new_decoder_architecture");
}

TEST_CASE("OPT's positions begin at row 2 of its table") {
  const ModelConfig c = parse("opt");
  CHECK((c.position_offset == 2 && c.max_positions == 2050 && c.seq_len == 2048));
  CHECK(c.activation == Activation::kRelu);
  CHECK(error_of("opt", R"("do_layer_norm_before": false)") ==
        "c.json:2:2: do_layer_norm_before: false is not modelled (norms behind the residual "
        "sums); expected true");
  CHECK(error_of("opt", R"("word_embed_proj_dim": 512)") ==
        "c.json:2:2: word_embed_proj_dim: embeddings narrower than hidden_size, which are "
        "projected, are not modelled; expected 768, got 512");
}

TEST_CASE("MPT has distances and no biases, of its norms either") {
  const ModelConfig c = parse("mpt");
  CHECK((c.positions == Positions::kAlibi && !c.norm_bias && !c.linear_bias && !c.qkv_bias));
  CHECK((c.max_positions == 0 && c.ffn == 4 * 2048));
  CHECK(error_of("mpt", R"("attn_config": {"clip_qkv": 8})") ==
        "c.json:2:18: attn_config.clip_qkv: is not modelled; expected null");
  CHECK(error_of("mpt", R"("attn_config": {"alibi_bias_max": 16})") ==
        "c.json:2:18: attn_config.alibi_bias_max: slopes from another than 2^-8 are not modelled; "
        "expected 8");
}

TEST_CASE("every type's defaults can be built") {
  for (const std::string type : {"llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi3",
                                 "gpt_neox", "falcon", "opt", "mpt"}) {
    CAPTURE(type);
    ModelConfig c = parse(type);
    c.layers = 2;
    c.seq_len = 64;
    CHECK(find_violation(build_model(c, {})).empty());
  }
}

TEST_CASE("a Mamba-2 is read, with as many groups of heads as it has") {
  const std::string one =
      R"({"model_type": "mamba2", "n_groups": 1, "hidden_size": 48, "num_heads": )";
  const ModelConfig config =
      parse_hugging_face_config(one + R"(8, "head_dim": 12, "chunk_size": 96, "conv_kernel": 3,
          "time_step_limit": [0.0, Infinity], "architectures": ["-Infinity\\"], "state_size": 10})",
                                "c.json")
          .config;
  CHECK((config.hidden == 48 && config.expand == 2 && config.head_dim == 12));
  CHECK((config.conv_width == 3 && config.state_size == 10 && config.layers == 64));
  CHECK(config.seq_len == 21 * 96);  // the chunks in 2048 tokens
  CHECK_FALSE(config.tied_embeddings);
  const auto error = [&](const std::string& text) {
    try {
      parse_hugging_face_config(text, "c.json");
    } catch (const ConfigError& refused) {
      return std::string(refused.what());
    }
    return std::string("none");
  };
  CHECK(config.groups == 1);
  const auto groups = [](const char* text) {
    return parse_hugging_face_config(text, "c.json").config.groups;
  };
  CHECK(groups(R"({"model_type": "mamba2"})") == 8);  // as transformers takes it
  CHECK(groups(R"({"model_type": "mamba2", "n_groups": 2})") == 2);
  CHECK(error(R"({"model_type": "mamba2", "n_groups": 3})") ==
        "c.json:1:26: n_groups: 3 groups do not divide 128 heads; got 3");
  CHECK(error(one + "7, \"head_dim\": 12}") ==
        "c.json:1:60: num_heads: 7 heads of 12 are not expand x hidden_size, 96; got 7");
  CHECK(error(one + "8, \"head_dim\": 12, \"time_step_limit\": [0.001, Infinity]}") ==
        "c.json:1:92: time_step_limit: bounds of dt are not modelled; expected [0, Infinity]");
  CHECK(error(one + R"(8, "head_dim": 12, "time_step_limit": [0, {"__float__": "Infinity"}]})") ==
        "none");
  CHECK_THAT(error(one + "8, \"head_dim\": 12, \"use_bias\": true}"),
             Catch::Contains("use_bias: true is not modelled; expected false"));
}

}  // namespace trainyard::hugging_face_decoders_test
