// How Hugging Face's models call their weights: a table per class.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "real/checkpoint/hugging_face_types.h"

namespace trainyard {

/// `ours` and `theirs` as renamed() takes them. The first row that fits counts, and the rows with
/// `untied` that fit, if the head has a table of its own: then transformers keeps its bias twice,
/// and computes with the decoder's.
struct NameRow {
  std::string_view ours;
  std::string_view theirs;
  bool transposed = false;  // of weights; their biases are vectors
  bool untied = false;
  bool grouped = false;      // theirs has what belongs to each key-value head together
  bool boxed = false;        // theirs has a dim of 1 in front
  std::int8_t lacks = 0;     // the first (1) or second (2) dim of ours is 1, and theirs lacks it
  double offset = 0;         // theirs is ours and this number
  std::int8_t of_heads = 0;  // theirs has of each head of ours q (1), k (2) or v (3) alone
};

/// What the first tables say holds.
std::vector<std::span<const NameRow>> name_tables(HuggingFaceType type);

}  // namespace trainyard
