// Models of images in a config.json: those that classify whole images.
#include <algorithm>
#include <vector>

#include "engine/base/user_text.h"
#include "models/families.h"
#include "models/hugging_face_parts.h"
#include "models/hugging_face_readers.h"

namespace trainyard {

namespace {

using Integers = std::vector<std::int64_t>;

std::string list_text(const Integers& numbers) {
  std::string text;
  for (const std::int64_t number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

/// A number, or the same one for height and width.
std::int64_t square(const JsonObject& json, const char* key, std::int64_t otherwise) {
  const auto value = json.json().find(key);
  if (value == json.json().end() || !value->is_array()) return json.integer(key, otherwise);
  const Integers sides = json.integers(key, {});
  if (sides.size() != 2 || sides[0] != sides[1] || sides[0] < 1 || sides[0] >= 1 << 30)
    json.fail(key, "only squares are modelled; expected one number, got " + list_text(sides));
  return sides[0];
}

/// As transformers counts them: names of labels, else num_labels, else 2.
std::int64_t read_classes(const JsonObject& json) {
  const std::string problem = json.text("problem_type", "single_label_classification");
  if (problem != "single_label_classification")
    json.fail("problem_type",
              in_quotes(problem) + " is not modelled; expected single_label_classification");
  const std::optional<JsonObject> labels = json.object("id2label");
  if (!labels) return json.integer("num_labels", 2, 2);
  const auto classes = static_cast<std::int64_t>(labels->json().size());
  if (classes < 2)
    json.fail("id2label",
              "has fewer than 2 labels, of which transformers takes no cross entropy; that is not "
              "modelled");
  if (json.integer("num_labels", classes) != classes)
    json.fail("num_labels", "contradicts id2label, which has " + std::to_string(classes));
  return classes;
}

ModelConfig images(const JsonObject& json, Family family) {
  ModelConfig c;
  c.family = family;
  c.channels = json.integer("num_channels", 3);
  c.classes = read_classes(json);
  c.tied_embeddings = false;
  return c;
}

/// The depth whose blocks these are, of `kind` "basic" or "bottleneck"; 0: of none.
std::int64_t resnet_depth(const Integers& blocks, bool bottleneck) {
  for (const std::int64_t depth : depths_of(Family::kResnet)) {
    if ((depth >= kLeastBottleneckDepth) == bottleneck &&
        blocks_by_stage(Family::kResnet, depth) == blocks)
      return depth;
  }
  return 0;
}

/// "[2, 2, 2, 2] or [3, 4, 6, 3]".
std::string resnet_stages(bool bottleneck) {
  std::string text;
  for (const std::int64_t depth : depths_of(Family::kResnet)) {
    if ((depth >= kLeastBottleneckDepth) != bottleneck) continue;
    text += (text.empty() ? "" : " or ") + list_text(blocks_by_stage(Family::kResnet, depth));
  }
  return text;
}

}  // namespace

ModelConfig read_vit(const JsonObject& json) {
  ModelConfig c = images(json, Family::kVit);
  c.image_size = square(json, "image_size", 224);
  c.patch_size = square(json, "patch_size", 16);
  c.layers = json.integer("num_hidden_layers", 12);
  c.hidden = json.integer("hidden_size", 768);
  c.heads = json.integer("num_attention_heads", 12);
  c.kv_heads = c.heads;
  c.head_dim = share(json, "hidden_size", c.hidden, "num_attention_heads", c.heads);
  c.ffn = json.integer("intermediate_size", 3072);
  c.activation = gelu_or_relu(json, "hidden_act", "gelu");
  c.qkv_bias = json.boolean("qkv_bias", true);
  c.norm_eps = norm_eps(json, "layer_norm_eps", 1e-12);
  set_image_numbers(c);
  return c;
}

ModelConfig read_swin(const JsonObject& json) {
  ModelConfig c = images(json, Family::kSwin);
  c.image_size = square(json, "image_size", 224);
  c.patch_size = square(json, "patch_size", 4);
  c.window_size = json.integer("window_size", 7);
  c.hidden = json.integer("embed_dim", 96);

  const Integers depths = json.integers("depths", {2, 2, 6, 2});
  const bool usual = depths.size() == 4 && depths[2] >= 1 && depths[2] < 1 << 20;
  if (!usual || swin_stages(depths[2] + 6) != depths)
    json.fail("depths", list_text(depths) +
                            " is not modelled; expected four stages of 2, 2, any number and 2 "
                            "blocks");
  c.layers = depths[2] + 6;
  if (json.integer("num_layers", 4) != 4)
    json.fail("num_layers", "contradicts depths, which has 4 stages");
  if (json.integer("hidden_size", 8 * c.hidden) != 8 * c.hidden)
    json.fail("hidden_size",
              "contradicts embed_dim, of which it is 8 times " + std::to_string(c.hidden));

  const Integers heads = json.integers("num_heads", {3, 6, 12, 24});
  const std::int64_t first = heads.empty() ? 0 : heads[0];
  if (first < 1 || first >= 1 << 20 || heads != Integers{first, 2 * first, 4 * first, 8 * first})
    json.fail("num_heads", list_text(heads) +
                               " is not modelled; expected twice as many in each stage as before, "
                               "such as [3, 6, 12, 24]");
  share(json, "embed_dim", c.hidden, "num_heads", first);
  c.heads = first;
  set_image_numbers(c);
  return c;
}

ModelConfig read_resnet(const JsonObject& json) {
  ModelConfig c = images(json, Family::kResnet);
  c.image_size = 224;  // the file does not say it
  c.activation = Activation::kRelu;
  const std::string kind = json.text("layer_type", "bottleneck");
  if (kind != "basic" && kind != "bottleneck")
    json.fail("layer_type", "unknown layer " + in_quotes(kind) + "; expected basic or bottleneck");
  const bool bottleneck = kind == "bottleneck";

  const Integers depths = json.integers("depths", {3, 4, 6, 3});
  c.depth = resnet_depth(depths, bottleneck);
  if (c.depth == 0)
    json.fail("depths", list_text(depths) + " of layers " + kind + " are not modelled; expected " +
                            resnet_stages(bottleneck));

  const std::int64_t width = json.integer("embedding_size", kResnetChannels);
  if (width % kResnetChannels != 0 || width >= 1 << 20)
    json.fail("embedding_size", std::to_string(width) +
                                    " is not modelled; expected a multiple of " +
                                    std::to_string(kResnetChannels));
  c.width_factor = width / kResnetChannels;
  const std::int64_t out = bottleneck ? 4 * width : width;
  const Integers expected = {out, 2 * out, 4 * out, 8 * out};
  const Integers sizes = json.integers("hidden_sizes", {256, 512, 1024, 2048});
  if (sizes != expected)
    json.fail("hidden_sizes", list_text(sizes) + " is not modelled; expected " +
                                  list_text(expected) + " with layers " + kind +
                                  " and embedding_size " + std::to_string(width));
  set_image_numbers(c);
  return c;
}

}  // namespace trainyard
