// Kernels of general ops over random extents, dims and patterns of broadcasting: LibTorch's
// autograd has the same results and gradients.
#include <catch2/catch.hpp>

#include "tests/real/kernel_trial.h"

namespace trainyard::general_kernels_test {

TEST_CASE("kernels of general ops give what autograd gives") {
  using enum OpKind;
  const auto kind =
      GENERATE(kView, kPieces, kPermute, kRoll, kSplit, kNarrow, kConcat, kAdd, kMul, kSub, kDiv,
               kWhere, kAffine, kPower, kExp, kLog, kErf, kSigmoid, kSilu, kSoftplus, kClamp,
               kCumsum, kZeroPad, kSum, kGather, kBmm, kFlip, kSin, kCos, kScatter,
               kConvTranspose2d, kInterpolate2d, kGroupNorm, kCausalConv1d, kChunkScan, kMse, kBce);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(to_string(kind), seed);
    CHECK(distance_from_torch(kind, seed) < 1e-12);
  }
}

}  // namespace trainyard::general_kernels_test
