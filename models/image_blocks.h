// What families of images share: their input, and the classifier at the end.
#pragma once

#include <string>

#include "models/blocks.h"

namespace trainyard {

/// Data input of images [B, C, H, W], in the type of weights.
TensorId image_input(ModelBuilder& m);

/// Whose size a weight's initial values go by: of what it reads, or of what it makes.
enum class Fan : std::uint8_t { kIn, kOut };

/// A convolution without bias whose weights start as kaiming_normal() has them.
TensorId convolution(ModelBuilder& m, const std::string& module, TensorId x, std::int64_t out,
                     std::int32_t window, std::int32_t stride, Fan fan);

/// As the study's batch_norm says, over a replica's samples or all of the microbatch.
TensorId batch_norm(ModelBuilder& m, const std::string& module, TensorId x);

TensorId relu(ModelBuilder& m, const std::string& module, TensorId x);

/// The mean of each channel: [B, C, H, W] -> [B, C].
TensorId global_mean(ModelBuilder& m, const std::string& module, TensorId x);

/// Loss of x [B, features] against the input `labels` [B], through a linear layer `head` of the
/// training head.
TensorId classification_loss(ModelBuilder& m, TensorId x, const ParameterForm& form = {});

}  // namespace trainyard
