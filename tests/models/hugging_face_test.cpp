// config.json files: published models come out with their published sizes, absent keys take the
// library's defaults, and whatever cannot be read names the file, the place and the key.
#include "models/hugging_face.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "engine/base/error.h"
#include "models/hugging_face_keys.h"
#include "models/model.h"

namespace trainyard::hugging_face_test {

namespace {

std::string golden(const std::string& name) {
#ifdef TRAINYARD_SOURCE_DIR
  const std::filesystem::path tests = std::filesystem::path(TRAINYARD_SOURCE_DIR) / "tests";
#else
  const std::filesystem::path tests = std::filesystem::path(__FILE__).parent_path().parent_path();
#endif
  return (tests / "golden" / "hugging_face" / name).string();
}

HuggingFaceModel parse(const std::string& text) {
  return parse_hugging_face_config(text, "c.json");
}

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("published config.json files give the published number of parameters") {
  // The derivations are in the tests of each family; t5-v1_1-small (h = 512, i = 384, f = 1024,
  // N = 6, L = 8) has 2 V h + 8 (4 h i + 3 h f + 2 h) + 8 (8 h i + 3 h f + 3 h) + 2 (32 N + h).
  const auto [file, count] = GENERATE(table<std::string, std::int64_t>({
      {"gpt2.json", 124'439'808},
      {"gpt2-xl.json", 1'557'611'200},
      {"bert-base.json", 109'514'298},
      {"roberta-base.json", 124'697'433},
      {"t5-small.json", 60'506'624},
      {"t5-v1_1-small.json", 76'961'152},
      {"llama-2-7b.json", 6'738'415'616},
      {"llama-3-8b.json", 8'030'261'248},
      {"mistral-7b.json", 7'241'732'096},
      {"qwen2-0.5b.json", 494'032'768},
      // By transformers 5.23.0 itself: from_config() on the device meta, parameters counted.
      {"llama-3.1-8b.json", 8'030'261'248},
      {"qwen3-8b.json", 8'190'735'360},
      {"gemma-7b.json", 8'537'680'896},
      {"gemma-2-9b.json", 9'241'705'984},
      {"phi-3-mini.json", 3'821'079'552},
      {"gpt-neox-20b.json", 20'554'567'680},
      {"falcon-7b.json", 6'921'720'704},
      {"falcon-40b.json", 41'303'293'952},
      {"falcon-rw-1b.json", 1'311'625'216},
      {"opt-6.7b.json", 6'658'473'984},
      {"mpt-7b.json", 6'649'286'656},
      {"mamba2-130m.json", 128'989'632},  // as the preset
      {"vit-base.json", 85'800'963},
      {"vit-no-qkv-bias.json", 8'361'109},
      {"swin-tiny.json", 27'521'661},
      {"swin-base-384.json", 86'881'659},
      {"resnet-18.json", 11'178'051},
      {"resnet-50.json", 23'514'179},
      {"resnet-152-x2.json", 232'265'859},
      {"clip-vit-b-32.json", 151'277'313},  // as the preset
  }));
  CAPTURE(file);
  const HuggingFaceModel model = read_hugging_face_config(golden(file));
  ModelConfig config = model.config;
  config.seq_len = std::min<std::int64_t>(config.seq_len, 8192);  // of 2^40 elements at most
  const BuildOptions one_group{.microbatch = std::max<std::int64_t>(1, config.contrast)};
  CHECK(count_parameters(build_model(config, one_group)).with_head == count);
  CHECK(model.config.name == golden(file));
}

TEST_CASE("absent keys take the defaults of the model type") {
  CHECK(parse(R"({"model_type": "gpt2"})").config.vocab == 50257);
  CHECK(parse(R"({"model_type": "bert"})").config.token_types == 2);
  CHECK(parse(R"({"model_type": "roberta"})").config.seq_len == 510);  // of 512 rows, 2 reserved
  CHECK(parse(R"({"model_type": "t5", "num_layers": 3})").config.decoder_layers == 3);
  CHECK(parse(R"({"model_type": "llama", "num_attention_heads": 64})").config.kv_heads == 64);
  CHECK(parse(R"({"model_type": "mistral"})").config.kv_heads == 8);
  CHECK(parse(R"({"model_type": "mistral", "num_key_value_heads": null})").config.kv_heads == 32);
  CHECK(parse(R"({"model_type": "qwen2"})").config.qkv_bias);
  CHECK(parse(R"({"model_type": "llama", "head_dim": 64})").config.head_dim == 64);
}

TEST_CASE("a T5's head is tied where its outputs are scaled, as transformers 5 says it") {
  // transformers 5 writes tie_word_embeddings: true for all; only scale_decoder_outputs tells 1.1
  // apart.
  const auto tied = [](const std::string& keys) {
    return parse(R"({"model_type": "t5", )" + keys + "}").config.tied_embeddings;
  };
  CHECK_FALSE(tied(R"("tie_word_embeddings": true, "scale_decoder_outputs": false)"));
  CHECK(tied(R"("tie_word_embeddings": true, "scale_decoder_outputs": true)"));
  CHECK_FALSE(tied(R"("tie_word_embeddings": false, "scale_decoder_outputs": false)"));
  CHECK_FALSE(tied(R"("tie_word_embeddings": false)"));  // transformers 4
  CHECK(tied(R"("tie_word_embeddings": true)"));
  CHECK(
      error_of(
          R"({"model_type": "t5", "tie_word_embeddings": false, "scale_decoder_outputs": true})") ==
      "c.json:1:52: scale_decoder_outputs: a head of its own that is scaled is not modelled; "
      "expected false where "
      "tie_word_embeddings is false");
}

TEST_CASE("the base of rotary angles is read where either version of transformers writes it") {
  for (const std::string type : {"llama", "mistral", "qwen2"}) {
    const auto base = [&](const std::string& keys) {
      return parse(R"({"model_type": ")" + type + "\", " + keys + "}").config.rope_base;
    };
    CHECK(base(R"("vocab_size": 100)") == 10000);
    CHECK(base(R"("rope_theta": 500000.0, "rope_scaling": null)") == 500000);
    CHECK(base(R"("rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"})") == 500000);
    CHECK(base(R"("rope_theta": 20000, "rope_parameters": {"rope_type": "default"})") == 20000);
  }
}

TEST_CASE("rotary angles of another kind are refused") {
  const auto error = [](const std::string& keys) {
    return error_of("{\"model_type\": \"llama\",\n " + keys + "}");
  };
  CHECK(error(R"("rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5})") ==
        "c.json:2:2: rope_parameters.factor: missing");
  CHECK(error(R"("rope_parameters": {"rope_type": "llama3", "factor": 8})") ==
        "c.json:2:2: rope_parameters.low_freq_factor: missing");
  CHECK(error(R"("rope_scaling": {"type": "dynamic", "factor": 2})") ==
        "c.json:2:19: rope_scaling.type: 'dynamic' is not modelled (a base that changes with the "
        "length of sequences); expected default, linear or llama3");
  CHECK(error(R"("rope_scaling": {"rope_type": "yarn", "factor": 2})") ==
        "c.json:2:19: rope_scaling.rope_type: 'yarn' is not modelled (frequencies mixed by a ramp, "
        "and scores that are scaled with them); expected default, linear or llama3");
  CHECK(error(R"("rope_parameters": {"rope_theta": 5e5, "partial_rotary_factor": 0.5})") ==
        "c.json:2:41: rope_parameters.partial_rotary_factor: rotary embeddings of a part of a head "
        "are not this model type's; expected 1");
  CHECK(error(R"("rope_parameters": {"full_attention": {"rope_theta": 5e5}})") ==
        "c.json:2:22: rope_parameters.full_attention: rotary embeddings that differ from layer to "
        "layer are not modelled");
  CHECK(
      error(R"("rope_parameters": {"rope_theta": -1})") ==
      "c.json:2:22: rope_parameters.rope_theta: expected at least 1 and less than 1.0e+12, got -1");
  CHECK(error(R"("rope_parameters": 3)") ==
        "c.json:2:2: rope_parameters: expected a JSON object, got 3");
}

TEST_CASE("a sliding window is the model's where its layers have one") {
  const auto window = [](const std::string& text) { return parse(text).config.attention_window; };
  CHECK(window(R"({"model_type": "mistral", "sliding_window": 1024})") == 1024);
  CHECK(window(R"({"model_type": "mistral"})") == 4096);  // unless said
  CHECK(window(R"({"model_type": "mistral", "sliding_window": null})") == 0);
  CHECK(window(R"({"model_type": "qwen2", "sliding_window": 1024})") == 0);
  const std::string qwen = R"({"model_type": "qwen2", "use_sliding_window": true, )";
  CHECK(window(qwen + R"("num_hidden_layers": 29})") == 4096);  // layers from the 28th on
  CHECK(window(qwen + R"("num_hidden_layers": 28})") == 0);
  CHECK(window(qwen + R"("max_window_layers": 0, "num_hidden_layers": 2})") == 4096);
  CHECK(window(
            qwen +
            R"("num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"]})") ==
        4096);
  CHECK(window(qwen + R"("num_hidden_layers": 1, "layer_types": ["full_attention"]})") == 0);
  CHECK(error_of(qwen + R"("num_hidden_layers": 29, "layer_types": ["full_attention"]})") ==
        "c.json:1:78: layer_types: expected a word for each of 29 layers, got 1");
}

TEST_CASE("a window is the attention's where it is shorter than the sequence") {
  ModelConfig c =
      parse(R"({"model_type": "mistral", "sliding_window": 1024, "num_hidden_layers": 1})").config;
  const auto attended = [&] {
    for (const Op& op : build_model(c, {}).ops) {
      if (op.kind == OpKind::kAttention) return op.attrs->attended;
    }
    return -1;
  };
  c.seq_len = 1025;
  CHECK(attended() == 1024);
  c.seq_len = 1024;
  CHECK(attended() == 0);
  // Nothing of BERT's comes before what attends to it.
  c = parse(R"({"model_type": "bert"})").config;
  c.attention_window = 100;
  REQUIRE(find_problem(c));
  CHECK(find_problem(c)->key == "attention_window");
}

TEST_CASE("how GPT-2 scales its scores is honoured") {
  // scores / sqrt(head_dim 64), and of layer i (from 0) / (i + 1): GPT2Attention.scaling in
  // transformers.
  const auto scales = [](const std::string& keys) {
    const Graph graph =
        build_model(parse(R"({"model_type": "gpt2", "n_layer": 3)" + keys + "}").config, {});
    std::vector<float> out;
    for (const Op& op : graph.ops) {
      if (op.kind == OpKind::kAttention) out.push_back(op.attrs->scale);
    }
    return out;
  };
  CHECK(scales("") == std::vector<float>{0.125F, 0.125F, 0.125F});
  CHECK(scales(R"(, "scale_attn_weights": false)") == std::vector<float>{1, 1, 1});
  CHECK(scales(R"(, "scale_attn_by_inverse_layer_idx": true)") ==
        std::vector<float>{0.125F, 0.0625F, 0.125F / 3});
  CHECK(scales(R"(, "scale_attn_by_inverse_layer_idx": true, "scale_attn_weights": false)") ==
        std::vector<float>{1, 0.5F, 1.0F / 3});
}

TEST_CASE("every default is that of transformers") {
  // The table's defaults come from the library: to say them all changes nothing.
  for (const std::string type :
       {"gpt2", "bert", "roberta", "t5", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2",
        "phi3", "gpt_neox", "falcon", "opt", "mpt", "vit", "swin", "resnet"}) {
    std::string text = "{\"model_type\": \"" + type + "\"";
    for (const HuggingFaceKey& row : hugging_face_keys()) {
      if (row.model_type != type || row.otherwise.empty() || row.use == KeyUse::kOtherName)
        continue;
      text += ", \"" + std::string(row.key) + "\": " + std::string(row.otherwise);
    }
    CAPTURE(text);
    CHECK(parse(text + "}").config == parse("{\"model_type\": \"" + type + "\"}").config);
    // One of all defaults, swin's drop_path_rate, is not modelled.
    CHECK(parse(text + "}").warnings.size() == (type == "swin" ? 1 : 0));
  }
}

TEST_CASE("keys that no such model has are named in one warning") {
  CHECK(
      parse(R"({"model_type": "gpt2", "n_layer": 2, "torch_dtype": "float32"})").warnings.empty());
  CHECK(parse("{\"model_type\": \"gpt2\",\n \"rotary\": 1, \"n_layer\": 2, \"logits_scaling\": 8}")
            .warnings ==
        std::vector<std::string>{
            "c.json:2:2: left out, since gpt2 has no such keys in transformers 5.23.0: rotary and "
            "logits_scaling"});
}

TEST_CASE("another name of a key may say the same, and nothing else") {
  CHECK(parse(R"({"model_type": "gpt2", "num_hidden_layers": 12})").config.layers == 12);
  CHECK(error_of(R"({"model_type": "gpt2", "num_hidden_layers": 24})") ==
        "c.json:1:24: num_hidden_layers: another name of n_layer, which is 12, got 24");
  CHECK(error_of(
            R"({"model_type": "t5", "feed_forward_proj": "gated-gelu", "dense_act_fn": "silu"})") ==
        "c.json:1:57: dense_act_fn: expected gelu_new, that of feed_forward_proj gated-gelu");
}

TEST_CASE("numbers that a study refuses are refused at their key") {
  CHECK(error_of(R"({"model_type": "llama", "rms_norm_eps": 5})") ==
        "c.json:1:25: rms_norm_eps: expected at least 0 and less than 1, got 5");
  CHECK(error_of(R"({"model_type": "llama", "rope_theta": 1e30})") ==
        "c.json:1:25: rope_theta: expected at least 1 and less than 1.0e+12, got 1e+30");
  CHECK(error_of(R"({"model_type": "gpt2", "quantization_config": {"bits": 4}})") ==
        "c.json:1:24: quantization_config: {\"bits\":4} is not modelled; expected null");
}

TEST_CASE("what cannot be built names the key, where it is, and what would work") {
  const std::string known =
      "; expected gpt2, bert, roberta, t5, llama, mistral, qwen2, qwen3, gemma, gemma2, phi3, "
      "gpt_neox, falcon, opt, mpt, mamba2, vit, swin, resnet or clip";
  CHECK(error_of(R"({"n_layer": 12})") == "c.json:1:1: model_type: missing" + known);
  CHECK(error_of(R"({"model_type": "xlnet"})") ==
        "c.json:1:2: model_type: unknown model type 'xlnet'" + known +
            "; an ONNX file of it may be read (docs/onnx.md)");
  CHECK(error_of(R"({"model_type": "bloom"})") ==
        "c.json:1:2: model_type: 'bloom' is not modelled: it has a norm of the embeddings" + known +
            "; an ONNX file of it may be read (docs/onnx.md)");
  for (const std::string type : {"mixtral", "qwen2_moe"})
    CHECK(error_of("{\"model_type\": \"" + type + "\"}") ==
          "c.json:1:2: model_type: '" + type +
              "' is not modelled: it has experts, MLPs among which a router chooses" + known);
  CHECK(error_of("{\"model_type\": \"gpt2\",\n  \"n_layer\": \"twelve\"}") ==
        "c.json:2:3: n_layer: expected an integer, got \"twelve\"");
  CHECK(error_of(R"({"model_type": "gpt2", "n_layer": -3})") ==
        "c.json:1:24: n_layer: expected at least 1, got -3");
  CHECK(error_of(R"({"model_type": "gpt2", "n_layer": 18446744073709551615})") ==
        "c.json:1:24: n_layer: expected at most 1073741824, got 18446744073709551615");
  CHECK(error_of(R"({"model_type": "gpt2", "n_layer": 1e99})") ==
        "c.json:1:24: n_layer: expected an integer, got 1e+99");
  CHECK(error_of(R"({"model_type": "gpt2", "n_layer": 100001})") ==
        "c.json:1:24: n_layer: expected at most 100000, got 100001");
  CHECK(error_of(R"({"model_type": "gpt2", "n_head": 7})") ==
        "c.json:1:24: n_head: 7 does not divide n_embd, 768");
  CHECK(error_of(R"({"model_type": "llama", "num_key_value_heads": 5})") ==
        "c.json:1:25: num_key_value_heads: 5 does not divide num_attention_heads, 32");
  CHECK(error_of(R"({"model_type": "llama", "tie_word_embeddings": "no"})") ==
        "c.json:1:25: tie_word_embeddings: expected true or false, got \"no\"");
  CHECK(error_of(R"({"model_type": "llama", "hidden_act": 3})") ==
        "c.json:1:25: hidden_act: expected a string, got 3");
  CHECK(error_of(R"({"model_type": "bert", "position_embedding_type": "relative_key"})") ==
        "c.json:1:24: position_embedding_type: 'relative_key' is not modelled; expected absolute");
  CHECK(error_of(R"({"model_type": "bert", "is_decoder": true})") ==
        "c.json:1:24: is_decoder: true is not modelled; expected false");
}

TEST_CASE("a key is found at the top level only, past nested ones and strings that look like it") {
  CHECK(error_of("{\"note\": \"\\\"n_layer\\\": 1\", \"nested\": {\"n_layer\": 0},\n"
                 "\"list\": [\"n_layer\"], \"model_type\": \"gpt2\",\n"
                 "    \"n_layer\": 0}") == "c.json:3:5: n_layer: expected at least 1, got 0");
}

TEST_CASE("text that is not a JSON object is refused with its place") {
  CHECK_THAT(error_of("{\"model_type\": \"gpt2\",\n  oops}"),
             Catch::StartsWith("c.json:2:3: is not JSON: syntax error while parsing object key"));
  CHECK_THAT(error_of(""), Catch::StartsWith("c.json:1:1: is not JSON: syntax error"));
  CHECK(error_of("[1, 2]") == "c.json:1:1: expected a JSON object, got [1,2]");
  CHECK(error_of("null") == "c.json:1:1: expected a JSON object, got null");
  CHECK_THROWS_AS(parse(std::string(100'000, '[')), ConfigError);
  CHECK_THROWS_AS(parse("{\"a\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
                  ConfigError);
  CHECK_THROWS_AS(parse("{\"model_type\": \"\xff\xfe\"}"), ConfigError);
  CHECK_THROWS_AS(parse("{\"model_type\": \"gpt2\", \"n_layer\": 1e999}"), ConfigError);
}

TEST_CASE("a file that is not there, or is a folder, is refused") {
  CHECK_THROWS_WITH(read_hugging_face_config("/no/such/config.json"),
                    "/no/such/config.json: cannot be read");
  CHECK_THROWS_AS(read_hugging_face_config("/"), ConfigError);
}

}  // namespace trainyard::hugging_face_test
