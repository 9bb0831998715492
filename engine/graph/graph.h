// A model as a directed acyclic graph of tensor ops on one device, before any parallelism; the
// sharding pass turns it into the graph of one tensor-parallel rank (local shapes, collectives).
//
// Shapes: B = sequences of one microbatch, S = sequence, D = model dim (hidden), F = ffn width,
// V = vocabulary, N = heads, H = head dim.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/indexed.h"
#include "engine/base/units.h"
#include "engine/graph/constant.h"
#include "engine/graph/op_kind.h"
#include "engine/graph/shared_attrs.h"
#include "engine/sharding/spec_table.h"

namespace trainyard {

using TensorId = Index<struct Tensor>;        // of Graph::tensors
using OpId = Index<struct Op>;                // of Graph::ops
using ParameterId = Index<struct Parameter>;  // of Graph::parameters
using PathId = Index<struct ModulePath>;      // of the modules of a Graph, or of a Program
using Shape = boost::container::small_vector<std::int64_t, 4>;

std::int64_t num_elements(const Shape& shape);  // saturates instead of overflowing

enum class TensorRole : std::uint8_t {
  kActivation,  // computed for one microbatch, gradients of activations among them
  kParameter,
  kInput,              // data
  kParameterGradient,  // accumulated over the microbatches of a step
  kOfStep,             // made once per step for all its microbatches: weights in 8 bits
  kKept                // from step to step, beside parameters and the optimizer's state
};

/// How Megatron's tensor parallelism splits the parameter's op; other methods choose for
/// themselves.
enum class SplitHint : std::uint8_t {
  kNone,        // replicated
  kColumn,      // output features (linear weight dim 0, its bias)
  kRow,         // input features (linear weight dim 1; the bias stays whole)
  kVocabulary,  // rows of the token table or of the LM head
  kHeads,       // T5's relative bias: table dim 1
};

inline constexpr std::int8_t kSequenceDim = 1;  // of activations, [B, S, D]

struct Tensor {
  std::string name;  // activations: "decoder.layers.3.mlp.fc1.linear"; else as registered
  Shape shape;       // of this device; global before sharding
  DType dtype = DType::kBf16;
  TensorRole role = TensorRole::kActivation;
  OpId producer = kNoIndex;          // kActivation
  ParameterId parameter = kNoIndex;  // kParameter, kParameterGradient
  TensorId alias = kNoIndex;  // shares the storage of this tensor: in place, or a view into it
  std::int64_t alias_offset =
      0;  // of a view: first element, along the last dim; of a chunk of a batch: of all
  bool needs_gradient = false;
  bool on_host = false;  // in the memory of the device's host
  bool constant =
      false;    // kInput: the same for all samples, as the model has it; no dim counts them
  SpecId spec;  // in Graph::specs; kNoIndex before sharding
};

/// One of several weights that a parameter holds one behind the other along dim 0: q, k, v; gate,
/// up. Split by columns, a rank holds its share of each, in the same order.
struct ParameterPart {
  const char* name = "";    // replaces the last component of the module's path: "q". "": no weight
                            // of its own, but rows that are split by themselves
  std::int64_t rows = 0;    // global
  float deviation = 0.02F;  // of its initial values
};

/// Initial values: draws of mean 0 and a standard deviation, or a number. Those that are named for
/// their deviation come down to these: Kaiming's is sqrt(2 / fan), Xavier's sqrt(2 / (in + out)),
/// PyTorch's of linear layers and convolutions 1 / sqrt(3 fan in), uniform. A normal that is
/// truncated at 2, as PyTorch's is by default, is the normal: 0.02 never comes near.
enum class Init : std::uint8_t { kNormal, kUniform, kZeros, kOnes };

struct Parameter {
  std::string name;  // "decoder.layers.3.mlp.fc1.weight"
  Shape shape;       // global, without padding of the vocabulary
  Shape padded;      // global, with it; equal to shape for all other parameters
  TensorId tensor =
      kNoIndex;  // kNoIndex: counted but not trained (BERT's pooler without next-sentence head)
  SplitHint split = SplitHint::kNone;
  bool head = false;   // belongs to the training head, not to the base model
  bool decay = true;   // weight decay applies (not to biases and norms)
  float momentum = 0;  // above 0: no weight, but a running average, to which each microbatch adds
                       // so much of what the ops that read it saw; their backward adds that up in
                       // place of a gradient
  Init init = Init::kNormal;
  float deviation = 0.02F;           // of draws, where there are no parts
  std::vector<ParameterPart> parts;  // empty: one weight
  SpecId used;  // set by sharding: what its ops read; its gradient has the dual
};
/// Whether its parts are weights of their own.
inline bool holds_weights(const Parameter& parameter) {
  return !parameter.parts.empty() && *parameter.parts.front().name != '\0';
}

struct Op {
  OpKind kind = OpKind::kAdd;
  SharedAttrs attrs;
  boost::container::small_vector<TensorId, 4> inputs;
  boost::container::small_vector<TensorId, 2> outputs;
  PathId module{0};
  std::int32_t layer =
      -1;  // transformer layer in execution order (T5: encoder then decoder); -1: ends
  std::int8_t sublayer =
      0;  // of the layer: attention 0, MLP 1; in T5's decoder cross-attention 1, MLP 2
  std::int8_t chunk = 0;  // 1, 2, ...: works on this chunk of the microbatch; 0: on all of it
};

struct Graph {
  // Compiled once, in graph.cpp: hundreds of files copy, move and destroy it.
  Graph();
  Graph(const Graph&);
  Graph(Graph&&) noexcept;
  Graph& operator=(const Graph&);
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  std::string name;
  Indexed<TensorId, Tensor> tensors;
  Indexed<OpId, Op> ops;  // in execution order: an op's inputs are produced before it
  Indexed<ParameterId, Parameter> parameters;
  Indexed<PathId, std::string> modules;  // paths: "decoder.layers.3.mlp.fc1"
  SpecTable specs;                       // of tensors, once sharded
  TensorId loss = kNoIndex;
  std::int32_t num_layers = 0;                // 1 + largest Op::layer
  std::map<std::string, Constant> constants;  // by the tensor's name, where the content is known
  Flop model_flop_per_microbatch = 0;         // forward, GEMMs of the unsharded, unpadded model
  std::vector<Graph> smaller =
      {};  // where microbatches differ in size: the same model for the others, largest first
};

/// Everything of `graph` but its ops: what a pass that rewrites a graph op by op starts from.
Graph without_ops(const Graph& graph);

struct ParameterCount {
  std::int64_t base = 0;       // as the family's base class counts it
  std::int64_t with_head = 0;  // as trained, tied weights once
};
ParameterCount count_parameters(const Graph& graph);

/// Why `graph` is not a well-formed graph (the op and tensor at fault); empty when it is.
/// Checks execution order, one producer each, layers in ascending order, shapes, that whatever
/// needs a gradient is read by something, and that the loss exists.
std::string find_violation(const Graph& graph);

}  // namespace trainyard
