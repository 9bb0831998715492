#include "models/model.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/quantity.h"
#include "engine/plan/plan_limits.h"
#include "models/decoder_problem.h"
#include "models/families.h"
#include "models/onnx/onnx_graph.h"

namespace trainyard {

namespace {

constexpr std::int64_t kMaxWidthFactor = 64;
constexpr std::int64_t kMaxSize = std::int64_t{1} << 30;  // products of two sizes fit in 63 bits

using Problem = std::optional<ModelProblem>;

std::string in_range_problem(std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least) {
    return "expected at least " + std::to_string(least) + ", got " + std::to_string(value);
  }
  if (value > most) {
    return "expected at most " + std::to_string(most) + ", got " + std::to_string(value);
  }
  return {};
}

/// Every size lies in its range; which sizes a family needs (at least 1) depends on the family.
Problem find_size_problem(const ModelConfig& config) {
  if (config.family == Family::kOnnx) return std::nullopt;  // what does not fit is a node's problem
  const bool is_t5 = config.family == Family::kT5;
  const bool has_positions =
      config.family == Family::kBert ||
      (config.family == Family::kGpt && config.positions == Positions::kLearned);
  const bool is_swin = config.family == Family::kSwin, is_ncf = config.family == Family::kNcf;
  const std::int64_t layered = is_convolutional(config.family) ? 0 : 1;
  const bool is_mamba2 = config.family == Family::kMamba2;
  const std::int64_t attends = is_ncf || is_mamba2 ? 0 : layered;
  const bool is_clip = config.family == Family::kClip;
  const std::int64_t alike = is_swin || is_clip ? 0 : attends;  // layers of one width
  const std::int64_t of_images = is_of_images(config.family) ? 1 : 0;
  const std::int64_t has_images = is_clip ? 1 : of_images;
  const std::int64_t of_text = is_of_text(config.family) || is_clip ? 1 : 0;
  const struct {
    const char* key;
    std::int64_t value;
    std::int64_t least;
  } kSizes[] = {
      {"layers", config.layers, layered},
      {"decoder_layers", config.decoder_layers, is_t5 ? 1 : 0},
      {"hidden", config.hidden, config.family == Family::kUnet ? 1 : layered},
      {"heads", config.heads, attends},
      {"kv_heads", config.kv_heads, alike},
      {"head_dim", config.head_dim, is_mamba2 ? 1 : alike},
      {"ffn", config.ffn, alike},
      {"vocab", config.vocab, of_text},
      {"seq_len", config.seq_len, of_text},
      {"decoder_seq_len", config.decoder_seq_len, is_t5 ? 1 : 0},
      {"max_positions", config.max_positions, has_positions ? 1 : 0},
      {"token_types", config.token_types, config.family == Family::kBert ? 1 : 0},
      {"relative_buckets", config.relative_buckets, is_t5 ? 1 : 0},
      {"pad_vocab_to", config.pad_vocab_to, 0},
      {"image_size", config.image_size, has_images},
      {"patch_size", config.patch_size,
       is_swin || is_clip || config.family == Family::kVit ? 1 : 0},
      {"window_size", config.window_size, is_swin ? 1 : 0},
      {"channels", config.channels, has_images},
      {"classes", config.classes, of_images},
      {"depth", config.depth, is_convolutional(config.family) ? 1 : 0},
      {"width_factor", config.width_factor, config.family == Family::kResnet ? 1 : 0},
      {"users", config.users, is_ncf ? 1 : 0},
      {"items", config.items, is_ncf ? 1 : 0},
      {"image_layers", config.image_layers, is_clip ? 1 : 0},
      {"image_hidden", config.image_hidden, is_clip ? 1 : 0},
      {"image_heads", config.image_heads, is_clip ? 1 : 0},
      {"projection_dim", config.projection_dim, is_clip ? 2 : 0},
      {"contrast", config.contrast, is_clip ? 2 : 0},
      {"groups", config.groups, is_mamba2 ? 1 : 0},
      {"state_size", config.state_size, is_mamba2 ? 1 : 0},
      {"conv_width", config.conv_width, is_mamba2 ? 1 : 0},
      {"expand", config.expand, is_mamba2 ? 1 : 0},
      {"chunk_size", config.chunk_size, is_mamba2 ? 1 : 0},
  };
  for (const auto& size : kSizes) {
    const std::string problem = in_range_problem(size.value, size.least, kMaxSize);
    if (!problem.empty()) return ModelProblem{size.key, problem};
  }
  if (const std::int64_t layers = num_layers(config); layers > kMaxLayers) {
    return ModelProblem{"layers", in_range_problem(layers, 1, kMaxLayers)};
  }
  return std::nullopt;
}

/// Images of at most 2^15 x 2^15 elements: how many windows they have fits in 31 bits.
constexpr std::int64_t kMaxImageSize = std::int64_t{1} << 15;

/// Its four stages halve the grid of patches three times, and windows fill each grid.
Problem find_swin_problem(const ModelConfig& config) {
  if (config.layers < kLeastSwinLayers)
    return ModelProblem{"layers", "swin has 2, 2, layers - 6 and 2 blocks; expected at least " +
                                      std::to_string(kLeastSwinLayers) + ", got " +
                                      std::to_string(config.layers)};
  if (config.hidden % config.heads != 0)
    return ModelProblem{"heads", std::to_string(config.heads) + " does not divide hidden, " +
                                     std::to_string(config.hidden)};
  const std::int64_t grid = config.image_size / config.patch_size;
  if (config.window_size <= grid / 8 && grid % (8 * config.window_size) == 0) return std::nullopt;
  return ModelProblem{"image_size",
                      std::to_string(config.image_size) + " is " + std::to_string(grid) +
                          " patches along each dim, which windows of " +
                          std::to_string(config.window_size) +
                          " do not fill in each of four stages, halved three times; multiples of " +
                          std::to_string(8 * config.window_size) + " patches they do"};
}

constexpr std::int64_t kMostLevels = 10;

/// Every level but the lowest halves the image and doubles the channels.
Problem find_unet_problem(const ModelConfig& config) {
  if (config.depth > kMostLevels)
    return ModelProblem{"depth", in_range_problem(config.depth, 1, kMostLevels)};
  const std::int64_t times = std::int64_t{1} << config.depth;
  if (config.image_size % times != 0)
    return ModelProblem{"image_size", std::to_string(config.image_size) + " is not halved " +
                                          std::to_string(config.depth) +
                                          " times, as depth says; multiples of " +
                                          std::to_string(times) + " are"};
  if (config.hidden % kUnetGroups != 0)
    return ModelProblem{"hidden", "norms are over " + std::to_string(kUnetGroups) +
                                      " groups of channels, of which " +
                                      std::to_string(config.hidden) + " is no multiple"};
  return std::nullopt;
}

Problem find_image_problem(const ModelConfig& config) {
  if (!is_of_images(config.family) && config.family != Family::kClip) return std::nullopt;
  const std::string size = std::to_string(config.image_size);
  if (config.image_size > kMaxImageSize)
    return ModelProblem{"image_size", in_range_problem(config.image_size, 1, kMaxImageSize)};
  if (config.patch_size > 0 && config.image_size % config.patch_size != 0)
    return ModelProblem{"patch_size",
                        std::to_string(config.patch_size) + " does not divide image_size, " + size};
  if (config.family == Family::kSwin) return find_swin_problem(config);
  if (config.family == Family::kUnet) return find_unet_problem(config);
  if (!is_convolutional(config.family)) return std::nullopt;
  if (blocks_by_stage(config.family, config.depth).empty()) {
    std::string known;
    for (const std::int64_t depth : depths_of(config.family))
      known += (known.empty() ? "" : ", ") + std::to_string(depth);
    return ModelProblem{"depth", "no " + std::string(to_string(config.family)) +
                                     " has a depth of " + std::to_string(config.depth) +
                                     "; expected one of: " + known};
  }
  // Each of five stages halves the image.
  if (config.image_size < 32)
    return ModelProblem{"image_size",
                        "expected at least 32, which is halved five times, got " + size};
  if (config.width_factor > kMaxWidthFactor)
    return ModelProblem{"width_factor", in_range_problem(config.width_factor, 1, kMaxWidthFactor)};
  return std::nullopt;
}

/// Widths of ncf's tower double from its end to its beginning.
Problem find_ncf_problem(const ModelConfig& config) {
  if (config.family != Family::kNcf) return std::nullopt;
  std::int64_t most = 0;
  for (std::int64_t width = config.hidden; width <= kMaxSize / 2; width *= 2) ++most;
  if (config.layers <= most) return std::nullopt;
  return ModelProblem{"layers", std::to_string(config.layers) +
                                    " layers, each half as wide as the "
                                    "one before it, down to " +
                                    std::to_string(config.hidden) +
                                    ": the first would be too wide; expected at most " +
                                    std::to_string(most)};
}

/// Each tower's heads divide its width.
Problem find_clip_problem(const ModelConfig& config) {
  if (config.family != Family::kClip) return std::nullopt;
  const auto indivisible = [](const char* key, std::int64_t heads, const std::string& width_key,
                              std::int64_t width) {
    return ModelProblem{key, std::to_string(heads) + " does not divide " + width_key + ", " +
                                 std::to_string(width)};
  };
  if (config.hidden % config.heads != 0)
    return indivisible("heads", config.heads, "hidden", config.hidden);
  if (config.image_hidden % config.image_heads != 0)
    return indivisible("image_heads", config.image_heads, "image_hidden", config.image_hidden);
  return std::nullopt;
}

/// Heads fill what the projection makes, and chunks the sequence.
Problem find_mamba2_problem(const ModelConfig& config) {
  if (config.family != Family::kMamba2) return std::nullopt;
  const std::int64_t width = config.expand * config.hidden;
  if (width > kMaxSize / 4 || config.state_size > kMaxSize / 4)
    return ModelProblem{width > kMaxSize / 4 ? "expand" : "state_size",
                        in_range_problem(std::max(width, config.state_size), 1, kMaxSize / 4)};
  if (config.groups > kMaxSize / 4 / config.state_size)
    return ModelProblem{"groups",
                        in_range_problem(config.groups, 1, kMaxSize / 4 / config.state_size)};
  if (width % config.head_dim != 0)
    return ModelProblem{"head_dim", "heads of " + std::to_string(config.head_dim) +
                                        " channels do not fill expand x hidden, " +
                                        std::to_string(width)};
  if (width / config.head_dim % config.groups != 0)
    return ModelProblem{"groups", std::to_string(config.groups) + " groups do not divide " +
                                      std::to_string(width / config.head_dim) + " heads"};
  if (config.seq_len % std::min(config.chunk_size, config.seq_len) != 0)
    return ModelProblem{"seq_len", std::to_string(config.seq_len) + " tokens are no chunks of " +
                                       std::to_string(config.chunk_size) +
                                       "; a multiple of chunk_size is, or fewer"};
  return std::nullopt;
}

/// Sizes that depend on each other agree.
Problem find_relation_problem(const ModelConfig& config) {
  const std::string seq_len = std::to_string(config.seq_len);
  if (config.kv_heads > 0 && config.heads % config.kv_heads != 0) {
    return ModelProblem{"kv_heads", std::to_string(config.kv_heads) + " does not divide heads, " +
                                        std::to_string(config.heads)};
  }
  if (config.family == Family::kT5 && config.kv_heads != config.heads) {
    return ModelProblem{"kv_heads", "t5 has as many as heads, " + std::to_string(config.heads) +
                                        ", got " + std::to_string(config.kv_heads)};
  }
  if (config.max_positions > 0 && config.seq_len > config.max_positions) {
    return ModelProblem{"seq_len", "expected at most max_positions, " +
                                       std::to_string(config.max_positions) + ", got " + seq_len};
  }
  if (config.pad_vocab_to > 0 && config.pad_vocab_to < config.vocab) {
    return ModelProblem{"pad_vocab_to", "expected at least vocab, " + std::to_string(config.vocab) +
                                            ", got " + std::to_string(config.pad_vocab_to)};
  }
  if (config.next_sentence && config.family != Family::kBert) {
    return ModelProblem{"next_sentence", "only bert has a next-sentence head"};
  }
  return std::nullopt;
}

Problem find_attention_problem(const ModelConfig& config) {
  if (config.family != Family::kGpt &&
      (!config.scaled_attention || config.layer_scaled_attention)) {
    return ModelProblem{config.scaled_attention ? "layer_scaled_attention" : "scaled_attention",
                        "only gpt chooses how scores are scaled; leave this key out"};
  }
  return std::nullopt;
}

/// Numbers of the layers, in the ranges that a study has for them.
Problem find_number_problem(const ModelConfig& config) {
  const auto outside = [](const char* key, double value, double least, double below) {
    return ModelProblem{key, "expected at least " + number_text(least) + " and less than " +
                                 number_text(below) + ", got " + number_text(value)};
  };
  if (!(config.norm_eps >= 0 && config.norm_eps < kNormEpsBelow)) {
    return outside("norm_eps", config.norm_eps, 0, kNormEpsBelow);
  }
  if (!(config.rope_base >= kLeastRotaryBase && config.rope_base < kRotaryBaseBelow)) {
    return outside("rope_base", config.rope_base, kLeastRotaryBase, kRotaryBaseBelow);
  }
  return std::nullopt;
}

void check_options(const ModelConfig& config, const BuildOptions& options) {
  const std::string problem = in_range_problem(options.microbatch, 1, kMaxSize);
  if (!problem.empty()) throw ConfigError({}, "training.microbatch", problem);
  if (config.contrast > 0 && options.microbatch % config.contrast != 0) {
    const std::string group = std::to_string(config.contrast);
    throw ConfigError({}, "training.microbatch",
                      std::to_string(options.microbatch) + " samples cannot be put in groups of " +
                          group + " (model.contrast); a multiple of " + group + " can");
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    throw ConfigError({}, "training.dropout",
                      "expected at least 0 and below 1, got " + std::to_string(options.dropout));
  }
  if (!has_dropout(config.family) && options.dropout > 0) {
    throw ConfigError({}, "training.dropout",
                      std::string(to_string(config.family)) + " has no dropout; expected 0, got " +
                          std::to_string(options.dropout));
  }
}

Graph build_from_file(const ModelConfig& config, const BuildOptions& options,
                      std::vector<std::string>* warnings) {
  OnnxGraph made = build_onnx_graph(config, options);
  const std::string left_out = left_out_text(made, config.onnx->file);
  if (warnings != nullptr && !left_out.empty()) warnings->push_back(left_out);
  return std::move(made.graph);
}

Graph build_family(const ModelConfig& config, const BuildOptions& options,
                   std::vector<std::string>* warnings) {
  switch (config.family) {
    case Family::kGpt: return build_gpt(config, options);
    case Family::kBert: return build_bert(config, options);
    case Family::kT5: return build_t5(config, options);
    case Family::kLlama: return build_llama(config, options);
    case Family::kVit: return build_vit(config, options);
    case Family::kResnet: return build_resnet(config, options);
    case Family::kVgg: return build_vgg(config, options);
    case Family::kDensenet: return build_densenet(config, options);
    case Family::kSwin: return build_swin(config, options);
    case Family::kUnet: return build_unet(config, options);
    case Family::kNcf: return build_ncf(config, options);
    case Family::kMamba2: return build_mamba2(config, options);
    case Family::kClip: return build_clip(config, options);
    case Family::kOnnx: return build_from_file(config, options, warnings);
  }
  bug("a family without a builder");
}

}  // namespace

