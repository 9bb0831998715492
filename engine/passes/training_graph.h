// The instructions of one microbatch, forward and backward: what the passes from differentiate() to
// offload work on.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace trainyard {

struct Instruction {
  OpKind kind = OpKind::kAdd;
  OpPart part = OpPart::kForward;
  SharedAttrs attrs;
  boost::container::small_vector<TensorId, 4> reads;
  boost::container::small_vector<TensorId, 2> writes;
  boost::container::small_vector<TensorId, 2> accumulates;
  PathId module{0};
  std::int32_t layer = -1;
  std::int8_t sublayer = 0;
  std::int8_t chunk = 0;    // of the forward op that it belongs to
  std::int32_t stage = 0;   // transfers: the receiving stage forward, the sending one backward
  std::int32_t from = -1;   // transfers: the stage that made the value, or has it from there
  OpId origin = kNoIndex;   // forward op that it belongs to
  bool recomputed = false;  // a forward instruction that recompute() has run again for the backward
  bool weight_half = false;  // W's, where the backward is split (split_backward.h)
};

struct TrainingGraph {
  Graph graph;  // tensors hold gradients too; ops are those of the forward
  std::vector<Instruction> forward;
  std::vector<Instruction> backward;
  std::vector<Instruction>
      loads;  // copies from the host that a piece of the backward needs: passes/offload.h
  std::vector<Instruction> before_step, behind_step;  // once per step and stage: fp8_products.h
  Indexed<ParameterId, TensorId> parameter_gradient;  // kNoIndex: not trained
  Indexed<ParameterId, TensorId>
      gathered_scale;  // kNoIndex: not gathered in 8 bits (fp8_gathers.h); empty: none is
  int num_stages = 1;
};

/// Puts `fresh`[i] in front of instruction i of `list`, and its last behind them all.
void insert_before(std::vector<Instruction>& list, std::vector<std::vector<Instruction>> fresh);

/// Why `training` is not well-formed (the instruction and tensor at fault); empty when it is. Looks
/// at ids, at the order in which tensors are written and read, each written once, and at what the
/// half of a split backward that others wait for reads.
std::string find_training_violation(const TrainingGraph& training);

}  // namespace trainyard
