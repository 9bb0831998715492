// Chunks of a microbatch, one of which computes while tensor parallelism's collectives of the
// others run: what ParallelConfig::tensor_overlap says in a word.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard {

inline constexpr std::int64_t kMaxTensorChunks = 64;

struct TensorOverlap {
  enum class Scope : std::uint8_t {
    kNone,
    kLinear,       // chunks join behind every product and its collective
    kBlock,        // behind each layer
    kAcrossBlocks  // behind all layers of a stage
  } scope = Scope::kNone;
  int chunks = 2;
  bool on() const { return scope != Scope::kNone; }
  friend bool operator==(const TensorOverlap&, const TensorOverlap&) = default;
};

/// "block"; of more chunks than two "block 4".
std::string to_string(const TensorOverlap& overlap);
/// What to_string() writes.
TensorOverlap parse_tensor_overlap(const std::string& text);

}  // namespace trainyard
