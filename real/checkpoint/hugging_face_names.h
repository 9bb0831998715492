// What our weights are called in the transformers library, and where they lie in its tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "real/checkpoint/hugging_face_types.h"

namespace trainyard {

/// A part of each head of a weight: the `which`-th of `of`, each of so many rows.
struct HeadPart {
  std::int64_t which = 0;
  std::int64_t of = 1;
  std::int64_t rows = 0;
};

/// One weight of ours, or a part of its heads, in one tensor of theirs.
struct HuggingFaceWeight {
  std::string ours;                 // "decoder.layers.0.attention.k.weight"
  std::vector<std::int64_t> shape;  // of ours, dims behind the first as one
  std::string theirs;               // "transformer.h.0.attn.c_attn.weight"
  bool transposed = false;          // theirs is [in, out] where ours is [out, in]
  std::int64_t first_row = 0;  // of ours among the rows that theirs stacks (before transposing)
  std::int64_t rows = 0;       // that theirs stacks
  std::int64_t run = 0;        // rows of ours that lie together there; 0: all
  std::int64_t stride = 0;     // from one run to the next
  bool boxed = false;          // theirs has a dim of 1 in front
  bool bare = false;           // theirs lacks the first dim of ours, which is 1
  double offset = 0;           // theirs is ours and this number
  HeadPart part = {};          // of ours that is there
  std::vector<std::int64_t> their_shape = {};
};

/// How many rows of ours are there.
inline std::int64_t held_rows(const HuggingFaceWeight& weight) {
  return weight.shape.front() / weight.part.of;
}

/// Which row of ours is one of them.
inline std::int64_t our_row(const HuggingFaceWeight& weight, std::int64_t held) {
  const auto [which, of, rows] = weight.part;
  return of == 1 ? held : (held / rows * of + which) * rows + held % rows;
}

/// Which row of theirs (before transposing) has it.
inline std::int64_t their_row(const HuggingFaceWeight& weight, std::int64_t held) {
  if (weight.run == 0) return weight.first_row + held;
  return weight.first_row + held / weight.run * weight.stride + held % weight.run;
}

/// The model's graph of as few samples as there may be: its weights are the same for all.
Graph graph_of_weights(const ModelConfig& config);

/// Every weight of `graph`, a graph of build_model(), at least once, or all parts of it; what
/// transformers keeps twice is there twice, first where it is computed with. Weights stacked in one
/// tensor follow each other.
std::vector<HuggingFaceWeight> hugging_face_weights(HuggingFaceType type, const Graph& graph);

/// "transformer.", "bert.", ...: files of the base class alone have their names without it.
std::string_view base_prefix(HuggingFaceType type);

}  // namespace trainyard
