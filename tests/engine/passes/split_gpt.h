// The GPT that methods of tensor parallelism are looked at on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/studies.h"

namespace trainyard {

// B = 2, S = 8, H = 32, N = 8 heads of 4, F = 128, V = 64, on 4 tensor ranks.
inline const std::string kSplitGpt =
    "model: {family: gpt, layers: 2, hidden: 32, heads: 8, vocab: 64, seq_len: 8}\n"
    "cluster: dgx-a100-80g\n"
    "parallel: {tensor: 4, data: 1}\n"
    "training: {global_batch: 2, microbatch: 2, flash_attention: auto, dropout: 0}\n";
inline constexpr std::int64_t kElements = 2 * 8 * 32;  // of what lies between layers

inline Program split_program(const std::vector<std::string>& sets) {
  return compiled_program(prepare_text(kSplitGpt, sets));
}

/// "key.path: problem".
inline std::string split_error(const std::vector<std::string>& sets) {
  try {
    prepare_text(kSplitGpt, sets);
  } catch (const ConfigError& error) {
    return error.key_path() + ": " + error.problem();
  }
  return "no error";
}

}  // namespace trainyard
