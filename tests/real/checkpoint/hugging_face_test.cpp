// Hugging Face's weights: names and shapes as transformers saves them (tests/golden, made by
// tests/oracle/hugging_face_names.py), both directions inverse to each other, damage refused.
#include "models/hugging_face.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "models/model.h"
#include "models/presets.h"
#include "real/checkpoint/hugging_face_names.h"
#include "real/checkpoint/hugging_face_weights.h"
#include "real/checkpoint/save_hugging_face.h"
#include "real/checkpoint/stored_weights.h"
#include "tests/real/checkpoint/checkpoint_fixture.h"
#include "tests/support/scratch_folder.h"

namespace trainyard {

namespace {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

ModelConfig tiny(Family family) {
  ModelConfig c;
  c.family = family;
  c.layers = 2;
  c.hidden = 6;
  c.heads = 2;
  c.kv_heads = 2;
  c.head_dim = 3;
  c.ffn = 10;
  c.vocab = 11;
  c.seq_len = 8;
  if (family == Family::kGpt || family == Family::kBert) c.max_positions = 8;
  if (family == Family::kBert) c.token_types = 2;
  if (family == Family::kLlama) {
    c.kv_heads = 1;
    c.head_dim = 4;
    c.tied_embeddings = false;
  }
  if (family == Family::kT5) {
    c.decoder_layers = 1;
    c.decoder_seq_len = 8;
    c.relative_buckets = 4;
  }
  if (family == Family::kT5 || family == Family::kLlama) {
    c.activation = Activation::kSwiglu;
    c.linear_bias = false;
    c.qkv_bias = false;
  }
  return c;
}

std::vector<HuggingFaceWeight> weights_of(const ModelConfig& config) {
  return hugging_face_weights(hugging_face_type(config), build_model(config, {}));
}

Shapes their_shapes(const ModelConfig& config) {
  Shapes shapes;
  for (const HuggingFaceWeight& weight : weights_of(config)) {
    std::vector<std::int64_t> shape = weight.shape;
    shape.front() = weight.rows;
    if (weight.transposed) std::swap(shape[0], shape[1]);
    shapes[weight.theirs] = shape;
  }
  return shapes;
}

HuggingFaceWeight find(const ModelConfig& config, const std::string& ours) {
  for (const HuggingFaceWeight& weight : weights_of(config)) {
    if (weight.ours == ours) return weight;
  }
  FAIL(ours << " is not there");
  return {};
}

/// Every weight of the model, each element another number that bf16 holds exactly up to a point.
Values numbered_weights(const ModelConfig& config) {
  Values values;
  int next = 0;
  for (const StoredWeight& weight : stored_weights(build_model(config, {}))) {
    std::vector<float>& elements = values[weight.name];
    for (std::int64_t i = product(weight.shape); i-- > 0;) {
      elements.push_back(static_cast<float>(next++));
    }
  }
  return values;
}

std::vector<Piece> whole_weights(const ModelConfig& config) {
  std::vector<Piece> pieces;
  for (const StoredWeight& weight : stored_weights(build_model(config, {}))) {
    pieces.push_back(whole_tensor(weight.name, DType::kFp32, weight.shape));
  }
  return pieces;
}

void save_numbered(const ModelConfig& config, const ScratchFolder& scratch, DType dtype) {
  write_checkpoint(scratch / "ours", at_step(1), {whole_weights(config)}, numbered_weights(config));
  const Checkpoint checkpoint =
      Checkpoint::open(latest_complete(scratch / "ours").value(), Verify::kChecksums);
  save_hugging_face(checkpoint, config, scratch / "theirs", dtype);
}

/// What config.json can hold, in one line.
std::string essence(const ModelConfig& c) {
  nlohmann::json json = {to_string(c.family),
                         c.layers,
                         c.decoder_layers,
                         c.hidden,
                         c.heads,
                         c.kv_heads,
                         c.head_dim,
                         c.ffn,
                         c.vocab,
                         c.seq_len,
                         c.decoder_seq_len,
                         c.max_positions,
                         c.token_types,
                         c.norm_eps,
                         c.rope_base,
                         c.relative_buckets,
                         to_string(c.activation),
                         c.tied_embeddings,
                         c.linear_bias,
                         c.qkv_bias};
  return json.dump();
}

std::string error_of_type(ModelConfig config) {
  return error_of([&] { hugging_face_type(config); });
}

/// Files of one tensor after another, to be changed by hand.
void write_tensors(const std::string& path,
                   const std::map<std::string, SafetensorsTensor>& tensors) {
  std::vector<SafetensorsEntry> entries;
  entries.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) entries.push_back({name, *tensor.dtype, tensor.shape});
  SafetensorsWriter writer(path, entries, {});
  for (const auto& [name, tensor] : tensors) writer.append(tensor.data);
  writer.finish();
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
  CHECK(files == 13);
}

TEST_CASE("every weight of every preset has a name") {
  for (const ModelPreset& preset : model_presets()) {
    CAPTURE(preset.name);
    std::int64_t elements = 0;
    for (const HuggingFaceWeight& weight : weights_of(preset.config)) {
      elements += product(weight.shape);
    }
    const Graph graph = build_model(preset.config, {});
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
    const std::string text = hugging_face_config(preset.config, DType::kBf16);
    CHECK(essence(parse_hugging_face_config(text, "c.json").config) == essence(preset.config));
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

TEST_CASE("what is saved for transformers is read back, piece by piece") {
  const Family family = GENERATE(Family::kGpt, Family::kBert, Family::kT5, Family::kLlama);
  const bool flip_tied = GENERATE(false, true);
  CAPTURE(to_string(family), flip_tied);
  ModelConfig config = tiny(family);
  if (flip_tied) config.tied_embeddings = !config.tied_embeddings;
  config.next_sentence = family == Family::kBert;
  const ScratchFolder scratch;
  save_numbered(config, scratch, DType::kFp32);
  CHECK(essence(read_hugging_face_config(scratch / "theirs/config.json").config) ==
        essence(config));

  const HuggingFaceWeights theirs = HuggingFaceWeights::open(scratch / "theirs", config);
  const Values values = numbered_weights(config);
  const auto matches = [&](const Piece& piece) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(num_bytes(piece)));
    theirs.read(piece, bytes);
    return bytes == cut(piece, values.at(piece.tensor));
  };
  for (const Piece& whole : whole_weights(config)) {
    CAPTURE(to_string(whole));
    CHECK(matches(whole));
    for (std::size_t dim = 0; dim < whole.shape.size(); ++dim) {
      std::vector<std::int64_t> start(whole.shape.size(), 0);
      std::vector<std::int64_t> extent = whole.shape;
      start[dim] = whole.shape[dim] / 3;
      extent[dim] -= start[dim];
      Piece part = rectangle(whole.tensor, whole.dtype, whole.shape, start, extent);
      CHECK(matches(part));
      part.flat_begin = part.flat_end / 4;
      part.flat_end -= part.flat_end / 3;
      CHECK(matches(part));
    }
  }
}

TEST_CASE("GPT-2's q, k and v lie beside each other, input by input") {
  const ModelConfig config = tiny(Family::kGpt);
  const ScratchFolder scratch;
  save_numbered(config, scratch, DType::kFp64);
  const SafetensorsFile file(scratch / "theirs/model.safetensors");
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  const SafetensorsTensor& fused = file.tensors().at("transformer.h.0.attn.c_attn.weight");
  REQUIRE(fused.shape == std::vector<std::int64_t>{6, 18});
  const Values values = numbered_weights(config);
  for (std::size_t in = 0; in < 6; ++in) {
    for (std::size_t out = 0; out < 18; ++out) {
      const char* const part = out < 6 ? "q" : out < 12 ? "k" : "v";
      double element = 0;
      std::memcpy(&element, fused.data.data() + (in * 18 + out) * 8, 8);
      CHECK(element == static_cast<double>(
                           values.at("decoder.layers.0.attention." + std::string(part) + ".weight")
                               .at(out % 6 * 6 + in)));
    }
  }
}

TEST_CASE("weights in several files, without prefix, or with TensorFlow's names are found") {
  ModelConfig config = tiny(Family::kBert);
  const ScratchFolder scratch;
  save_numbered(config, scratch, DType::kBf16);
  const SafetensorsFile file(scratch / "theirs/model.safetensors");
  std::filesystem::create_directory(scratch / "other");
  std::map<std::string, SafetensorsTensor> halves[2];
  nlohmann::json map;
  for (const auto& [name, tensor] : file.tensors()) {
    std::string other = name.starts_with("bert.") ? name.substr(5) : name;
    if (other.ends_with("LayerNorm.weight")) other.replace(other.size() - 6, 6, "gamma");
    if (other.ends_with("LayerNorm.bias")) other.replace(other.size() - 4, 4, "beta");
    const std::size_t half = map.size() % 2;
    map[other] = half == 0 ? "a.safetensors" : "b.safetensors";
    halves[half][other] = tensor;
  }
  write_tensors(scratch / "other/a.safetensors", halves[0]);
  write_tensors(scratch / "other/b.safetensors", halves[1]);
  const std::string index = scratch / "other/model.safetensors.index.json";
  write_text(index, nlohmann::json{{"weight_map", map}}.dump());

  const HuggingFaceWeights theirs = HuggingFaceWeights::open(scratch / "other", config);
  const Piece norm = whole_tensor("encoder.layers.1.norm_2.bias", DType::kFp32, {6});
  std::vector<float> read(6);
  theirs.read(norm, std::as_writable_bytes(std::span(read)));
  for (std::size_t i = 0; i < 6; ++i) {
    const float expected = numbered_weights(config).at(norm.tensor)[i];
    CHECK(std::abs(read[i] - expected) <= expected / 256);  // as bf16
  }

  write_text(index, R"({"weight_map": {"x": "../a.safetensors"}})");
  CHECK(error_of([&] { HuggingFaceWeights::open(scratch / "other", config); }) ==
        index +
            ":1:17: weight_map.x: expected the name of a file beside it, got \"../a.safetensors\"");
  write_text(index, R"({"weight_map": {"x": "a.safetensors"}})");
  CHECK_THAT(error_of([&] { HuggingFaceWeights::open(scratch / "other", config); }),
             Catch::StartsWith((scratch / "other") + ": has no "));
}

TEST_CASE("weights of another model are refused") {
  const ScratchFolder scratch;
  ModelConfig config = tiny(Family::kGpt);
  save_numbered(config, scratch, DType::kFp32);
  const std::string folder = scratch / "theirs";
  const auto error = [&](const std::string& path) {
    return error_of([&] { HuggingFaceWeights::open(path, config); });
  };
  config.layers = 3;
  CHECK(error(folder) == folder +
                             ": has no transformer.h.2.ln_1.weight, which "
                             "decoder.layers.2.norm_1.weight is read from");
  config.layers = 2;
  config.ffn = 12;
  CHECK(error(folder) == folder +
                             "/model.safetensors: transformer.h.0.mlp.c_fc.weight: of shape "
                             "[6, 10], where decoder.layers.0.mlp.fc1.weight needs [6, 12]");
  config.ffn = 10;
  CHECK(error(scratch / "ours") ==
        (scratch / "ours") + ": has neither model.safetensors nor model.safetensors.index.json");
  CHECK(error(scratch / "none") == (scratch / "none") + ": No such file or directory");

  const HuggingFaceWeights theirs = HuggingFaceWeights::open(folder + "/model.safetensors", config);
  const auto read_error = [&](const Piece& piece) {
    std::vector<std::byte> out(static_cast<std::size_t>(num_bytes(piece)));
    return error_of([&] { theirs.read(piece, out); });
  };
  CHECK(read_error(whole_tensor("x", DType::kFp32, {1})) ==
        folder + "/model.safetensors: has no tensor x");
  CHECK(read_error(whole_tensor("decoder.final_norm.bias", DType::kFp32, {7})) ==
        folder + "/model.safetensors: decoder.final_norm.bias: of shape [6], expected [7]");
  CHECK(read_error(whole_tensor("decoder.final_norm.bias", DType::kInt32, {6})) ==
        folder + "/model.safetensors: decoder.final_norm.bias: is F32, expected int32");

  const SafetensorsFile file(folder + "/model.safetensors");
  auto tensors = file.tensors();
  tensors.at("transformer.ln_f.bias").dtype = DType::kInt32;
  write_tensors(scratch / "ints.safetensors", tensors);
  CHECK(error(scratch / "ints.safetensors") == (scratch / "ints.safetensors") +
                                                   ": transformer.ln_f.bias: is I32, expected a "
                                                   "floating-point type of 16 bits or more");
}

TEST_CASE("a checkpoint of another model is not saved") {
  const ScratchFolder scratch;
  ModelConfig config = tiny(Family::kLlama);
  write_checkpoint(scratch / "ours", at_step(1), {whole_weights(config)}, numbered_weights(config));
  const std::string path = latest_complete(scratch / "ours").value();
  const Checkpoint checkpoint = Checkpoint::open(path, Verify::kChecksums);
  config.layers = 3;
  CHECK(error_of([&] {
          save_hugging_face(checkpoint, config, scratch / "theirs", DType::kFp32);
        }) == path + ": has no tensor decoder.layers.2.norm_1.weight");
  CHECK(std::filesystem::is_empty(scratch / "theirs"));
}

}  // namespace trainyard
