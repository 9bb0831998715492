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
  bool flat = false;         // theirs lacks the second dim of ours, which is 1
  std::int8_t of_heads = 0;  // theirs has of each head of ours q (1), k (2) or v (3) alone
};

/// What the first tables say holds.
std::vector<std::span<const NameRow>> name_tables(HuggingFaceType type);

}  // namespace trainyard
