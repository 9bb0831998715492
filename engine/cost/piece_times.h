// Collectives of the tensor group in pieces beside the product that reads what they gather or makes
// what they reduce: what they add to the product's own time, by what the libraries' sources do.
//
// Transformer Engine's user buffers (transformer_engine/common/comm_gemm_overlap): rows are
// gathered round a ring by copy engines while the product of those at hand runs; of a forward
// product a fraction of the outputs is reduced while the next one is computed; in the backward the
// inputs of the weight's gradient and the gradient of the input move beside the product that has
// nothing to do with them, as the Program has it. PyTorch's symmetric memory
// (torch/distributed/_symmetric_memory): rows, both ways; a kernel adds up what came from all
// ranks.
#pragma once

#include <cstdint>

#include "engine/base/units.h"
#include "engine/cost/cost_model.h"
#include "engine/cost/hardware_profile.h"
#include "engine/cost/software_profile.h"
#include "engine/graph/kernel_work.h"

namespace trainyard {

/// Whether the framework has collectives in pieces beside products.
bool in_pieces(const SoftwareProfile& software, SourceLog& log);

/// Parts of the outputs that user buffers reduce one by one (num_splits).
inline constexpr std::int64_t kOutputPieces = 4;

/// A linear layer's forward or input gradient, whole and in pieces.
struct PieceTimes {
  bool forward = true;
  std::int64_t ranks = 1;  // of the group
  Seconds whole = 0;
  Seconds rows = 0;     // of one rank's rows: all of the weight is read again
  Seconds outputs = 0;  // of a part of the outputs: all rows are read again
  friend bool operator==(const PieceTimes&, const PieceTimes&) = default;
};

/// Seconds by the product's own curve, on a device of the profile's speed.
PieceTimes piece_times(const KernelWork& work, std::int64_t ranks, const HardwareProfile& hardware,
                       const SoftwareProfile& software, SourceLog& log);

/// The collective of one message: a piece takes `start` and its share of `transfer`.
struct PieceTransfer {
  Seconds start = 0;     // seconds before a piece's first byte
  Seconds transfer = 0;  // seconds of all pieces' bytes that a rank receives
};

/// Seconds by which the product ends later than without anything to wait for. n ranks, a product of
/// P, p of a rank's rows; copies of c = start + transfer / (n - 1) go one behind the other and wait
/// for no product; the rank's own rows are there:
///
///   max(n p, (n - 1) c + p) - P
Seconds rows_gathered(const PieceTimes& product, const PieceTransfer& collective);

/// The same of a product of which every rank is sent its rows as they are made, the own ones last:
///
///   max(n p, p + (n - 1) c, (n - 1) p + c) - P
Seconds rows_scattered(const PieceTimes& product, const PieceTransfer& collective);

/// The same of a product of which s = kOutputPieces parts of the outputs are reduced as they are
/// made, p each; c = start + transfer / s:
///
///   max(s p + c, p + s c) - P
Seconds outputs_scattered(const PieceTimes& product, const PieceTransfer& collective);

}  // namespace trainyard
