// Files of Hugging Face's weights: both directions inverse to each other, damage refused.
#include "real/checkpoint/hugging_face_weights.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "models/hugging_face.h"
#include "models/model.h"
#include "real/checkpoint/save_hugging_face.h"
#include "real/checkpoint/stored_weights.h"
#include "tests/real/checkpoint/checkpoint_fixture.h"
#include "tests/real/checkpoint/numbered_weights.h"
#include "tests/real/checkpoint/tiny_model.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::hugging_face_weights_test {

namespace {

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

/// The file has it, and every piece of every weight of it.
void check_read_back(const ModelConfig& config) {
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

}  // namespace

TEST_CASE("what is saved for transformers is read back, piece by piece") {
  const Family family = GENERATE(Family::kGpt, Family::kBert, Family::kT5, Family::kLlama);
  const bool flip_tied = GENERATE(false, true);
  CAPTURE(to_string(family), flip_tied);
  ModelConfig config = tiny(family);
  if (flip_tied) config.tied_embeddings = !config.tied_embeddings;
  config.next_sentence = family == Family::kBert;
  check_read_back(config);
}

TEST_CASE("a vision transformer that is saved for transformers is read back") {
  ModelConfig config = tiny(Family::kVit);
  check_read_back(config);
  config.qkv_bias = false;
  config.activation = Activation::kGeluTanh;
  check_read_back(config);
  const ScratchFolder scratch;
  save_numbered(config, scratch, DType::kFp32);
  const SafetensorsFile file(scratch / "theirs/model.safetensors");
  const auto shape = [&](const std::string& name) { return file.tensors().at(name).shape; };
  CHECK(shape("vit.embeddings.cls_token") == std::vector<std::int64_t>{1, 1, 6});
  CHECK(shape("vit.embeddings.position_embeddings") == std::vector<std::int64_t>{1, 5, 6});
  CHECK(shape("vit.embeddings.patch_embeddings.projection.weight") ==
        std::vector<std::int64_t>{6, 3, 4, 4});
}

// Ours has of each head its query, key and value together; theirs the queries of all heads in one.
TEST_CASE("Swin's heads are taken apart and put together") {
  const ModelConfig config = tiny(Family::kSwin);
  check_read_back(config);
  const ScratchFolder scratch;
  save_numbered(config, scratch, DType::kFp32);
  const SafetensorsFile file(scratch / "theirs/model.safetensors");
  // Stage 1 is 24 wide, with 4 heads of 6; its second block is layer 3.
  const std::string module = "swin.encoder.layers.1.blocks.1.attention.self.";
  const Values values = numbered_weights(config);
  const std::vector<float>& ours = values.at("layers.3.attention.qkv.weight");
  int part = 0;
  for (const char* const name : {"query", "key", "value"}) {
    const SafetensorsTensor& theirs = file.tensors().at(module + name + ".weight");
    REQUIRE(theirs.shape == std::vector<std::int64_t>{24, 24});
    for (std::size_t row = 0; row < 24; ++row) {
      const std::size_t head = row / 6, of_ours = (3 * head + part) * 6 + row % 6;
      float element = 0;
      std::memcpy(&element, theirs.data.data() + (row * 24 + 5) * sizeof element, sizeof element);
      CHECK(element == ours.at(of_ours * 24 + 5));
    }
    ++part;
  }
  std::map<std::string, SafetensorsTensor> without = file.tensors();
  without.erase(module + "key.weight");
  const std::string path = scratch / "without.safetensors";
  write_tensors(path, without);
  CHECK(error_of([&] { HuggingFaceWeights::open(path, config); }) ==
        path + ": has no " + module +
            "key.weight, which layers.3.attention.qkv.weight is read from");
}

TEST_CASE("decoders of every type that are saved for transformers are read back") {
  for (ModelConfig config : tiny_decoders()) {
    CAPTURE(config.name);
    check_read_back(config);
    config.tied_embeddings = !config.tied_embeddings;
    check_read_back(config);
  }
}

TEST_CASE("weights that transformers has no class for are saved under their own names") {
  ModelConfig config = tiny(Family::kGpt);
  const Graph graph = build_model(config, {});
  const ScratchFolder scratch;
  write_checkpoint(scratch / "ours", at_step(1), {whole_weights(config)}, numbered_weights(config));
  const Checkpoint checkpoint =
      Checkpoint::open(latest_complete(scratch / "ours").value(), Verify::kChecksums);
  save_own_weights(checkpoint, graph, scratch / "own", DType::kFp32);
  const SafetensorsFile file(scratch / "own/model.safetensors");
  const Values values = numbered_weights(config);
  CHECK(file.tensors().size() == values.size());
  for (const Piece& whole : whole_weights(config)) {
    CAPTURE(whole.tensor);
    const SafetensorsTensor& tensor = file.tensors().at(whole.tensor);
    CHECK(tensor.shape == whole.shape);
    const std::vector<std::byte> bytes = cut(whole, values.at(whole.tensor));
    CHECK(std::equal(bytes.begin(), bytes.end(), tensor.data.begin(), tensor.data.end()));
  }
}

TEST_CASE("of Falcon's groups each has its queries, its key and its value together") {
  // 2 groups of 2 queries of 4 features: rows 0 .. 7 of theirs are queries 0 and 1, then key 0.
  for (const ModelConfig& config : tiny_decoders()) {
    if (config.name != "falcon 40b") continue;
    const ScratchFolder scratch;
    save_numbered(config, scratch, DType::kFp64);
    const SafetensorsFile file(scratch / "theirs/model.safetensors");
    const SafetensorsTensor& fused =
        file.tensors().at("transformer.h.1.self_attention.query_key_value.weight");
    REQUIRE(fused.shape == std::vector<std::int64_t>{32, 16});
    const Values values = numbered_weights(config);
    for (std::size_t row = 0; row < 32; ++row) {
      const std::size_t group = row / 16, in_group = row % 16;
      const char* const part = in_group < 8 ? "q" : in_group < 12 ? "k" : "v";
      const std::size_t ours = in_group < 8 ? group * 8 + in_group : group * 4 + in_group % 4;
      double element = 0;
      std::memcpy(&element, fused.data.data() + row * 16 * 8, 8);
      CHECK(element == static_cast<double>(
                           values.at("decoder.layers.1.attention." + std::string(part) + ".weight")
                               .at(ours * 16)));
    }
  }
}

TEST_CASE("Phi-3's files hold models that have no class of their own when saved") {
  for (ModelConfig config : tiny_decoders()) {
    if (config.name != "phi3") continue;
    const ScratchFolder scratch;
    save_numbered(config, scratch, DType::kFp32);
    config.rotary_dim = 0;  // saved as Mistral's
    const HuggingFaceWeights theirs = HuggingFaceWeights::open(scratch / "theirs", config);
    const Values values = numbered_weights(config);
    for (const Piece& whole : whole_weights(config)) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(num_bytes(whole)));
      theirs.read(whole, bytes);
      CHECK(bytes == cut(whole, values.at(whole.tensor)));
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
             Catch::StartsWith((scratch / "other") + ": lacks 21 tensors of the model: "));
}

