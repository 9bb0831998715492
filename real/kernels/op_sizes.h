// The operands of one op as its kernel's workspace depends on them.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/program/program.h"

namespace trainyard {

struct OperandSize {
  std::vector<std::int64_t> shape;
  DType type = DType::kFp32;
  std::int64_t row_shards = 1,
               column_shards = 1;  // ranks among which dim 0 and the last dim are split
  bool given = false;  // its storage is there before the kernel runs: a view, or a slot of a pool

  std::int64_t elements() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }
  std::int64_t bytes() const { return elements() * size_in_bytes(type); }
  std::int64_t last() const { return shape.back(); }
  std::int64_t rows() const { return elements() / last(); }
};

struct OpSizes {
  const ProgramOp& op;
  const OpAttrs& attrs;
  std::int64_t threads;
  std::vector<OperandSize> reads, writes, accumulates;

  /// Results that are made apart and copied to where they belong.
  std::int64_t copied_results() const {
    std::int64_t bytes = 0;
    for (const OperandSize& write : writes) bytes += write.given ? write.bytes() : 0;
    return bytes;
  }
};

inline bool is_16_bit(DType type) { return size_in_bytes(type) == 2; }
inline std::int64_t accumulation_bytes(DType type) { return type == DType::kFp64 ? 8 : 4; }

/// oneDNN's scratch of one GEMM [m, k] x [k, n] of a 16-bit type. Each thread has a block of at
/// most 256 rows: its sums in fp32, 64 columns wide, the block of the right factor that goes with
/// it and, where the left factor is transposed or k is cut, a copy of its rows. Where k is cut, the
/// sums are up to 1024 columns wide. Fitted to 360 shapes on AVX-512 with AMX, and for k above 1024
/// in few rows to nine on another such CPU; others block otherwise.
std::int64_t product_scratch(DType type, std::int64_t m, std::int64_t n, std::int64_t k,
                             bool transposed, std::int64_t threads);

}  // namespace trainyard
