#include "engine/plan/model_config.h"

#include <map>
#include <numeric>

namespace trainyard {

namespace {

using Depths = std::map<std::int64_t, std::vector<std::int64_t>>;

const Depths& networks(Family family) {
  static const Depths kNone;
  static const Depths kResnet = {{18, {2, 2, 2, 2}},
                                 {34, {3, 4, 6, 3}},
                                 {50, {3, 4, 6, 3}},
                                 {101, {3, 4, 23, 3}},
                                 {152, {3, 8, 36, 3}}};
  static const Depths kVgg = {
      {11, {1, 1, 2, 2, 2}}, {13, {2, 2, 2, 2, 2}}, {16, {2, 2, 3, 3, 3}}, {19, {2, 2, 4, 4, 4}}};
  static const Depths kDensenet = {
      {121, {6, 12, 24, 16}}, {169, {6, 12, 32, 32}}, {201, {6, 12, 48, 32}}};
  switch (family) {
    case Family::kResnet: return kResnet;
    case Family::kVgg: return kVgg;
    case Family::kDensenet: return kDensenet;
    default: return kNone;
  }
}

}  // namespace

ModelConfig::ModelConfig() = default;
ModelConfig::ModelConfig(const ModelConfig&) = default;
ModelConfig::ModelConfig(ModelConfig&&) noexcept = default;
ModelConfig& ModelConfig::operator=(const ModelConfig&) = default;
ModelConfig& ModelConfig::operator=(ModelConfig&&) noexcept = default;
ModelConfig::~ModelConfig() = default;
bool operator==(const ModelConfig&, const ModelConfig&) = default;

bool has_named_depths(Family family) { return !networks(family).empty(); }

bool is_convolutional(Family family) { return has_named_depths(family) || family == Family::kUnet; }

bool is_of_text(Family family) {
  return is_transformer_of_text(family) || family == Family::kMamba2;
}

bool is_transformer_of_text(Family family) {
  switch (family) {
    case Family::kGpt:
    case Family::kBert:
    case Family::kT5:
    case Family::kLlama: return true;
    default: return false;
  }
}

bool is_of_images(Family family) {
  return family == Family::kVit || family == Family::kSwin || is_convolutional(family);
}

bool has_dropout(Family family) {
  switch (family) {
    case Family::kLlama:
    case Family::kResnet:
    case Family::kDensenet:
    case Family::kUnet:
    case Family::kNcf:
    case Family::kMamba2:
    case Family::kClip: return false;
    default: return true;
  }
}

bool has_batch_norm(Family family) {
  return family == Family::kOnnx || family == Family::kResnet || family == Family::kDensenet;
}

std::string_view speed_unit(Family family) {
  const bool sequences = is_of_text(family) || (is_of_images(family) && !is_convolutional(family));
  return sequences ? "tokens/s" : "samples/s";
}

bool is_rotary(const ModelConfig& config) {
  return config.family == Family::kLlama ||
         (config.family == Family::kGpt && config.positions == Positions::kRotary);
}

bool has_window(const ModelConfig& config, std::int64_t layer) {
  if (config.attention_window == 0 || layer < config.window_from) return false;
  return config.window_cycle == 0 || (layer + 1) % config.window_cycle != 0;
}

std::vector<std::int64_t> blocks_by_stage(Family family, std::int64_t depth) {
  const Depths& known = networks(family);
  const auto found = known.find(depth);
  return found == known.end() ? std::vector<std::int64_t>() : found->second;
}

std::vector<std::int64_t> depths_of(Family family) {
  std::vector<std::int64_t> out;
  for (const auto& [depth, blocks] : networks(family)) out.push_back(depth);
  return out;
}

std::vector<std::int64_t> swin_stages(std::int64_t layers) { return {2, 2, layers - 6, 2}; }

std::int64_t num_layers(const ModelConfig& config) {
  return config.layers + config.decoder_layers + config.image_layers;
}

std::int64_t tokens_per_sample(const ModelConfig& config) {
  return config.family == Family::kClip ? 1 : config.seq_len + config.decoder_seq_len;
}

void set_image_numbers(ModelConfig& config) {
  if (config.family == Family::kUnet) {
    config.layers = 2 * config.depth + 1;  // levels down, the lowest, levels up
    config.seq_len = 1;
  } else if (is_convolutional(config.family)) {
    const std::vector<std::int64_t> blocks = blocks_by_stage(config.family, config.depth);
    config.layers = std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
    config.seq_len = 1;
  } else if (config.family == Family::kVit && config.patch_size > 0) {
    const std::int64_t patches = config.image_size / config.patch_size;
    config.seq_len = patches * patches + 1;  // and the class token
  } else if (config.family == Family::kSwin && config.patch_size > 0) {
    const std::int64_t patches = config.image_size / config.patch_size;
    config.seq_len = patches * patches;
  } else if (config.family == Family::kNcf) {
    config.seq_len = 1;
  }
}

std::string_view to_string(Family family) {
  switch (family) {
    case Family::kGpt: return "gpt";
    case Family::kBert: return "bert";
    case Family::kT5: return "t5";
    case Family::kLlama: return "llama";
    case Family::kVit: return "vit";
    case Family::kResnet: return "resnet";
    case Family::kVgg: return "vgg";
    case Family::kDensenet: return "densenet";
    case Family::kSwin: return "swin";
    case Family::kUnet: return "unet";
    case Family::kNcf: return "ncf";
    case Family::kMamba2: return "mamba2";
    case Family::kClip: return "clip";
    case Family::kOnnx: return "onnx";
  }
  return "?";
}

std::string_view to_string(Activation activation) {
  switch (activation) {
    case Activation::kGelu: return "gelu";
    case Activation::kGeluTanh: return "gelu-tanh";
    case Activation::kRelu: return "relu";
    case Activation::kSwiglu: return "swiglu";
    case Activation::kGeglu: return "geglu";
  }
  return "?";
}

}  // namespace trainyard
