// FP8 training: how the operands of linear layers are scaled into 8 bits.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard {

/// What shares a scale, and where the scale comes from.
enum class Fp8Recipe : std::uint8_t {
  kNone,        // no FP8
  kTensorwise,  // a tensor, by its own largest element
  kDelayed,     // a tensor, by the largest element of the steps before
  kRowwise,     // a row along the dim that the product sums over
  kBlockwise,   // 128 elements along that dim, of weights 128 x 128 (arXiv:2412.19437, 3.3.2)
  kMx           // 32 elements along that dim, by a power of 2 (OCP Microscaling 1.0)
};

/// Which kernels find the largest element of what they write, for the cast behind them.
enum class AmaxFusion : std::uint8_t {
  kNone,
  kNormsAndActivations,  // norms forward, activations both ways
  kMemoryBound           // all whose time memory bounds
};

struct Fp8Config {
  Fp8Recipe recipe = Fp8Recipe::kNone;
  bool gathers = false;  // all-gathers in front of FP8 products alone carry 8 bits
  AmaxFusion fuses_amax = AmaxFusion::kNone;  // the framework's
  // What devices can do: their products sum over the last dims alone, so that the backward needs
  // transposed copies; why they have no FP8 products, empty where they have.
  bool transposes = false;
  std::string obstacle;

  bool on() const { return recipe != Fp8Recipe::kNone; }
  /// One scale of a whole tensor.
  bool whole() const { return recipe == Fp8Recipe::kTensorwise || recipe == Fp8Recipe::kDelayed; }
  friend bool operator==(const Fp8Config&, const Fp8Config&) = default;
};

}  // namespace trainyard
