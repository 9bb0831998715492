// docs/ops.md: how each op kind may be split over ranks, as its index space says.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/graph/op_space.h"
#include "tests/support/source_root.h"

namespace trainyard::ops_page_test {

namespace {

/// An op of one kind, as models have it.
struct Sample {
  OpKind kind;
  const char* what;
  std::vector<Extents> operands;
  std::size_t results = 1;
  OpAttrs attrs = {};
  OpParameters parameters = {};
};

OpAttrs heads() {
  OpAttrs attrs;
  attrs.heads = 8, attrs.kv_heads = 4, attrs.head_dim = 16, attrs.packed = true;
  return attrs;
}
OpAttrs heads_in_ring() {
  OpAttrs attrs = heads();
  attrs.ring = 4;
  return attrs;
}
OpAttrs state_space() {
  OpAttrs attrs;
  attrs.heads = 8, attrs.kv_heads = 2, attrs.head_dim = 16, attrs.states = 4, attrs.chunk = 8;
  return attrs;
}
OpAttrs samples(int count) {
  OpAttrs attrs;
  attrs.samples = count;
  return attrs;
}
OpAttrs groups(int count) {
  OpAttrs attrs;
  attrs.groups = count;
  return attrs;
}

OpParameters at_dim(int dim, const IndexExtents& extents = {}) {
  OpParameters parameters;
  parameters.dim = dim;
  parameters.extents = extents;
  return parameters;
}
OpParameters with_dims(std::vector<int> dims) {
  OpParameters parameters;
  parameters.dims = std::move(dims);
  return parameters;
}
OpParameters to_extents(Extents to) {
  OpParameters parameters;
  parameters.to = std::move(to);
  return parameters;
}
OpParameters in_sizes(std::vector<std::int64_t> sizes, int dim) {
  OpParameters parameters = at_dim(dim);
  parameters.sizes = std::move(sizes);
  return parameters;
}

const std::vector<Sample>& all_samples() {
  using enum OpKind;
  static const std::vector<Sample> kSamples = {
      {kEmbedding, "rows of a table", {{4, 32}, {100, 64}}},
      {kLinear, "product with a weight", {{4, 32, 64}, {128, 64}}},
      {kBmm, "product of batches of matrices", {{4, 8, 16}, {4, 16, 32}}},
      {kAddBias, "a bias for each feature", {{4, 32, 64}, {64}}},
      {kLayerNorm, "norm over features", {{4, 32, 64}, {64}, {64}}, 2},
      {kRmsNorm, "norm over features", {{4, 32, 64}, {64}}, 2},
      {kRmsNorm, "norm over groups of features", {{4, 32, 64}, {64}}, 2, groups(4)},
      {kNormMoments, "sums over features", {{4, 32, 64}}},
      {kNormalize, "norm by them", {{4, 32, 64}, {4, 32, 3}, {64}, {64}}},
      {kFlashAttention, "attention in one kernel", {{4, 32, 256}}, 2, heads()},
      {kBlockAttention, "attention to all keys", {{4, 32, 128}, {4, 64, 128}}, 2, heads()},
      {kBlockAttention,
       "attention to a rank's keys, merged with that to others'",
       {{4, 32, 128}, {4, 32, 128}, {4, 32, 128}, {4, 8, 32}},
       2,
       heads_in_ring()},
      {kScores, "queries times keys", {{4, 32, 128}, {4, 32, 64}}, 1, heads()},
      {kAddAttentionBias, "scores and a bias", {{4, 8, 32, 32}, {8, 32, 32}}, 1, heads()},
      {kSoftmax, "of scores", {{4, 8, 32, 32}}, 1, heads()},
      {kContext, "probabilities times values", {{4, 8, 32, 32}, {4, 32, 64}}, 1, heads()},
      {kRelativeBias, "T5's bias by distance", {{32, 8}}},
      {kHeadNorm, "norm of each query and key", {{4, 32, 256}, {16}, {16}}, 2, heads()},
      {kRope, "rotary positions", {{4, 32, 256}}, 1, heads()},
      {kHeadNorm, "norm of each head of q and k", {{4, 32, 256}, {16}, {16}}, 2, heads()},
      {kDropout, "element by element", {{4, 32, 64}}},
      {kAdd, "element by element", {{4, 32, 64}, {4, 32, 64}}},
      {kMul, "element by element", {{4, 32, 64}, {4, 32, 64}}},
      {kSub, "element by element", {{4, 32, 64}, {4, 32, 64}}},
      {kDiv, "element by element", {{4, 32, 64}, {4, 32, 64}}},
      {kWhere, "one or the other", {{4, 32, 64}, {4, 32, 64}, {4, 32, 64}}},
      {kAffine, "scaled, and a number added", {{4, 32, 64}}},
      {kExp, "element by element; log, power, erf, sin, cos and clamp alike", {{4, 32, 64}}},
      {kGelu, "element by element; relu, tanh, sigmoid, silu and softplus alike", {{4, 32, 64}}},
      {kSwiglu, "a half gated by the other; geglu alike", {{4, 32, 64}}},
      {kSelectFirst, "the first token", {{4, 32, 64}}},
      {kConv2d, "convolution of images", {{4, 16, 10, 10}, {32, 16, 3, 3}}},
      {kConv2d, "the same in groups of channels", {{4, 16, 10, 10}, {32, 4, 3, 3}}, 1, groups(4)},
      {kConvTranspose2d, "a convolution back", {{4, 16, 10, 10}, {16, 32, 3, 3}}},
      {kConvTranspose2d, "the same in groups", {{4, 16, 10, 10}, {16, 8, 3, 3}}, 1, groups(4)},
      {kInterpolate2d, "images of another size", {{4, 16, 10, 10}}},
      {kCausalConv1d, "each channel of the latest tokens", {{4, 32, 64}, {64, 1, 1, 4}, {64}}},
      {kChunkScan,
       "a state space model's scan",
       {{4, 32, 128}, {4, 32, 8}, {4, 32, 8}, {4, 32, 8}, {8}, {8}, {8}},
       1,
       state_space()},
      {kMaxPool2d, "the largest of windows", {{4, 16, 10, 10}}, 2},
      {kAvgPool2d, "means of windows", {{4, 16, 10, 10}}},
      {kBatchNorm, "norm over so many samples", {{4, 16, 10, 10}, {16}, {16}}, 2, samples(2)},
      {kGroupNorm, "norm over groups", {{4, 16, 10, 10}, {16}, {16}}, 2, groups(4)},
      {kBatchMoments, "sums over all samples", {{4, 16, 10, 10}}},
      {kBatchNormalize, "norm by them", {{4, 16, 10, 10}, {1, 3, 16}, {16}, {16}}},
      {kView, "other extents", {{4, 32, 64}}, 1, {}, to_extents({4, 2048})},
      {kPieces, "a dim in two", {{4, 32, 64}}, 1, {}, at_dim(1, {{"c", 4}})},
      {kPermute, "dims in another order", {{4, 32, 64}}, 1, {}, with_dims({0, 2, 1})},
      {kRoll, "a dim's indices so many on", {{4, 32, 64}}, 1, {}, at_dim(1)},
      {kFlip, "a dim's indices turned round", {{4, 32, 64}}, 1, {}, at_dim(1)},
      {kSplit, "ranges of a dim", {{4, 32, 64}}, 2, {}, in_sizes({16, 16}, 1)},
      {kNarrow, "one range of a dim", {{4, 32, 64}}, 1, {}, at_dim(1, {{"left", 8}})},
      {kZeroPad, "zeros around a dim", {{4, 32, 64}}, 1, {}, at_dim(1, {{"left", 40}})},
      {kCumsum, "sums up to each index of a dim", {{4, 32, 64}}, 1, {}, at_dim(1)},
      {kConcat, "one behind the other", {{4, 32, 64}, {4, 16, 64}}, 1, {}, at_dim(1)},
      {kSum, "over dims", {{4, 32, 64}}, 1, {}, with_dims({1})},
      {kGather, "rows at an index of each sample", {{4, 32, 64}, {4, 8}}},
      {kScatter, "rows written at such an index", {{4, 32, 64}, {4, 8}, {4, 8, 64}}},
      {kCombine, "integers compared, divided, or one of two", {{4, 32}, {4, 32}}},
      {kArgmax, "where the largest is", {{4, 8, 32}}},
      {kTopk, "where so many of the largest are", {{4, 8, 32}}},
      {kCrossEntropy, "loss of classes", {{4, 32, 100}, {4, 32}}, 2},
      {kMse, "loss of numbers; bce alike", {{4, 32}, {4, 32}}}};
  return kSamples;
}

std::string dims_text(const IndexSpace& space, const IndexedTensor& tensor) {
  std::string text = "[";
  for (const IndexedDim& dim : tensor.dims) {
    if (text.size() > 1) text += ", ";
    for (std::size_t part = 0; part < dim.size(); ++part) {
      if (part > 0) text += " \\| ";
      std::string group;
      for (const int index : dim[part].indices)
        group += (group.empty() ? "" : " ") + space.indices[index].name;
      text += group.empty() ? "1" : group;
    }
  }
  return text + "]";
}

std::string names_of(const IndexSpace& space, bool free) {
  std::string names;
  for (const OpIndex& index : space.indices) {
    if ((index.use == IndexUse::kFree) == free) names += (names.empty() ? "" : ", ") + index.name;
  }
  return names.empty() ? "none" : names;
}

std::string row(const Sample& sample) {
  const std::string parts_of_rows =
      sample.kind == OpKind::kLinear || sample.kind == OpKind::kCausalConv1d ? "o" : "";
  const auto found = op_space(OpForm{sample.kind, sample.attrs, sample.operands.size(),
                                     sample.results, parts_of_rows, sample.parameters},
                              sample.operands);
  INFO(to_string(sample.kind));
  if (const auto* reason = std::get_if<Infeasible>(&found)) FAIL(reason->reason);
  const auto& space = std::get<IndexSpace>(found);
  std::string from, to;
  for (const IndexedTensor& one : space.operands)
    from += (from.empty() ? "" : ", ") + dims_text(space, one);
  for (const IndexedTensor& one : space.results)
    to += (to.empty() ? "" : ", ") + dims_text(space, one);
  return "| `" + std::string(to_string(sample.kind)) + "` | " + sample.what + " | " + from +
         " -> " + to + " | " + names_of(space, true) + " | " + names_of(space, false) + " |\n";
}

std::string ops_page() {
  std::string page =
      "# How ops may be split\n\n"
      "What a [sharding of your own](fastest-plan.md#your-own-sharding) may say of an op, and what "
      "planners choose "
      "from. A dim is called by\nthe index that runs over it: an axis of the mesh that splits an "
      "index splits "
      "every dim with that name, and an operand\nthat lacks it is held whole. Where a result lacks "
      "an index that "
      "is split, ranks hold summands of it, which are added up\nbefore anything reads them. What "
      "stays whole is "
      "gathered first.\n\n"
      "Several names in one dim, `g r e`, are a group, the first slowest: heads of keys and "
      "values, query heads of "
      "one, elements.\nThe classes of a loss (`v`) are split by an expansion of its own. "
      "Extents that a mesh does not divide\nare cut in pieces of unlike size under a sharding of "
      "your own over Megatron's, where no heads, groups or samples\nof a dropout are counted, and "
      "refused elsewhere. `solve` with op-strategies lists every "
      "way for an op and "
      "a mesh.\n\n"
      "| kind | what | operands -> results | may be split | stays whole |\n| --- | --- | --- | --- "
      "| --- |\n";
  for (const Sample& sample : all_samples()) page += row(sample);
  return page;
}

}  // namespace

TEST_CASE("docs/ops.md is what the index spaces say") {
  const std::string path = source_root() + "/docs/ops.md";
  const std::string page = ops_page();
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path) << page;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  CHECK(text.str() == page);
}

