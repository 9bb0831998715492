// The builder of each family, for build_model() alone: they rely on find_problem() finding none.
#pragma once

#include "models/model.h"

namespace trainyard {

Graph build_gpt(const ModelConfig& config, const BuildOptions& options);
Graph build_bert(const ModelConfig& config, const BuildOptions& options);
Graph build_t5(const ModelConfig& config, const BuildOptions& options);
Graph build_llama(const ModelConfig& config, const BuildOptions& options);
Graph build_vit(const ModelConfig& config, const BuildOptions& options);
Graph build_resnet(const ModelConfig& config, const BuildOptions& options);
Graph build_vgg(const ModelConfig& config, const BuildOptions& options);
Graph build_densenet(const ModelConfig& config, const BuildOptions& options);
Graph build_swin(const ModelConfig& config, const BuildOptions& options);
Graph build_unet(const ModelConfig& config, const BuildOptions& options);
Graph build_ncf(const ModelConfig& config, const BuildOptions& options);
Graph build_mamba2(const ModelConfig& config, const BuildOptions& options);
Graph build_clip(const ModelConfig& config, const BuildOptions& options);

/// Channels behind the stem of a residual network, before width_factor.
inline constexpr std::int64_t kResnetChannels = 64;
/// Residual networks of so many layers and more are made of bottlenecks.
inline constexpr std::int64_t kLeastBottleneckDepth = 50;

/// Groups of channels of unet's norms.
inline constexpr std::int64_t kUnetGroups = 8;

}  // namespace trainyard
