// Writes token files in Megatron-LM's layout (megatron_index.h), one sequence per document.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "engine/data/token_type.h"

namespace trainyard {

/// PREFIX.bin grows with every document, PREFIX.idx is written by finish(); without it the files
/// are not a data set. An element takes 2 bytes where vocab <= 65,500 and 4 otherwise, as in
/// Megatron-LM. Errors of the disk throw BackendError.
class MegatronWriter {
 public:
  MegatronWriter(const std::string& prefix, std::int64_t vocab);

  /// Throws ConfigError for an id outside [0, vocab), and for more than 2^31 - 1 tokens.
  void add_document(std::span<const std::int64_t> tokens);

  void finish();

 private:
  std::string prefix_;
  std::int64_t vocab_;
  TokenType type_;  // kUint16 or kInt32
  std::ofstream bin_;
  std::vector<std::int32_t> lengths_;  // of the documents so far
};

}  // namespace trainyard
