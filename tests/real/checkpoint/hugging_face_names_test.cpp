// Hugging Face's config.json, and names and shapes of weights as transformers saves them
// (tests/golden, made by tests/oracle/hugging_face_names.py).
#include "real/checkpoint/hugging_face_names.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "models/hugging_face.h"
#include "models/model.h"
#include "models/presets.h"
#include "real/checkpoint/piece.h"
#include "real/checkpoint/save_hugging_face.h"
#include "tests/real/checkpoint/tiny_model.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::hugging_face_names_test {

namespace {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

std::vector<HuggingFaceWeight> weights_of(const ModelConfig& config) {
  return hugging_face_weights(hugging_face_type(config), graph_of_weights(config));
}

Shapes their_shapes(const ModelConfig& config) {
  Shapes shapes;
  for (const HuggingFaceWeight& weight : weights_of(config))
    shapes[weight.theirs] = weight.their_shape;
  return shapes;
}

HuggingFaceWeight find(const ModelConfig& config, const std::string& ours) {
  for (const HuggingFaceWeight& weight : weights_of(config)) {
    if (weight.ours == ours) return weight;
  }
  FAIL(ours << " is not there");
  return {};
}

std::string error_of_type(ModelConfig config) {
  return error_of([&] { hugging_face_type(config); });
}

}  // namespace

TEST_CASE("names and shapes are those that transformers saves") {
  const auto folder =
      std::filesystem::path(TRAINYARD_SOURCE_DIR) / "tests/golden/hugging_face/names";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    CAPTURE(entry.path().filename().string());
    const auto golden = nlohmann::json::parse(read_text(entry.path().string()));
    const auto& json = golden.at("config");
    ModelConfig config = parse_hugging_face_config(json.dump(), "config.json").config;
    config.next_sentence = json.at("architectures")[0] == "BertForPreTraining";
    CHECK(their_shapes(config) == golden.at("tensors").get<Shapes>());
    ++files;
  }
  CHECK(files == 30);
}

TEST_CASE("every weight of every preset has a name") {
  for (const ModelPreset& preset : model_presets()) {
    CAPTURE(preset.name);
    if (!has_hugging_face_type(preset.config.family)) continue;
    std::int64_t elements = 0;
    for (const HuggingFaceWeight& weight : weights_of(preset.config)) {
      elements += product(weight.shape) / weight.part.of;
    }
    const Graph graph = graph_of_weights(preset.config);
    std::int64_t expected = 0;
    for (const Parameter& parameter : graph.parameters) {
      if (parameter.tensor != kNoIndex) expected += num_elements(parameter.shape);
    }
    CHECK(elements == expected);  // the untied BERT, which keeps one twice, is no preset
  }
}

TEST_CASE("GPT-2 stacks q, k and v and transposes them; Llama does neither") {
  const HuggingFaceWeight k = find(tiny(Family::kGpt), "decoder.layers.1.attention.k.weight");
  CHECK(k.theirs == "transformer.h.1.attn.c_attn.weight");
  CHECK((k.transposed && k.first_row == 6 && k.rows == 18));
  const HuggingFaceWeight bias = find(tiny(Family::kGpt), "decoder.layers.1.attention.v.bias");
  CHECK(bias.theirs == "transformer.h.1.attn.c_attn.bias");
  CHECK((!bias.transposed && bias.first_row == 12 && bias.rows == 18));
  const HuggingFaceWeight gate = find(tiny(Family::kLlama), "decoder.layers.0.mlp.gate.weight");
  CHECK(gate.theirs == "model.layers.0.mlp.gate_proj.weight");
  CHECK((!gate.transposed && gate.first_row == 0 && gate.rows == 10));
}

TEST_CASE("a written config.json reads back as the same model") {
  for (const ModelPreset& preset : model_presets()) {
    CAPTURE(preset.name);
    if (!has_hugging_face_type(preset.config.family)) continue;
    const std::string text = hugging_face_config(preset.config, DType::kBf16);
    CHECK(essence(parse_hugging_face_config(text, "c.json").config) == essence(preset.config));
  }
  for (const ModelConfig& config : tiny_decoders()) {
    CAPTURE(config.name);
    const std::string text = hugging_face_config(config, DType::kBf16);
    CHECK(essence(parse_hugging_face_config(text, "c.json").config) == essence(config));
  }
  for (const Family family : {Family::kGpt, Family::kBert, Family::kT5, Family::kLlama}) {
    ModelConfig config = tiny(family);
    config.tied_embeddings = !config.tied_embeddings;
    config.norm_eps = 3e-4;
    if (family == Family::kLlama) config.rope_base = 12345;
    if (family == Family::kLlama) config.linear_bias = config.qkv_bias = true;
    if (family == Family::kGpt) config.activation = Activation::kRelu;
    const std::string text = hugging_face_config(config, DType::kFp32);
    CHECK(essence(parse_hugging_face_config(text, "c.json").config) == essence(config));
  }
  const auto json = nlohmann::json::parse(hugging_face_config(tiny(Family::kGpt), DType::kBf16));
  CHECK(json.at("architectures") == nlohmann::json{"GPT2LMHeadModel"});
  CHECK(json.at("torch_dtype") == "bfloat16");
  CHECK(json.at("eos_token_id").is_null());
}

TEST_CASE("models that transformers does not have are refused") {
  const auto with = [](Family family, auto change) {
    ModelConfig config = tiny(family);
    change(config);
    return error_of_type(config);
  };
  CHECK(with(Family::kGpt, [](ModelConfig& c) { c.activation = Activation::kSwiglu; }) ==
        "model.activation: Hugging Face's GPT-2 has no swiglu; expected gelu, gelu-tanh or relu");
  CHECK(with(Family::kGpt, [](ModelConfig& c) { c.qkv_bias = false; }) ==
        "model.linear_bias: Hugging Face's GPT-2 has all biases; expected true");
  CHECK(with(Family::kBert, [](ModelConfig& c) { c.kv_heads = 1; }) ==
        "model.kv_heads: Hugging Face's BERT has as many as heads, 2, got 1");
  CHECK(with(Family::kGpt, [](ModelConfig& c) { c.head_dim = 4; }) ==
        "model.head_dim: Hugging Face's GPT-2 has hidden / heads, got 4");
  CHECK(with(Family::kBert,
             [](ModelConfig& c) {
               c.token_types = 1;
               c.next_sentence = true;
             }) ==
        "model.next_sentence: Hugging Face's RoBERTa, BERT with one token type, has no "
        "next-sentence head; expected false");
  CHECK(
      with(Family::kT5, [](ModelConfig& c) { c.activation = Activation::kGeluTanh; }) ==
      "model.activation: Hugging Face's T5 has no gelu-tanh; expected relu, gelu, geglu or swiglu");
  CHECK(with(Family::kT5, [](ModelConfig& c) { c.linear_bias = true; }) ==
        "model.linear_bias: Hugging Face's T5 has no biases; expected false");
  CHECK(with(Family::kLlama, [](ModelConfig& c) { c.activation = Activation::kGelu; }) ==
        "model.activation: Hugging Face's Llama has swiglu, got gelu");
  CHECK(
      with(Family::kLlama, [](ModelConfig& c) { c.linear_bias = true; }) ==
      "model.qkv_bias: Hugging Face's Llama has biases everywhere or nowhere, Qwen2 on query, key "
      "and value only; expected true");
}

}  // namespace trainyard::hugging_face_names_test
