// config.json of models of images: what they come to, and that what no family here has is refused
// at its key with what is possible. Their parameters are counted in hugging_face_test.cpp.
#include <catch2/catch.hpp>
#include <string>

#include "engine/base/error.h"
#include "models/hugging_face.h"
#include "models/presets.h"

namespace trainyard::hugging_face_images_test {

namespace {

ModelConfig parse(const std::string& type, const std::string& keys = "") {
  return parse_hugging_face_config("{\"model_type\": \"" + type + "\"" + keys + "}", "c.json")
      .config;
}

/// What is said of some key, behind its place.
std::string error_of(const std::string& type, const std::string& keys) {
  try {
    parse(type, ", " + keys);
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    return text.substr(text.find(' ') + 1);
  }
  return "none";
}

}  // namespace

TEST_CASE("models of images have the sizes of their config.json") {
  const ModelConfig vit = parse("vit");
  CHECK((vit.layers == 12 && vit.hidden == 768 && vit.heads == 12 && vit.ffn == 3072));
  CHECK((vit.image_size == 224 && vit.patch_size == 16 && vit.seq_len == 197));  // 14 x 14 + 1
  CHECK(vit.norm_eps == 1e-12);
  CHECK((parse("vit", R"(, "image_size": [64, 64], "patch_size": [8, 8])").seq_len == 65));
  CHECK(parse("vit", R"(, "hidden_act": "gelu_new")").activation == Activation::kGeluTanh);
  CHECK_FALSE(parse("vit", R"(, "qkv_bias": false)").qkv_bias);

  const ModelConfig swin = parse("swin", R"(, "depths": [2, 2, 18, 2], "embed_dim": 128,
      "num_heads": [4, 8, 16, 32])");
  CHECK((swin.layers == 24 && swin.hidden == 128 && swin.heads == 4 && swin.window_size == 7));
  const ModelConfig resnet = parse("resnet");
  CHECK((resnet.depth == 50 && resnet.width_factor == 1 && resnet.image_size == 224));
  CHECK(parse("resnet", R"(, "layer_type": "basic", "hidden_sizes": [64, 128, 256, 512])").depth ==
        34);  // of the same stages as 50
  CHECK(parse("resnet", R"(, "depths": [3, 8, 36, 3])").depth == 152);
}

TEST_CASE("classes are counted as transformers does") {
  CHECK(parse("vit").classes == 2);
  CHECK(parse("resnet", R"(, "num_labels": 10)").classes == 10);
  CHECK(parse("swin", R"(, "id2label": {"0": "a", "1": "b", "2": "c"})").classes == 3);
  CHECK(parse("vit", R"(, "id2label": {"0": "a", "1": "b"}, "num_labels": 2)").classes == 2);
  CHECK(error_of("vit", R"("id2label": {"0": "a", "1": "b"}, "num_labels": 3)") ==
        "num_labels: contradicts id2label, which has 2");
  CHECK(error_of("vit", R"("num_labels": 1)") == "num_labels: expected at least 2, got 1");
  CHECK(error_of("vit", R"("id2label": {"0": "a"})") ==
        "id2label: has fewer than 2 labels, of which transformers takes no cross entropy; that is "
        "not modelled");
  CHECK(error_of("vit", R"("problem_type": "multi_label_classification")") ==
        "problem_type: 'multi_label_classification' is not modelled; expected "
        "single_label_classification");
}

TEST_CASE("what the families of images do not have is refused with what is possible") {
  CHECK(error_of("vit", R"("image_size": [224, 192])") ==
        "image_size: only squares are modelled; expected one number, got [224, 192]");
  CHECK(error_of("vit", R"("patch_size": 15)") == "patch_size: 15 does not divide image_size, 224");
  CHECK(error_of("vit", R"("hidden_act": "selu")").starts_with("hidden_act: "));
  CHECK(error_of("vit", R"("num_attention_heads": 7)").starts_with("num_attention_heads: "));

  CHECK(error_of("swin", R"("depths": [2, 4, 6, 2])") ==
        "depths: [2, 4, 6, 2] is not modelled; expected four stages of 2, 2, any number and 2 "
        "blocks");
  CHECK(error_of("swin", R"("depths": [2, 2, 6])") ==
        "depths: [2, 2, 6] is not modelled; expected four stages of 2, 2, any number and 2 "
        "blocks");
  CHECK(error_of("swin", R"("num_heads": [3, 6, 12, 12])") ==
        "num_heads: [3, 6, 12, 12] is not modelled; expected twice as many in each stage as "
        "before, such as [3, 6, 12, 24]");
  CHECK(error_of("swin", R"("num_layers": 3)") ==
        "num_layers: contradicts depths, which has 4 stages");
  CHECK(error_of("swin", R"("hidden_size": 96)") ==
        "hidden_size: contradicts embed_dim, of which it is 8 times 96");
  CHECK(error_of("swin", R"("mlp_ratio": 3)") == "mlp_ratio: 3 is not modelled; expected 4.0");
  CHECK(error_of("swin", R"("qkv_bias": false)") ==
        "qkv_bias: false is not modelled; expected true");
  CHECK(error_of("swin", R"("use_absolute_embeddings": true)") ==
        "use_absolute_embeddings: true is not modelled; expected false");
  CHECK(error_of("swin", R"("hidden_act": "relu")") ==
        "hidden_act: \"relu\" is not modelled; expected \"gelu\"");
  CHECK(error_of("swin", R"("layer_norm_eps": 1e-6)") ==
        "layer_norm_eps: 1e-06 is not modelled; expected 1e-05");
  // Windows that do not fill the grid of 56, which transformers pads.
  CHECK(error_of("swin", R"("window_size": 6)").starts_with("image_size: 224 is 56 patches"));

  CHECK(error_of("resnet", R"("depths": [2, 2, 2, 2])") ==
        "depths: [2, 2, 2, 2] of layers bottleneck are not modelled; expected [3, 4, 6, 3] or [3, "
        "4, 23, 3] or [3, 8, 36, 3]");
  CHECK(error_of("resnet", R"("layer_type": "basic")") ==
        "hidden_sizes: [256, 512, 1024, 2048] is not modelled; expected [64, 128, 256, 512] with "
        "layers basic and embedding_size 64");
  CHECK(error_of("resnet", R"("layer_type": "wide")") ==
        "layer_type: unknown layer 'wide'; expected basic or bottleneck");
  CHECK(error_of("resnet", R"("embedding_size": 32)") ==
        "embedding_size: 32 is not modelled; expected a multiple of 64");
  CHECK(error_of("resnet", R"("downsample_in_bottleneck": true)") ==
        "downsample_in_bottleneck: true is not modelled; expected false");
  CHECK(error_of("resnet", R"("downsample_in_first_stage": true)") ==
        "downsample_in_first_stage: true is not modelled; expected false");
}

TEST_CASE("a rate at which swin leaves blocks out is a warning") {
  const auto warnings = [](const std::string& rate) {
    return parse_hugging_face_config("{\"model_type\": \"swin\", \"drop_path_rate\": " + rate + "}",
                                     "c.json")
        .warnings;
  };
  CHECK(warnings("0.0").empty());
  CHECK(warnings("0.2") ==
        std::vector<std::string>{
            "c.json:1:24: drop_path_rate: no block is left out while swin trains here, as "
            "transformers does at a rate of up to 0.2"});
}

TEST_CASE("CLIP has a map for each tower") {
  const ModelConfig usual = parse("clip", R"(, "text_config": {}, "vision_config": {})");
  ModelConfig preset = find_model_preset("clip-vit-b-32")->config;
  preset.name = usual.name;
  CHECK(usual == preset);
  const ModelConfig config = parse("clip", R"(, "projection_dim": 10,
      "text_config": {"hidden_size": 12, "intermediate_size": 48, "num_attention_heads": 3,
                      "num_hidden_layers": 2, "vocab_size": 23, "max_position_embeddings": 7},
      "vision_config": {"hidden_size": 24, "intermediate_size": 96, "num_attention_heads": 4,
                        "num_hidden_layers": 3, "image_size": 8, "patch_size": 4})");
  CHECK((config.layers == 2 && config.hidden == 12 && config.heads == 3 && config.vocab == 23));
  CHECK((config.image_layers == 3 && config.image_hidden == 24 && config.image_heads == 4));
  CHECK((config.seq_len == 7 && config.image_size == 8 && config.projection_dim == 10));
  CHECK(error_of("clip", R"("text_config": {})") ==
        "vision_config: missing: expected the numbers of a tower");
  CHECK(error_of("clip", R"("text_config": {"intermediate_size": 1024}, "vision_config": {})") ==
        "text_config.intermediate_size: only MLPs of 4 x hidden_size are modelled; expected 2048, "
        "got 1024");
  CHECK(error_of("clip", R"("text_config": {}, "vision_config": {"hidden_act": "gelu"})") ==
        "vision_config.hidden_act: \"gelu\" is not modelled; expected \"quick_gelu\"");
  CHECK(error_of("clip", R"("text_config": {}, "vision_config": {"patch_size": 30})")
            .find("vision_config.patch_size: ") == 0);
  CHECK(
      error_of("clip", R"("text_config": {}, "vision_config": {}, "text_config_dict": {"a": 1})") ==
      "text_config_dict: {\"a\":1} is not modelled; expected null");
}

}  // namespace trainyard::hugging_face_images_test
