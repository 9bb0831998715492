// How weights of PyTorch's modules start, and those of torchvision's models.
#pragma once

#include <cstdint>

#include "engine/graph/graph_builder.h"

namespace trainyard {

/// nn.Linear's and nn.Conv2d's own: uniform over +- 1 / sqrt(fan in), weight and bias.
ParameterForm uniform_by_fan_in(std::int64_t fan_in);
/// He et al. 2015 (arXiv:1502.01852): normal of deviation sqrt(2 / fan), for what a relu follows.
ParameterForm kaiming_normal(std::int64_t fan);
/// LeCun et al. 1998: normal of deviation sqrt(1 / fan in).
ParameterForm lecun_normal(std::int64_t fan_in);
/// Glorot and Bengio 2010: uniform of deviation sqrt(2 / (in + out)).
ParameterForm xavier_uniform(std::int64_t in, std::int64_t out);

}  // namespace trainyard
