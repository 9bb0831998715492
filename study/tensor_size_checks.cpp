// Whether the largest tensors of a model are of a size that this version holds, before anything
// multiplies what the study says of them.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/plan/plan_limits.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

/// The sizes of a tensor's dimensions, each with the key that says it; key "": a constant.
struct TensorSize {
  struct Factor {
    std::string key;
    std::int64_t size;
  };
  std::string name;
  std::vector<Factor> factors;
};

/// The largest tensors of the unsharded graph of one microbatch.
std::vector<TensorSize> largest_tensors(const Study& study) {
  using Factor = TensorSize::Factor;
  const ModelConfig& m = study.model;
  const bool gated = m.activation == Activation::kSwiglu || m.activation == Activation::kGeglu;
  const Factor batch{"training.microbatch",
                     study.training.microbatch * study.parallel.batch_ranks()};
  const Factor length = m.decoder_seq_len > m.seq_len
                            ? Factor{"model.decoder_seq_len", m.decoder_seq_len}
                            : Factor{"model.seq_len", m.seq_len};
  const Factor hidden{"model.hidden", m.hidden};
  const Factor heads{"model.heads", m.heads};
  const Factor head_dim{"model.head_dim", m.head_dim};
  const Factor vocab{"model.pad_vocab_to", m.pad_vocab_to};
  const Factor ffn{"model.ffn", m.ffn};
  const Factor projections{"", gated ? 2 : 1};  // into the MLP
  const Factor query_key_value{"", 3};          // an upper bound with fewer key and value heads
  std::vector<TensorSize> tensors = {
      {"the embedding table", {vocab, hidden}},
      {"the position table", {{"model.max_positions", m.max_positions}, hidden}},
      {"the weight of query, key and value", {query_key_value, heads, head_dim, hidden}},
      {"the MLP's weight", {projections, ffn, hidden}},
      {"a layer's input", {batch, length, hidden}},
      {"query, key and value", {query_key_value, batch, length, heads, head_dim}},
      {"the MLP's inner tensor", {projections, batch, length, ffn}},
      {"the logits", {batch, length, vocab}}};
  if (is_of_images(m.family) || m.family == Family::kClip) {
    const Factor size{"model.image_size", m.image_size};
    tensors.push_back({"the images", {batch, {"model.channels", m.channels}, size, size}});
    // No map of a network is larger than 64 channels of the whole image, times its width.
    const Factor width{"model.width_factor", std::max<std::int64_t>(1, m.width_factor)};
    if (has_named_depths(m.family))
      tensors.push_back({"a map of features", {batch, {"", 64}, width, size, size}});
    if (m.family == Family::kUnet)  // what comes up beside what has gone down
      tensors.push_back({"a map of features", {batch, {"", 2}, hidden, size, size}});
  }
  if (m.family == Family::kNcf) {
    // The tower begins 2^layers times as wide as it ends; find_problem() bounds that.
    const Factor wider{"", std::int64_t{1} << std::clamp<std::int64_t>(m.layers, 1, 30)};
    const Factor longest{m.users > m.items ? "model.users" : "model.items",
                         std::max(m.users, m.items)};
    tensors.push_back({"the tower's table", {longest, wider, hidden}});
    tensors.push_back({"the tower's input", {batch, wider, hidden}});
  }
  if (m.family == Family::kClip) {
    const Factor width{"model.image_hidden", m.image_hidden}, four{"", 4};
    const Factor along{"", m.image_size / std::max<std::int64_t>(1, m.patch_size) + 1};
    const Factor contrast{"model.contrast", m.contrast};
    tensors.push_back({"the text MLP's inner tensor", {four, batch, length, hidden}});
    tensors.push_back({"the text MLP's weight", {four, hidden, hidden}});
    tensors.push_back({"the image MLP's inner tensor", {four, batch, along, along, width}});
    tensors.push_back({"the image MLP's weight", {four, width, width}});
    tensors.push_back({"the logits", {{"", 2}, batch, contrast}});
    if (study.training.flash_attention == FlashAttention::kOff)
      tensors.push_back(
          {"the image's attention scores",
           {batch, {"model.image_heads", m.image_heads}, along, along, along, along}});
  }
  if (m.family == Family::kMamba2) {
    const Factor expand{"model.expand", m.expand}, states{"model.state_size", m.state_size};
    const Factor twice{"", 2};
    const Factor groups{"model.groups", m.groups};
    tensors.push_back({"the projection's weight", {twice, expand, hidden, hidden}});
    tensors.push_back({"what is projected", {batch, length, twice, expand, hidden}});
    tensors.push_back({"what reads the states", {batch, length, twice, groups, states}});
  }
  const Factor window{"model.window_size", m.window_size};
  if (m.family == Family::kSwin) {
    tensors.push_back({"the attention scores", {batch, heads, length, window, window}});
  } else if (study.training.flash_attention == FlashAttention::kOff) {
    tensors.push_back({"the attention scores", {batch, heads, length, length}});
  }
  return tensors;
}

[[noreturn]] void fail_too_large(const Study& study, const TensorSize& tensor) {
  std::string product;
  TensorSize::Factor largest{"", 0};  // of those the user said, to point at
  for (const TensorSize::Factor& factor : tensor.factors) {
    if (!product.empty()) product += " * ";
    const std::string name = factor.key.substr(factor.key.find('.') + 1);
    product +=
        name.empty() ? std::to_string(factor.size) : name + "(" + std::to_string(factor.size) + ")";
    const bool said = !factor.key.empty() && is_said(study, factor.key);
    if (said && factor.size > largest.size) largest = factor;
  }
  fail_at(study, largest.size > 0 ? largest.key : tensor.factors.back().key,
          tensor.name + " would have " + product + " elements, more than 2^40");
}

}  // namespace

void check_tensor_sizes(const Study& study) {
  for (const TensorSize& tensor : largest_tensors(study)) {
    std::vector<std::int64_t> sizes;
    for (const TensorSize::Factor& factor : tensor.factors) sizes.push_back(factor.size);
    if (product_exceeds(kMaxTensorElements, sizes)) fail_too_large(study, tensor);
  }
}

}  // namespace trainyard
