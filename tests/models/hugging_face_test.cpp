// config.json files: published models come out with their published sizes, absent keys take the
// library's defaults, and whatever cannot be read names the file, the place and the key.
#include "models/hugging_face.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "engine/base/error.h"
#include "models/model.h"

namespace trainyard {

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
  }));
  CAPTURE(file);
  const HuggingFaceModel model = read_hugging_face_config(golden(file));
  CHECK(count_parameters(build_model(model.config, {})).with_head == count);
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
  // transformers 5 writes tie_word_embeddings: true for all; only scale_decoder_outputs tells 1.1 apart.
  const auto tied = [](const std::string& keys) {
    return parse(R"({"model_type": "t5", )" + keys + "}").config.tied_embeddings;
  };
  CHECK_FALSE(tied(R"("tie_word_embeddings": true, "scale_decoder_outputs": false)"));
  CHECK(tied(R"("tie_word_embeddings": true, "scale_decoder_outputs": true)"));
  CHECK_FALSE(tied(R"("tie_word_embeddings": false, "scale_decoder_outputs": false)"));
  CHECK_FALSE(tied(R"("tie_word_embeddings": false)"));  // transformers 4
  CHECK(tied(R"("tie_word_embeddings": true)"));
  CHECK(error_of(R"({"model_type": "t5", "tie_word_embeddings": false, "scale_decoder_outputs": true})") ==
        "c.json:1:52: scale_decoder_outputs: a head of its own that is scaled is not modelled; expected false where "
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
  const auto error = [](const std::string& keys) { return error_of("{\"model_type\": \"llama\",\n " + keys + "}"); };
  CHECK(error(R"("rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8})") ==
        "c.json:2:2: rope_parameters.rope_type: 'llama3' is not modelled; expected default");
  CHECK(error(R"("rope_scaling": {"type": "linear", "factor": 2})") ==
        "c.json:2:2: rope_scaling.type: 'linear' is not modelled; expected default");
  CHECK(error(R"("rope_parameters": {"rope_theta": 5e5, "partial_rotary_factor": 0.5})") ==
        "c.json:2:2: rope_parameters.partial_rotary_factor: rotary embeddings of a part of a head are not modelled; "
        "expected 1");
  CHECK(error(R"("rope_parameters": {"full_attention": {"rope_theta": 5e5}})") ==
        "c.json:2:2: rope_parameters.full_attention: rotary embeddings that differ from layer to layer are not modelled");
  CHECK(error(R"("rope_parameters": {"rope_theta": -1})") ==
        "c.json:2:2: rope_parameters.rope_theta: expected a number greater than 0, got -1");
  CHECK(error(R"("rope_parameters": 3)") == "c.json:2:2: rope_parameters: expected an object, got 3");
}

TEST_CASE("a sliding window is noted, once it is narrower than the sequence") {
  const auto warnings = [](const std::string& text) { return parse(text).warnings; };
  CHECK(warnings("{\"model_type\": \"mistral\",\n \"sliding_window\": 1024}") ==
        std::vector<std::string>{"c.json:2:2: sliding_window: the window of 1024 tokens is not "
                                 "modelled; attention covers the whole sequence"});
  CHECK(warnings(R"({"model_type": "mistral"})").size() == 1);  // 4096 unless said
  CHECK(warnings(R"({"model_type": "mistral", "sliding_window": null})").empty());
  CHECK(warnings(R"({"model_type": "qwen2", "sliding_window": 1024})").empty());
  CHECK(warnings(R"({"model_type": "qwen2", "use_sliding_window": true})").size() == 1);
}

TEST_CASE("what cannot be built names the key, where it is, and what would work") {
  CHECK(error_of(R"({"n_layer": 12})") ==
        "c.json: model_type: missing; expected gpt2, bert, roberta, t5, llama, mistral or qwen2");
  CHECK(error_of(R"({"model_type": "mamba"})") ==
        "c.json:1:2: model_type: unknown model type 'mamba'; expected gpt2, bert, roberta, t5, "
        "llama, mistral or qwen2");
  CHECK(error_of("{\"model_type\": \"gpt2\",\n  \"n_layer\": \"twelve\"}") ==
        "c.json:2:3: n_layer: expected an integer, got \"twelve\"");
  CHECK(error_of(R"({"model_type": "gpt2", "n_layer": -3})") ==
        "c.json:1:24: n_layer: expected 1 to 1073741824, got -3");
  CHECK(error_of(R"({"model_type": "gpt2", "n_layer": 18446744073709551615})") ==
        "c.json:1:24: n_layer: expected 1 to 1073741824, got 18446744073709551615");
  CHECK(error_of(R"({"model_type": "gpt2", "n_layer": 1e99})") ==
        "c.json:1:24: n_layer: expected an integer, got 1e+99");
  CHECK(error_of(R"({"model_type": "gpt2", "n_layer": 100001})") ==
        "c.json: layers: expected at most 100000, got 100001");
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
                 "    \"n_layer\": 0}") == "c.json:3:5: n_layer: expected 1 to 1073741824, got 0");
}

TEST_CASE("text that is not a JSON object is refused with its place") {
  CHECK_THAT(error_of("{\"model_type\": \"gpt2\",\n  oops}"),
             Catch::StartsWith("c.json:2:3: syntax error while parsing object key"));
  CHECK_THAT(error_of(""), Catch::StartsWith("c.json:1:1: syntax error"));
  CHECK(error_of("[1, 2]") == "c.json: expected a JSON object, got array");
  CHECK(error_of("null") == "c.json: expected a JSON object, got null");
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

}  // namespace trainyard
