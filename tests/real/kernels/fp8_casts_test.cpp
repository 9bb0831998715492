// Casts into 8 bits, bit by bit those that PyTorch makes (tests/oracle/train_fp8.py wrote
// tests/golden/fp8_casts.json), and the scales of delayed scaling.
#include "tests/real/fp8_casts.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/golden.h"

namespace trainyard::fp8_casts_test {

namespace {

std::vector<std::uint8_t> bytes_of(const std::string& base64) {
  static const std::string kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::uint8_t> out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : base64) {
    const auto digit = kDigits.find(c);
    if (digit == std::string::npos) break;
    bits = bits << 6U | static_cast<std::uint32_t>(digit);
    if ((count += 6) < 8) continue;
    count -= 8;
    out.push_back(static_cast<std::uint8_t>(bits >> count & 0xffU));
  }
  return out;
}

}  // namespace

TEST_CASE("casts into 8 bits are PyTorch's, bit by bit") {
  const nlohmann::json golden = golden_json("fp8_casts.json");
  const std::vector<std::uint8_t> x = bytes_of(golden["x"]);
  REQUIRE(golden["casts"].size() == 9);
  for (const nlohmann::json& one : golden["casts"]) {
    const HeightWidth window{one["rows"].get<std::int32_t>(), one["columns"].get<std::int32_t>()};
    CAPTURE(one["type"], window.height, window.width);
    const Fp8Cast ours = cast_by_kernels(x, golden["shape"][0], golden["shape"][1],
                                         parse_dtype(one["type"].get<std::string>()).value(),
                                         window, one.value("e8m0", false));
    CHECK((ours.bytes == bytes_of(one["cast"])));
    CHECK(ours.scales == one["scale"].get<std::vector<float>>());
  }
}

TEST_CASE("delayed scales are the largest of 1024 steps over the type's largest number") {
  std::vector<float> amaxes(1025, 224);
  amaxes[0] = 0;
  amaxes[1] = 896;
  amaxes.push_back(224);
  const std::vector<float> scales = delayed_scales(amaxes, 448);
  CHECK(scales[0] == 0);  // nothing seen yet: not found
  CHECK(scales[1] == 2);
  CHECK(scales[1024] == 2);
  CHECK(scales[1025] == 0.5);  // step 1 has left the history
}

TEST_CASE("a cast by delayed scaling notes the largest element, and goes by 1 at first") {
  const DelayedCast first = cast_by_history(-3, 0, 2);
  CHECK(first.amax == 3);
  CHECK(first.value == -3);
  const DelayedCast later = cast_by_history(-3, 0.5, 7);
  CHECK(later.amax == 7);
  CHECK(later.value == -6);
  CHECK(cast_by_history(-1000, 1, 0).value == -448);  // beyond the type: its largest number
}

}  // namespace trainyard::fp8_casts_test