TEST_CASE("weights of another model are refused") {
  const ScratchFolder scratch;
  ModelConfig config = tiny(Family::kGpt);
  save_numbered(config, scratch, DType::kFp32);
  const std::string folder = scratch / "theirs";
  const auto error = [&](const std::string& path) {
    return error_of([&] { HuggingFaceWeights::open(path, config); });
  };
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
  tensors.erase("transformer.ln_f.bias");
  write_tensors(scratch / "less.safetensors", tensors);
  CHECK(error(scratch / "less.safetensors") ==
        (scratch / "less.safetensors") +
            ": has no transformer.ln_f.bias, which decoder.final_norm.bias is read from");
  tensors = file.tensors();
  tensors.at("transformer.ln_f.bias").dtype = DType::kInt32;
  write_tensors(scratch / "ints.safetensors", tensors);
  CHECK(error(scratch / "ints.safetensors") == (scratch / "ints.safetensors") +
                                                   ": transformer.ln_f.bias: is I32, expected a "
                                                   "floating-point type of 16 bits or more");
}

TEST_CASE("what is left over in a file is of the model, or of a head for another task") {
  const ScratchFolder scratch;
  ModelConfig config = tiny(Family::kBert);
  config.next_sentence = true;
  save_numbered(config, scratch, DType::kFp32);
  const std::string path = scratch / "theirs/model.safetensors";
  const SafetensorsFile file(path);
  const auto left_over = [&](const std::string& name) {
    return HuggingFaceWeights::open(name, config).left_over();
  };
  CHECK(left_over(path).of_model.empty());
  CHECK(left_over(path).of_heads.empty());
  config.next_sentence = false;  // as a file of BertForPreTraining is read for masks alone
  CHECK(left_over(path).of_model.empty());
  CHECK(left_over(path).of_heads ==
        std::vector<std::string>{"bert.pooler.dense.bias", "bert.pooler.dense.weight",
                                 "cls.seq_relationship.bias", "cls.seq_relationship.weight"});
  config.layers = 1;
  const std::vector<std::string> second = left_over(path).of_model;
  CHECK(second.size() == 16);  // weights and biases of 2 norms, q, k, v, proj, fc1 and fc2
  for (const std::string& name : second) CHECK(name.starts_with("bert.encoder.layer.1."));
  config.layers = 2;

  // A copy of the table that a tied head computes with is none of its own; other numbers are.
  std::map<std::string, SafetensorsTensor> tensors = file.tensors();
  const SafetensorsTensor table = tensors.at("bert.embeddings.word_embeddings.weight");
  tensors["cls.predictions.decoder.weight"] = table;
  SafetensorsTensor numbers = table;
  numbers.shape = {1, table.shape[0]};
  numbers.data = table.data.first(static_cast<std::size_t>(table.shape[0]) * 4);
  tensors["bert.embeddings.position_ids"] = numbers;
  tensors["classifier.weight"] = numbers;
  write_tensors(scratch / "more.safetensors", tensors);
  CHECK(left_over(scratch / "more.safetensors").of_model.empty());
  CHECK(left_over(scratch / "more.safetensors").of_heads.size() == 5);
  std::vector<std::byte> changed(table.data.begin(), table.data.end());
  changed.front() ^= std::byte{1};
  tensors["cls.predictions.decoder.weight"].data = changed;
  write_tensors(scratch / "untied.safetensors", tensors);
  CHECK(left_over(scratch / "untied.safetensors").of_model ==
        std::vector<std::string>{"cls.predictions.decoder.weight"});
}

TEST_CASE("what classes of transformers compute otherwise in some versions is said") {
  ModelConfig config;
  config.family = Family::kMamba2;
  config.groups = 1;
  CHECK(notes_on_reading(config).empty());
  config.groups = 4;
  CHECK(notes_on_reading(config) ==
        std::vector<std::string>{
            "Mamba2ForCausalLM norms each of the 4 groups by itself, as here, in transformers "
            "5.23.0; 4.46.3 does in mamba_ssm's kernels alone, and elsewhere takes one norm over "
            "all groups"});
  config.family = Family::kGpt;
  CHECK(notes_on_reading(config).empty());
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

}  // namespace trainyard::hugging_face_weights_test
