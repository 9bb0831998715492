#include "tests/real/run/same_training.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <span>

#include "real/checkpoint/checkpoint.h"

namespace trainyard {

namespace {

std::vector<double> stored(const Checkpoint& checkpoint, const std::string& name) {
  const CheckpointTensor& tensor = checkpoint.tensors().at(name);
  const Piece whole = whole_tensor(name, DType::kFp64, tensor.shape);
  std::vector<double> values(static_cast<std::size_t>(num_elements(whole)));
  checkpoint.read(whole, std::as_writable_bytes(std::span(values)));
  return values;
}

double norm_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

}  // namespace

void check_close(const std::vector<std::array<double, 2>>& a,
                 const std::vector<std::array<double, 2>>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    // losses.csv has nine digits.
    CHECK(b[i][0] == Approx(a[i][0]).epsilon(2e-9));
    CHECK(b[i][1] == Approx(a[i][1]).epsilon(2e-9));
  }
}

void check_same_checkpoint(const std::string& a, const std::string& b) {
  const Checkpoint one = Checkpoint::open(*latest_complete(a + "/checkpoints"), Verify::kStructure);
  const Checkpoint many =
      Checkpoint::open(*latest_complete(b + "/checkpoints"), Verify::kStructure);
  REQUIRE(one.info().step == many.info().step);
  REQUIRE(one.tensors().size() == many.tensors().size());
  for (const auto& [name, tensor] : one.tensors()) {
    CAPTURE(name);
    const std::vector<double> values = stored(one, name);
    std::vector<double> difference = stored(many, name);
    for (std::size_t i = 0; i < values.size(); ++i) difference[i] -= values[i];
    // Moments of key biases are rounding alone: their true gradients are zero.
    CHECK(norm_of(difference) <= 1e-12 * norm_of(values) + 1e-15);
  }
}

}  // namespace trainyard