std::optional<ModelProblem> find_problem(const ModelConfig& config) {
  if (Problem problem = find_size_problem(config)) return problem;
  if (Problem problem = find_number_problem(config)) return problem;
  if (Problem problem = find_image_problem(config)) return problem;
  if (Problem problem = find_ncf_problem(config)) return problem;
  if (Problem problem = find_mamba2_problem(config)) return problem;
  if (Problem problem = find_clip_problem(config)) return problem;
  if (Problem problem = find_relation_problem(config)) return problem;
  if (Problem problem = find_attention_problem(config)) return problem;
  return find_decoder_problem(config);
}

Graph build_model(const ModelConfig& config, const BuildOptions& options,
                  std::vector<std::string>* warnings) {
  if (const Problem problem = find_problem(config)) {
    throw ConfigError({}, "model." + problem->key, problem->problem);
  }
  check_options(config, options);
  Graph graph = build_family(config, options, warnings);
  for (const Tensor& tensor : graph.tensors) {
    if (const std::int64_t count = num_elements(tensor.shape); count > kMaxTensorElements) {
      throw ConfigError(
          {}, "model",
          tensor.name + " has " + std::to_string(count) + " elements; a tensor has at most 2^40");
    }
  }
  if (const std::string violation = find_violation(graph); !violation.empty()) bug(violation);
  return graph;
}

}  // namespace trainyard
