#include "engine/cost/piece_times.h"

#include <algorithm>
#include <string_view>

namespace trainyard {

namespace {

/// One of `rows` x `outputs` equal pieces of a product.
KernelWork piece_of(const KernelWork& work, std::int64_t rows, std::int64_t outputs) {
  const Bytes element = size_in_bytes(work.dtype);
  const Bytes read = work.m * work.k * element, weight = work.k * work.n * element;
  KernelWork piece = work;
  piece.m /= rows;
  piece.n /= outputs;
  piece.flop /= static_cast<double>(rows * outputs);
  piece.bytes = read / rows + weight / outputs + (work.bytes - read - weight) / (rows * outputs);
  return piece;
}

/// Seconds of one of `sent` pieces.
Seconds piece_transfer(const PieceTransfer& collective, std::int64_t sent) {
  return collective.start + collective.transfer / static_cast<double>(sent);
}

}  // namespace

bool in_pieces(const SoftwareProfile& software, SourceLog& log) {
  const auto use = [&](std::string_view flag) {
    const auto found = software.provenance.find(flag);
    if (found != software.provenance.end())
      log.use(found->second, software.name, found->first, "tensor-parallel collectives");
    return true;
  };
  return software.user_buffers ? use("user_buffers")
                               : software.runs_async_tensor && use("async_tensor");
}

PieceTimes piece_times(const KernelWork& work, std::int64_t ranks, const HardwareProfile& hardware,
                       const SoftwareProfile& software, SourceLog& log) {
  const auto time = [&](std::int64_t rows, std::int64_t outputs) {
    return kernel_time(piece_of(work, rows, outputs), hardware, software, 1, log);
  };
  return {work.part == OpPart::kForward, ranks, time(1, 1), time(ranks, 1), time(1, kOutputPieces)};
}

Seconds rows_gathered(const PieceTimes& product, const PieceTransfer& collective) {
  const auto n = static_cast<double>(product.ranks);
  const Seconds p = product.rows, c = piece_transfer(collective, product.ranks - 1);
  return std::max(n * p, (n - 1) * c + p) - product.whole;
}

Seconds rows_scattered(const PieceTimes& product, const PieceTransfer& collective) {
  const auto n = static_cast<double>(product.ranks);
  const Seconds p = product.rows, c = piece_transfer(collective, product.ranks - 1);
  return std::max({n * p, p + (n - 1) * c, (n - 1) * p + c}) - product.whole;
}

Seconds outputs_scattered(const PieceTimes& product, const PieceTransfer& collective) {
  constexpr auto kPieces = static_cast<double>(kOutputPieces);
  const Seconds p = product.outputs, c = piece_transfer(collective, kOutputPieces);
  return std::max(kPieces * p + c, p + kPieces * c) - product.whole;
}

}  // namespace trainyard
