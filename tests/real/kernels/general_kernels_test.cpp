// Kernels of general ops over random extents, dims and patterns of broadcasting: LibTorch's
// autograd has the same results and gradients.
#include <catch2/catch.hpp>

#include "tests/real/kernel_trial.h"

namespace trainyard {

TEST_CASE("kernels of general ops give what autograd gives") {
  const auto kind = GENERATE(OpKind::kView, OpKind::kPieces, OpKind::kPermute, OpKind::kRoll,
                             OpKind::kSplit, OpKind::kNarrow, OpKind::kConcat, OpKind::kAdd,
                             OpKind::kMul, OpKind::kSum, OpKind::kBmm, OpKind::kMse);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(to_string(kind), seed);
    CHECK(distance_from_torch(kind, seed) < 1e-12);
  }
}

}  // namespace trainyard
