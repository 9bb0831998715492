// Pass: forward graph -> forward and explicit backward instructions for one microbatch.
//
// No tape: every gradient is a tensor, every backward op an instruction that says what it reads.
// The input-gradient and the weight-gradient half of a linear layer are two instructions, so that
// schedules can move them apart.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <vector>

#include "engine/cost/software_profile.h"
#include "engine/graph/graph.h"
#include "engine/partition/stage_partition.h"

namespace trainyard {

struct Instruction {
  OpKind kind = OpKind::kAdd;
  OpPart part = OpPart::kForward;
  OpAttrs attrs;
  boost::container::small_vector<TensorId, 4> reads;
  boost::container::small_vector<TensorId, 2> writes;
  boost::container::small_vector<TensorId, 2> accumulates;
  std::int32_t module = 0;
  std::int32_t layer = -1;
  std::int8_t sublayer = 0;
  std::int8_t half = 0;     // of the forward op that it belongs to
  std::int32_t stage = 0;   // transfers: the receiving stage forward, the sending one backward
  OpId origin = -1;         // forward op that it belongs to
  bool recomputed = false;  // a forward instruction that recompute() has run again for the backward
  bool weight_half = false;  // W's, where the backward is split (split_backward.h)
};

struct TrainingGraph {
  Graph graph;  // tensors hold gradients too; ops are those of the forward
  std::vector<Instruction> forward;
  std::vector<Instruction> backward;
  std::vector<Instruction>
      loads;  // copies from the host that a piece of the backward needs: passes/offload.h
  std::vector<TensorId> parameter_gradient;  // [parameter]; -1: not trained
  int num_stages = 1;
};

/// `grad_dtype`: type in which parameter gradients accumulate.
TrainingGraph differentiate(const StagedGraph& staged, const SoftwareProfile& software,
                            DType grad_dtype);

}  // namespace trainyard