TEST_CASE("the page of ops has every kind that models are made of") {
  using enum OpKind;
  // Made by passes and by the step; kinds named beside another in its row; attention before kernels
  // are chosen; and the parts of a split loss.
  std::set<OpKind> elsewhere = {kLoad,
                                kAttention,
                                kTranspose,
                                kJoin,
                                kBiasDropoutAdd,
                                kBiasGelu,
                                kRelu,
                                kTanh,
                                kSigmoid,
                                kSilu,
                                kSoftplus,
                                kPower,
                                kLog,
                                kErf,
                                kSin,
                                kCos,
                                kClamp,
                                kBce,
                                kGeglu,
                                kZero,
                                kCast,
                                kCopy,
                                kDeviceCopy,
                                kCopyIn,
                                kCopyOut,
                                kSumSquares,
                                kAmax,
                                kQuantize,
                                kUpdateScales,
                                kAdamW,
                                kSgd,
                                kAverage,
                                kCrossEntropyMax,
                                kCrossEntropySum,
                                kWithinClip,
                                kBeyondClip,
                                kCorrectAdamW,
                                kCorrectSgd};
  for (const Sample& sample : all_samples()) elsewhere.insert(sample.kind);
  for (int kind = 0; kind < kNumOpKinds; ++kind) {
    CAPTURE(to_string(OpKind(kind)));
    if (has_op_space(OpKind(kind))) CHECK(elsewhere.contains(OpKind(kind)));
  }
}

}  // namespace trainyard::ops_page_test
