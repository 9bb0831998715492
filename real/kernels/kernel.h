// A kernel runs one op of a Program on LibTorch: one entry per op kind and part, under the op
// table's name. Kernels know tensors, attributes and where a shard lies in the whole; they know
// nothing of segments, streams or ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/philox.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"
#include "engine/sharding/spec_boxes.h"
#include "real/torch.h"

namespace trainyard {

/// Which part of a whole tensor an operand is: per dim its first index there and the whole extent.
struct ShardPlace {
  IndexedArray<std::int64_t, std::int64_t, kMostDims> start{};  // [dim]
  IndexedArray<std::int64_t, std::int64_t, kMostDims> whole{};
  /// A sequence in two runs: of its dim `two_runs` the indices from `first_run` on begin at
  /// `second_start`. -1: no dim is so.
  int two_runs = -1;
  std::int64_t first_run = 0, second_start = 0;
  /// Shards of dim 0, samples, in front of it in this data-parallel rank's microbatch: axes that
  /// tell no replicas apart cut it, too.
  std::int64_t shards_before = 0;
};

/// What changes from step to step or call to call and is not in the Program.
struct StepState {
  std::int64_t step = 0;     // counts from 0
  std::int64_t updates = 0;  // made before this step: fewer than steps where gradients overflowed
  std::int64_t first_sample = 0;  // of this call's microbatch, counted through the whole run
  double predicted = 0;  // tokens of the step that are predicted: what their loss is the mean of
  double learning_rate = 0;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  double clip_norm = 0;   // 0: off
  double loss_scale = 1;  // gradients are this times too large until the optimizer
};

/// Consecutive elements of an optimizer's shard that are treated alike.
struct DecayRange {
  std::int64_t begin = 0, end = 0;  // elements of the shard
  bool decay = true;
};

struct KernelCall {
  const OpAttrs* attrs = nullptr;
  const StepState* state = nullptr;
  std::vector<at::Tensor> reads, accumulates;
  std::vector<at::Tensor>
      writes;  // defined: storage that is given (a pool slot, a view); else the kernel's
  std::vector<at::ScalarType> write_types;
  std::vector<std::vector<std::int64_t>> write_shapes;
  const ShardPlace* read_places = nullptr;   // [read]
  const ShardPlace* write_places = nullptr;  // [write]
  /// rope, block_attention: which positions of the sequence the rows of the rotated tensor, of the
  /// queries and of the keys are.
  const IndexRanges *query_positions = nullptr, *key_positions = nullptr;
  const DocumentDraws* documents = nullptr;  // of the samples; null: they are one piece each
  std::int64_t first_row = 0;  // of the replica's samples of the microbatch, where it has some
  /// Where the documents of the microbatch's sample `row` begin, and the last ends.
  std::vector<std::int64_t> document_borders_of(std::int64_t row) const {
    return document_borders(documents->config, documents->length,
                            state->first_sample + first_row + row);
  }
  PhiloxKey mask_key{};      // dropout: of (seed, module, kind, draw); the step is in the counter
  double loss_divisor = 1;   // losses: what the mean of the whole step is taken of
  double average_share = 0;  // batch norms: what their running averages take of the microbatch;
                             // average: what a step leaves of them
  const std::vector<DecayRange>* decay = nullptr;  // optimizers
  bool has_norm = false;  // optimizers, reads[0]: squared norm of all gradients
  at::Tensor
      guard;  // optimizers: not finite, or a flag that is 0: nothing is updated; undefined: always
  at::Device device = at::kCPU;  // where results lie
  bool immediate = true;  // numbers may be looked at; false: the host would wait for the device

  const at::Tensor& read(std::size_t i) const { return reads[i]; }
  /// Hands over the i-th result: adopted where no storage was given, copied there otherwise.
  void set(std::size_t i, at::Tensor result);
  /// Hands over the gradient of an operand, in its extents: the only result of an activation's,
  /// added to what is accumulated of a parameter's.
  void give(const at::Tensor& gradient);
  /// An uninitialised tensor for the i-th result, in its storage where one was given.
  at::Tensor out(std::size_t i);
};

/// Whether a guard lets an update take place, 0-dim: the host does not wait for it.
at::Tensor guard_holds(const at::Tensor& guard);

using Kernel = void (*)(KernelCall&);

/// nullptr: this version has none (calls that move data between ranks are not kernels).
Kernel find_kernel(OpKind kind, OpPart part);

at::ScalarType to_torch(DType type);

}  // namespace trainyard
