// Pass: linear layers of a model's blocks multiply in 8 bits. Each of their operands is cast before
// the product reads it, and what the backward keeps is the cast, of one byte:
//
//   linear x w -> y            amax x -> x.amax ; all_reduce:tp x.amax ; quantize x x.amax ->
//   x.e4m3
//                              x.scale ; linear x.e4m3 w.e4m3 x.scale w.scale -> y
//   linear_dx d.y w -> d.x     amax d.y ... ; quantize d.y d.y.amax -> d.y.e5m2 d.y.scale ;
//                              linear_dx d.y.e5m2 w.e4m3 d.y.scale w.scale -> d.x
//   linear_dw d.y x +> grad.w  linear_dw d.y.e5m2 x.e4m3 d.y.scale x.scale +> grad.w
//
// Weights change once per step, and are cast before it; gathered ones (ZeRO-3) when they are there,
// for the forward and for the backward each, or they are gathered as they are cast
// (fp8_gathers.h). Attention, the LM head, norms and embeddings stay as
// they are, as do layers whose dims are no multiples of 16, for which cuBLAS has no FP8 products,
// and those whose operands are summands of several ranks.
#pragma once

#include <optional>

#include "engine/base/error.h"
#include "engine/passes/fp8_copies.h"
#include "engine/passes/training_graph.h"
#include "engine/plan/fp8_config.h"

namespace trainyard {

/// Whether a linear layer is one to cast, however it is split.
bool is_cast_layer(const Graph& graph, const Op& op);

/// Whether a rank can cast such a part of its weight.
bool can_cast_part(const Shape& weight);

/// Infeasible where the devices have no FP8, the model no layer to cast, or a rank a part of a
/// layer that is none to cast.
std::optional<Infeasible> cast_products(TrainingGraph& training, const Fp8Config& config,
                                        const AmaxAxes& axes, WeightCasts weights);

}  // namespace trainyard
