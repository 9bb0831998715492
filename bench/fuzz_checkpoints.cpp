#include "bench/fuzz_checkpoints.h"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/base/error.h"
#include "models/model.h"
#include "models/presets.h"
#include "real/checkpoint/checkpoint_folder.h"
#include "real/checkpoint/host_file.h"
#include "real/checkpoint/hugging_face_names.h"
#include "real/checkpoint/hugging_face_weights.h"
#include "real/checkpoint/training_state.h"
#include "tests/real/checkpoint/checkpoint_fixture.h"
#include "tests/support/scratch_folder.h"

namespace trainyard {

namespace {

using nlohmann::json;

constexpr const char* kShard = "rank-00000.safetensors";

/// A good checkpoint of two ranks: a [4, 2] by rows, b and c whole.
class Subject {
 public:
  Subject() {
    const Values values = {{"a", {0, 1, 2, 3, 4, 5, 6, 7}}, {"b", {8, 9}}, {"c", {10, 11}}};
    const auto rows = [](std::int64_t begin) {
      return rectangle("a", DType::kFp32, {4, 2}, {begin, 0}, {2, 2});
    };
    CheckpointInfo info = at_step(100);
    info.samples = 800;
    info.state = training_state_json({90, 65536, 12});
    write_checkpoint(folder_.path(), info,
                     {{rows(0), whole_tensor("b", DType::kFp32, {2})},
                      {rows(2), whole_tensor("c", DType::kFp32, {2})}},
                     values);
    index_ = read_text(path(kIndexName));
    shard_ = read_text(path(kShard));
  }

  std::string path(const std::string& file = "") const {
    return folder_ / ("step-00000100" + (file.empty() ? "" : "/" + file));
  }
  const std::string& index() const { return index_; }
  const std::string& shard() const { return shard_; }

  void set_index(const std::string& text) const { write_text(path(kIndexName), text); }
  void set_shard(const std::string& text) const {
    write_text(path(kShard), text);
    json index = json::parse(index_);
    for (json& file : index["files"]) {
      if (file["name"] != kShard) continue;
      file["bytes"] = text.size();
      file["sha256"] = sha256_hex(std::as_bytes(std::span(text)));
    }
    set_index(sealed(index));
  }

  /// Opens it and reads all that it holds.
  void read() const {
    const Checkpoint checkpoint = Checkpoint::open(path(), Verify::kChecksums);
    for (const auto& [name, tensor] : checkpoint.tensors()) {
      const Piece whole = whole_tensor(name, tensor.dtype, tensor.shape);
      std::vector<std::byte> bytes(static_cast<std::size_t>(num_bytes(whole)));
      checkpoint.read(whole, bytes);
    }
    read_training_state(checkpoint.info(), path(kIndexName), {});
  }

  static std::string sealed(json index) {
    index.erase("sha256");
    const std::string text = index.dump(-1, ' ', false, json::error_handler_t::replace);
    index["sha256"] = sha256_hex(std::as_bytes(std::span(text)));
    return index.dump(-1, ' ', false, json::error_handler_t::replace);
  }

 private:
  ScratchFolder folder_;
  std::string index_, shard_;
};

}  // namespace

FuzzTarget index_target() {
  const auto subject = std::make_shared<const Subject>();
  FuzzTarget target{.name = "index",
                    .file = subject->path(),
                    .lines = false,
                    .json = true,
                    .examples = {subject->index()}};
  target.read = [subject](const std::string& text) {
    const json index = json::parse(text, nullptr, /*allow_exceptions=*/false);
    subject->set_index(index.is_object() ? Subject::sealed(index) : text);
    subject->read();
  };
  return target;
}

FuzzTarget shard_target() {
  const auto subject = std::make_shared<const Subject>();
  FuzzTarget target{
      .name = "shard", .file = subject->path(), .lines = false, .examples = {subject->shard()}};
  target.read = [subject](const std::string& text) {
    subject->set_shard(text);
    subject->read();
  };
  return target;
}

FuzzTarget weights_target() {
  // A GPT-2 of one layer, with all its weights zero.
  const auto config = std::make_shared<ModelConfig>(find_model_preset("gpt2")->config);
  config->layers = 1, config->hidden = config->head_dim = 4, config->heads = config->kv_heads = 1,
  config->ffn = 4;
  config->vocab = 5, config->seq_len = config->max_positions = 4;
  const auto folder = std::make_shared<const ScratchFolder>();
  const std::string path = *folder / "part.safetensors",
                    index = *folder / "model.safetensors.index.json";
  std::vector<SafetensorsEntry> entries;
  json map = json::object();
  for (const HuggingFaceWeight& weight :
       hugging_face_weights(hugging_face_type(*config), build_model(*config, {}))) {
    if (!entries.empty() && entries.back().key == weight.theirs) continue;
    entries.push_back({weight.theirs, DType::kFp32, weight.their_shape});
    map[weight.theirs] = "part.safetensors";
  }
  SafetensorsWriter writer(path, entries, {{"format", "pt"}});
  for (const SafetensorsEntry& entry : entries) {
    writer.append(std::vector<std::byte>(static_cast<std::size_t>(product(entry.shape)) * 4));
  }
  writer.finish();
  const std::string good = read_text(path), good_index = json{{"weight_map", map}}.dump(1);
  FuzzTarget target{
      .name = "weights", .file = folder->path(), .lines = false, .examples = {good, good_index}};
  target.read = [folder, config, path, index, good, good_index](const std::string& text) {
    const bool is_index = text.starts_with('{');
    write_text(path, is_index ? good : text);
    write_text(index, is_index ? text : good_index);
    const HuggingFaceWeights weights = HuggingFaceWeights::open(folder->path(), *config);
    for (const HuggingFaceWeight& weight :
         hugging_face_weights(hugging_face_type(*config), build_model(*config, {}))) {
      const Piece whole = whole_tensor(weight.ours, DType::kFp32, weight.shape);
      std::vector<std::byte> bytes(static_cast<std::size_t>(num_bytes(whole)));
      weights.read(whole, bytes);
    }
  };
  return target;
}

}  // namespace trainyard
