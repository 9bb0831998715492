#include "models/presets.h"

#include <algorithm>
#include <string>
#include <vector>

namespace trainyard {

namespace {

ModelPreset preset(const std::string& name, const std::string& description, ModelConfig config) {
  config.name = name;
  // Swin's stages and CLIP's towers differ in them.
  if (config.family != Family::kSwin && config.family != Family::kClip) {
    if (config.kv_heads == 0) config.kv_heads = config.heads;
    if (config.head_dim == 0 && config.heads > 0) config.head_dim = config.hidden / config.heads;
  }
  return {name, description, config};
}

ModelConfig gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelConfig c;
  c.family = Family::kGpt;
  c.layers = layers;
  c.hidden = hidden;
  c.heads = heads;
  c.ffn = 4 * hidden;
  c.vocab = 51200;  // GPT-2's 50257 as Megatron-LM pads it for eight tensor-parallel ranks
  c.seq_len = 2048;
  c.max_positions = c.seq_len;
  return c;
}

ModelConfig gpt2(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelConfig c = gpt(layers, hidden, heads);
  c.vocab = 50257;
  c.seq_len = 1024;
  c.max_positions = c.seq_len;
  c.activation = Activation::kGeluTanh;
  return c;
}

ModelConfig bert(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelConfig c;
  c.family = Family::kBert;
  c.layers = layers;
  c.hidden = hidden;
  c.heads = heads;
  c.ffn = 4 * hidden;
  c.vocab = 30522;
  c.seq_len = 512;
  c.max_positions = c.seq_len;
  c.token_types = 2;
  c.norm_eps = 1e-12;
  return c;
}

ModelConfig roberta(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelConfig c = bert(layers, hidden, heads);
  c.vocab = 50265;
  c.max_positions = c.seq_len + 2;  // positions start at 2, past the padding token's
  c.token_types = 1;
  c.norm_eps = 1e-5;
  return c;
}

ModelConfig t5(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t head_dim,
               std::int64_t ffn) {
  ModelConfig c;
  c.family = Family::kT5;
  c.layers = layers;
  c.decoder_layers = layers;
  c.hidden = hidden;
  c.heads = heads;
  c.head_dim = head_dim;
  c.ffn = ffn;
  c.vocab = 32128;
  c.seq_len = 512;
  c.decoder_seq_len = c.seq_len;
  c.relative_buckets = 32;
  c.norm_eps = 1e-6;
  c.activation = Activation::kRelu;
  c.linear_bias = false;
  c.qkv_bias = false;
  return c;
}

ModelConfig llama(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                  std::int64_t kv_heads, std::int64_t ffn, std::int64_t vocab,
                  std::int64_t seq_len) {
  ModelConfig c;
  c.family = Family::kLlama;
  c.layers = layers;
  c.hidden = hidden;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.ffn = ffn;
  c.vocab = vocab;
  c.seq_len = seq_len;
  c.activation = Activation::kSwiglu;
  c.tied_embeddings = false;
  c.linear_bias = false;
  c.qkv_bias = false;
  return c;
}

ModelConfig tied(ModelConfig c) {
  c.tied_embeddings = true;
  return c;
}

ModelConfig llama3(ModelConfig c) {
  c.rope_base = 500'000;
  return c;
}

ModelConfig qwen2(ModelConfig c) {
  c.qkv_bias = true;
  c.norm_eps = 1e-6;
  c.rope_base = 1'000'000;
  return c;
}

ModelConfig qwen3(ModelConfig c) {
  c.head_dim = 128;
  c.head_norm = true;
  c.norm_eps = 1e-6;
  c.rope_base = 1'000'000;
  return c;
}

ModelConfig gemma(ModelConfig c) {
  c.head_dim = 256;
  c.activation = Activation::kGeglu;
  c.tied_embeddings = true;
  c.offset_norms = true;
  c.scaled_embedding = true;
  c.norm_eps = 1e-6;
  return c;
}

ModelConfig gemma2(ModelConfig c) {
  c = gemma(c);
  c.branch_norms = true;
  c.score_cap = 50;
  c.logit_cap = 30;
  c.query_scalar = 256;
  c.attention_window = 4096;
  c.window_cycle = 2;
  return c;
}

ModelConfig llama3_1(ModelConfig c) {
  c = llama3(c);
  c.rope_factor = 8;
  c.rope_original = 8192;
  return c;
}

ModelConfig with_window(ModelConfig c, std::int64_t window) {
  c.attention_window = window;
  return c;
}

/// Rotary positions in place of the table, in a model whose layers are parallel.
ModelConfig parallel(ModelConfig c, Residual residual, std::int64_t vocab) {
  c.vocab = vocab;
  c.positions = Positions::kRotary;
  c.max_positions = 0;
  c.residual = residual;
  return c;
}

ModelConfig gpt_neox(ModelConfig c) {
  c = parallel(c, Residual::kParallel, 50432);
  c.activation = Activation::kGeluTanh;
  c.tied_embeddings = false;
  c.rotary_dim = c.hidden / c.heads / 4;
  return c;
}

ModelConfig falcon(ModelConfig c, Residual residual, std::int64_t kv_heads) {
  c = parallel(c, residual, 65024);
  c.kv_heads = kv_heads;
  c.linear_bias = false;
  c.qkv_bias = false;
  return c;
}

ModelConfig opt(ModelConfig c) {
  c.vocab = 50272;
  c.activation = Activation::kRelu;
  c.position_offset = 2;
  c.max_positions = c.seq_len + c.position_offset;
  return c;
}

ModelConfig mpt(ModelConfig c) {
  c.vocab = 50432;
  c.positions = Positions::kAlibi;
  c.max_positions = 0;
  c.linear_bias = false;
  c.qkv_bias = false;
  c.norm_bias = false;
  return c;
}

/// ImageNet: 1,000 classes of images of 224 x 224.
ModelConfig images(Family family) {
  ModelConfig c;
  c.family = family;
  c.image_size = 224;
  c.channels = 3;
  c.classes = 1000;
  c.tied_embeddings = false;
  return c;
}

ModelConfig network(Family family, std::int64_t depth, std::int64_t width_factor = 0) {
  ModelConfig c = images(family);
  c.depth = depth;
  c.width_factor = width_factor;
  c.activation = Activation::kRelu;
  set_image_numbers(c);
  return c;
}

ModelConfig resnet(std::int64_t depth, std::int64_t width_factor = 1) {
  return network(Family::kResnet, depth, width_factor);
}

/// torchvision's, whose norms add 1e-6.
ModelConfig vit(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t patch) {
  ModelConfig c = images(Family::kVit);
  c.layers = layers;
  c.hidden = hidden;
  c.heads = heads;
  c.ffn = 4 * hidden;
  c.patch_size = patch;
  c.norm_eps = 1e-6;
  set_image_numbers(c);
  return c;
}

ModelConfig swin(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelConfig c = images(Family::kSwin);
  c.layers = layers;
  c.hidden = hidden;
  c.heads = heads;
  c.patch_size = 4;
  c.window_size = 7;
  set_image_numbers(c);
  return c;
}

/// OpenAI's: a text tower of 12 layers whose heads are 64 wide, as the image tower's are. 128
/// samples of the paper's 32,768 were on each of 256 GPUs.
ModelConfig clip(std::int64_t hidden, std::int64_t image_layers, std::int64_t image_hidden,
                 std::int64_t patch) {
  ModelConfig c = images(Family::kClip);
  c.classes = 0;
  c.layers = 12;
  c.hidden = hidden;
  c.heads = hidden / 64;
  c.vocab = 49408;
  c.seq_len = 77;
  c.image_layers = image_layers;
  c.image_hidden = image_hidden;
  c.image_heads = image_hidden / 64;
  c.patch_size = patch;
  c.projection_dim = hidden;
  c.contrast = 128;
  return c;
}

/// state-spaces/mamba2-*, of sequences as long as they were trained on.
ModelConfig mamba2(std::int64_t layers, std::int64_t hidden) {
  ModelConfig c;
  c.family = Family::kMamba2;
  c.layers = layers;
  c.hidden = hidden;
  c.head_dim = 64;
  c.vocab = 50288;  // GPT-NeoX's 50277, up to a multiple of 16
  c.seq_len = 2048;
  c.groups = 1;
  c.state_size = 128;
  c.conv_width = 4;
  c.expand = 2;
  c.chunk_size = 256;
  c.linear_bias = false;
  c.qkv_bias = false;
  return c;
}

/// He et al. 2017, whose MLP-3 has three layers.
ModelConfig ncf(std::int64_t users, std::int64_t items, std::int64_t factors) {
  ModelConfig c;
  c.family = Family::kNcf;
  c.layers = 3;
  c.hidden = factors;
  c.users = users;
  c.items = items;
  c.activation = Activation::kRelu;
  c.tied_embeddings = false;
  set_image_numbers(c);
  return c;
}

/// Tanaka et al. 2021 (RaNNC), section IV B; the smallest of them is bert-large. How many heads
/// they have is not said: here of 64, as BERT's are.
std::vector<ModelPreset> enlarged_berts() {
  std::vector<ModelPreset> presets;
  for (const std::int64_t hidden : {1024, 1536, 2048}) {
    for (const std::int64_t layers : {24, 48, 96, 144, 192, 256}) {
      if (hidden == 1024 && layers == 24) continue;
      const std::string width = std::to_string(hidden), depth = std::to_string(layers);
      presets.push_back(
          preset("bert-" + width + "h-" + depth + "l",
                 "BERT of the RaNNC paper, hidden " + width + ", " + depth + " layers",
                 bert(layers, hidden, hidden / 64)));
    }
  }
  return presets;
}

std::vector<ModelPreset> written_presets() {
  return {
      preset("gpt2", "GPT-2 small, 124 M parameters", gpt2(12, 768, 12)),
      preset("gpt2-medium", "GPT-2, 355 M parameters", gpt2(24, 1024, 16)),
      preset("gpt2-large", "GPT-2, 774 M parameters", gpt2(36, 1280, 20)),
      preset("gpt2-xl", "GPT-2, 1.6 B parameters", gpt2(48, 1600, 25)),

      // Brown et al. 2020, table 2.1, where hidden is heads x head dim: at 1.3 B the table's 24
      // heads of 128 are not, and 16 is what implementations take; at 13 B they take 5120 for 5140.
      preset("gpt3-125m", "GPT-3 Small, 125 M parameters", gpt(12, 768, 12)),
      preset("gpt3-350m", "GPT-3 Medium, 350 M parameters", gpt(24, 1024, 16)),
      preset("gpt3-760m", "GPT-3 Large, 760 M parameters", gpt(24, 1536, 16)),
      preset("gpt3-1.3b", "GPT-3 XL, 1.3 B parameters, 16 heads", gpt(24, 2048, 16)),
      preset("gpt3-2.7b", "GPT-3, 2.7 B parameters", gpt(32, 2560, 32)),
      preset("gpt3-6.7b", "GPT-3, 6.7 B parameters", gpt(32, 4096, 32)),
      preset("gpt3-13b", "GPT-3, 13 B parameters, hidden 5120", gpt(40, 5120, 40)),
      preset("gpt3-175b", "GPT-3, 175 B parameters", gpt(96, 12288, 96)),

      // Narayanan et al., SC'21 (arXiv:2104.04473), table 1.
      preset("gpt-1.7b", "Megatron-LM, SC'21 table 1, 1.7 B parameters", gpt(24, 2304, 24)),
      preset("gpt-3.6b", "Megatron-LM, SC'21 table 1, 3.6 B parameters", gpt(30, 3072, 32)),
      preset("gpt-7.5b", "Megatron-LM, SC'21 table 1, 7.5 B parameters", gpt(36, 4096, 32)),
      preset("gpt-18b", "Megatron-LM, SC'21 table 1, 18.4 B parameters", gpt(40, 6144, 48)),
      // Korthikanti et al. 2022 (arXiv:2205.05198), table 3; its other sizes are among these.
      preset("gpt-22b", "Megatron-LM, activation recomputation paper, 22 B parameters",
             gpt(48, 6144, 64)),
      preset("gpt-39b", "Megatron-LM, SC'21 table 1, 39.1 B parameters", gpt(48, 8192, 64)),
      preset("gpt-76b", "Megatron-LM, SC'21 table 1, 76.1 B parameters", gpt(60, 10240, 80)),
      preset("gpt-145b", "Megatron-LM, SC'21 table 1, 145.6 B parameters", gpt(80, 12288, 96)),
      preset("gpt-310b", "Megatron-LM, SC'21 table 1, 310.1 B parameters", gpt(96, 16384, 128)),
      preset("gpt-530b", "Megatron-LM, SC'21 table 1, 529.6 B parameters", gpt(105, 20480, 128)),
      preset("gpt-1t", "Megatron-LM, SC'21 table 1, 1008 B parameters", gpt(128, 25600, 160)),

      preset("gpt-neox-20b", "GPT-NeoX, 20.6 B parameters, parallel layers",
             gpt_neox(gpt(44, 6144, 64))),
      preset("falcon-7b", "Falcon, 6.9 B parameters, parallel layers, one key-value head",
             falcon(gpt(32, 4544, 71), Residual::kParallelOneNorm, 1)),
      preset("falcon-40b", "Falcon, 41.3 B parameters, parallel layers, 8 key-value heads",
             falcon(gpt(60, 8192, 128), Residual::kParallel, 8)),
      preset("opt-6.7b", "OPT, 6.7 B parameters", opt(gpt(32, 4096, 32))),
      preset("mpt-7b", "MPT, 6.6 B parameters, ALiBi", mpt(gpt(32, 4096, 32))),

      preset("bert-base", "BERT base uncased, 109 M parameters", bert(12, 768, 12)),
      preset("bert-large", "BERT large uncased, 335 M parameters", bert(24, 1024, 16)),
      preset("roberta-base", "RoBERTa base, 125 M parameters", roberta(12, 768, 12)),
      preset("roberta-large", "RoBERTa large, 355 M parameters", roberta(24, 1024, 16)),

      preset("t5-small", "T5 1.0, 60.5 M parameters", t5(6, 512, 8, 64, 2048)),
      preset("t5-base", "T5 1.0, 223 M parameters", t5(12, 768, 12, 64, 3072)),
      preset("t5-large", "T5 1.0, 738 M parameters", t5(24, 1024, 16, 64, 4096)),
      preset("t5-3b", "T5 1.0, 2.85 B parameters", t5(24, 1024, 32, 128, 16384)),
      preset("t5-11b", "T5 1.0, 11.3 B parameters", t5(24, 1024, 128, 128, 65536)),

      preset("llama2-7b", "Llama 2, 6.7 B parameters", llama(32, 4096, 32, 32, 11008, 32000, 4096)),
      preset("llama2-13b", "Llama 2, 13 B parameters", llama(40, 5120, 40, 40, 13824, 32000, 4096)),
      preset("llama2-70b", "Llama 2, 69 B parameters, 8 key-value heads",
             llama(80, 8192, 64, 8, 28672, 32000, 4096)),
      preset("llama3.2-1b", "Llama 3.2, 1.24 B parameters, tied embeddings",
             tied(llama3(llama(16, 2048, 32, 8, 8192, 128256, 8192)))),
      preset("llama3-8b", "Llama 3, 8 B parameters",
             llama3(llama(32, 4096, 32, 8, 14336, 128256, 8192))),
      preset("llama3-70b", "Llama 3, 71 B parameters",
             llama3(llama(80, 8192, 64, 8, 28672, 128256, 8192))),
      preset("llama3-405b", "Llama 3.1, 406 B parameters",
             llama3(llama(126, 16384, 128, 8, 53248, 128256, 8192))),
      preset("llama3.1-8b", "Llama 3.1, 8.0 B parameters, rotary angles for 131072 tokens",
             llama3_1(llama(32, 4096, 32, 8, 14336, 128256, 8192))),
      preset("mistral-7b", "Mistral 0.1, 7.2 B parameters, attention window of 4096",
             with_window(llama(32, 4096, 32, 8, 14336, 32000, 8192), 4096)),
      preset("qwen2-0.5b", "Qwen2, 494 M parameters, tied embeddings",
             tied(qwen2(llama(24, 896, 14, 2, 4864, 151936, 32768)))),
      preset("qwen2-7b", "Qwen2, 7.6 B parameters",
             qwen2(llama(28, 3584, 28, 4, 18944, 152064, 32768))),
      preset("qwen2-72b", "Qwen2, 72.7 B parameters",
             qwen2(llama(80, 8192, 64, 8, 29568, 152064, 32768))),
      preset("qwen3-8b", "Qwen3, 8.2 B parameters, norms of queries and keys",
             qwen3(llama(36, 4096, 32, 8, 12288, 151936, 40960))),
      preset("gemma-7b", "Gemma, 8.5 B parameters",
             gemma(llama(28, 3072, 16, 16, 24576, 256000, 8192))),
      preset("gemma2-9b", "Gemma 2, 9.2 B parameters, a window of 4096 in every other layer",
             gemma2(llama(42, 3584, 16, 8, 14336, 256000, 8192))),
      preset("phi3-mini", "Phi-3-mini-4k, 3.8 B parameters, attention window of 2047",
             with_window(llama(32, 3072, 32, 32, 8192, 32064, 4096), 2047)),

      preset("mamba2-130m", "Mamba-2, 129 M parameters", mamba2(24, 768)),
      preset("mamba2-370m", "Mamba-2, 368 M parameters", mamba2(48, 1024)),
      preset("mamba2-780m", "Mamba-2, 780 M parameters", mamba2(48, 1536)),
      preset("mamba2-1.3b", "Mamba-2, 1.3 B parameters", mamba2(48, 2048)),
      preset("mamba2-2.7b", "Mamba-2, 2.7 B parameters", mamba2(64, 2560)),

      preset("vit-b-16", "Vision transformer, 86.6 M parameters", vit(12, 768, 12, 16)),
      preset("vit-b-32", "Vision transformer, 88.2 M parameters", vit(12, 768, 12, 32)),
      preset("vit-l-16", "Vision transformer, 304 M parameters", vit(24, 1024, 16, 16)),
      preset("vit-h-14", "Vision transformer, 632 M parameters", vit(32, 1280, 16, 14)),

      preset("swin-t", "Swin Transformer, 28.3 M parameters", swin(12, 96, 3)),
      preset("swin-s", "Swin Transformer, 49.6 M parameters", swin(24, 96, 3)),
      preset("swin-b", "Swin Transformer, 87.8 M parameters", swin(24, 128, 4)),

      preset("clip-vit-b-32", "CLIP, 151 M parameters", clip(512, 12, 768, 32)),
      preset("clip-vit-b-16", "CLIP, 150 M parameters", clip(512, 12, 768, 16)),
      preset("clip-vit-l-14", "CLIP, 428 M parameters", clip(768, 24, 1024, 14)),

      preset("resnet18", "ResNet, 11.7 M parameters", resnet(18)),
      preset("resnet34", "ResNet, 21.8 M parameters", resnet(34)),
      preset("resnet50", "ResNet, 25.6 M parameters", resnet(50)),
      preset("resnet101", "ResNet, 44.5 M parameters", resnet(101)),
      preset("resnet152", "ResNet, 60.2 M parameters", resnet(152)),
      preset("resnet50x8", "ResNet of 8 times the channels, 1.5 B parameters", resnet(50, 8)),
      preset("resnet101x8", "ResNet of 8 times the channels, 2.7 B parameters", resnet(101, 8)),
      preset("resnet152x8", "ResNet of 8 times the channels, 3.7 B parameters", resnet(152, 8)),

      preset("vgg11", "VGG without batch norm, 133 M parameters", network(Family::kVgg, 11)),
      preset("vgg16", "VGG without batch norm, 138 M parameters", network(Family::kVgg, 16)),
      preset("vgg19", "VGG without batch norm, 144 M parameters", network(Family::kVgg, 19)),

      preset("densenet121", "DenseNet, 8.0 M parameters", network(Family::kDensenet, 121)),
      preset("densenet169", "DenseNet, 14.1 M parameters", network(Family::kDensenet, 169)),
      preset("densenet201", "DenseNet, 20.0 M parameters", network(Family::kDensenet, 201)),

      // Users and items of MovieLens as He et al. 2017, table 1, and GroupLens count them.
      preset("ncf-ml-1m", "NeuMF of 8 factors, MovieLens-1M, 0.4 M parameters", ncf(6040, 3706, 8)),
      preset("ncf-ml-20m", "NeuMF of 64 factors, MovieLens-20M, 53 M parameters",
             ncf(138493, 26744, 64)),
  };
}

std::vector<ModelPreset> make_presets() {
  std::vector<ModelPreset> presets = written_presets();
  const std::vector<ModelPreset> enlarged = enlarged_berts();
  const auto behind = std::find_if(presets.begin(), presets.end(),
                                   [](const ModelPreset& it) { return it.name == "roberta-base"; });
  presets.insert(behind, enlarged.begin(), enlarged.end());
  return presets;
}

}  // namespace

std::span<const ModelPreset> model_presets() {
  static const std::vector<ModelPreset> kPresets = make_presets();
  return kPresets;
}

const ModelPreset* find_model_preset(std::string_view name) {
  const std::span<const ModelPreset> presets = model_presets();
  const auto found = std::find_if(presets.begin(), presets.end(),
                                  [&](const ModelPreset& it) { return it.name == name; });
  return found == presets.end() ? nullptr : &*found;
}

}  // namespace trainyard
