// CLIP in a config.json: a map for each tower.
#include <string_view>

#include "models/hugging_face_parts.h"
#include "models/hugging_face_readers.h"
#include "models/model.h"

namespace trainyard {

namespace {

/// Samples that are told apart, which the file does not say: as the presets'.
constexpr std::int64_t kContrast = 128;

struct Tower {
  std::int64_t layers, width, heads;
};

Tower read_tower(const JsonObject& json, const Tower& usual) {
  Tower tower;
  tower.layers = json.integer("num_hidden_layers", usual.layers);
  tower.width = json.integer("hidden_size", usual.width);
  tower.heads = json.integer("num_attention_heads", usual.heads);
  share(json, "hidden_size", tower.width, "num_attention_heads", tower.heads);
  const std::int64_t ffn = json.integer("intermediate_size", 4 * usual.width);
  if (ffn != 4 * tower.width)
    json.fail("intermediate_size", "only MLPs of 4 x hidden_size are modelled; expected " +
                                       std::to_string(4 * tower.width) + ", got " +
                                       std::to_string(ffn));
  return tower;
}

JsonObject tower_of(const JsonObject& json, const char* key) {
  std::optional<JsonObject> tower = json.object(key);
  if (!tower) json.fail(key, "missing: expected the numbers of a tower");
  return *std::move(tower);
}

/// Sizes that do not agree, where the tower says them.
void check_towers(const ModelConfig& config, const JsonObject& text, const JsonObject& image) {
  struct Word {
    std::string_view study;
    const JsonObject& tower;
    const char* key;
  };
  const std::optional<ModelProblem> problem = find_problem(config);
  if (!problem) return;
  for (const Word& word : {Word{"layers", text, "num_hidden_layers"},
                           {"hidden", text, "hidden_size"},
                           {"heads", text, "num_attention_heads"},
                           {"vocab", text, "vocab_size"},
                           {"seq_len", text, "max_position_embeddings"},
                           {"image_layers", image, "num_hidden_layers"},
                           {"image_hidden", image, "hidden_size"},
                           {"image_heads", image, "num_attention_heads"},
                           {"image_size", image, "image_size"},
                           {"patch_size", image, "patch_size"},
                           {"channels", image, "num_channels"}}) {
    if (word.study == problem->key) word.tower.fail(word.key, problem->problem);
  }
}

}  // namespace

ModelConfig read_clip(const JsonObject& json) {
  const JsonObject text = tower_of(json, kClipText), image = tower_of(json, kClipImage);
  ModelConfig c;
  c.family = Family::kClip;
  const Tower of_text = read_tower(text, {12, 512, 8}), of_image = read_tower(image, {12, 768, 12});
  c.layers = of_text.layers;
  c.hidden = of_text.width;
  c.heads = of_text.heads;
  c.vocab = text.integer("vocab_size", 49408);
  c.seq_len = text.integer("max_position_embeddings", 77);
  c.image_layers = of_image.layers;
  c.image_hidden = of_image.width;
  c.image_heads = of_image.heads;
  c.image_size = image.integer("image_size", 224);
  c.patch_size = image.integer("patch_size", 32);
  c.channels = image.integer("num_channels", 3);
  c.projection_dim = json.integer("projection_dim", 512);
  c.contrast = kContrast;
  c.tied_embeddings = false;
  check_towers(c, text, image);
  return c;
}

}  // namespace trainyard
