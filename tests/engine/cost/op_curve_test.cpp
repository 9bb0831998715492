// Measured curves: exact where they were measured, sensible between, and honest beyond.
#include "engine/cost/op_curve.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>

namespace trainyard::op_curve_test {

namespace {

KernelWork product(std::int64_t m, std::int64_t n, std::int64_t k) {
  KernelWork work;
  work.cls = KernelClass::kMatmul;
  work.m = m, work.n = n, work.k = k;
  work.flop = 2.0 * static_cast<double>(m * n * k);
  work.bytes = 4 * (m * k + k * n + m * n);
  return work;
}

CurvePoint point(const KernelWork& work, Seconds time, double interval = 0.005) {
  return {work.form, {work.m, work.n, work.k, work.batch}, work.flop, work.bytes, time, interval};
}

/// 5 us, 100 GFLOP/s, 10 GB/s.
Seconds straight(const KernelWork& work) {
  return 5e-6 + work.flop / 100e9 + static_cast<double>(work.bytes) / 10e9;
}

/// The same device, where wide GEMMs run at twice the rate: the rate rises between widths of 128
/// and 512.
Seconds bent(const KernelWork& work) {
  const double wide = std::clamp(std::log2(static_cast<double>(work.n) / 128) / 2, 0.0, 1.0);
  return 5e-6 + work.flop / (100e9 * (1 + wide)) + static_cast<double>(work.bytes) / 10e9;
}

template <typename Time>
std::vector<CurvePoint> grid(const Time& time) {
  std::vector<CurvePoint> points;
  for (const std::int64_t m : {64, 256, 1024}) {
    for (const std::int64_t n : {64, 128, 256, 512, 1024, 2048}) {
      for (const std::int64_t k : {128, 1024})
        points.push_back(point(product(m, n, k), time(product(m, n, k))));
    }
  }
  return points;
}

}  // namespace

TEST_CASE("a device that follows the base form is recognised, within and beyond the points") {
  const OpCurve curve(grid(straight));
  CHECK(curve.base()[0] == Approx(5e-6).epsilon(1e-3));
  CHECK(1 / curve.base()[1] == Approx(100e9).epsilon(1e-3));
  CHECK(1 / curve.base()[2] == Approx(10e9).epsilon(1e-3));
  for (const KernelWork& work : {product(100, 300, 500), product(8192, 4096, 4096)}) {
    CHECK(curve.at(work).time == Approx(straight(work)).epsilon(1e-3));
  }
}

TEST_CASE("a bent curve goes through its points and follows the bend between them") {
  const OpCurve curve(grid(bent));
  for (const CurvePoint& p : curve.points()) {
    const KernelWork work = product(p.shape[0], p.shape[1], p.shape[2]);
    CHECK(curve.at(work).time == Approx(p.time).epsilon(0.01));
  }
  // Halfway between points, where the base alone is up to 25 % off.
  for (const KernelWork& work :
       {product(128, 362, 362), product(512, 181, 256), product(512, 1448, 512)}) {
    CHECK(curve.at(work).time == Approx(bent(work)).epsilon(0.05));
  }
}

TEST_CASE("an estimate beyond any axis is marked, one between the points is not") {
  const OpCurve curve(grid(straight));
  CHECK_FALSE(curve.at(product(64, 64, 128)).extrapolated);
  CHECK_FALSE(curve.at(product(1000, 2000, 1000)).extrapolated);
  CHECK(curve.at(product(2048, 512, 512)).extrapolated);
  CHECK(curve.at(product(512, 32, 512)).extrapolated);
  CHECK(curve.at(product(512, 512, 2048)).extrapolated);
}

TEST_CASE("the interval is small at the points and grows away from them") {
  const OpCurve curve(grid(bent));
  const double at_point = curve.at(product(256, 256, 1024)).interval;
  const double between = curve.at(product(256, 256, 362)).interval;
  const double beyond = curve.at(product(16384, 256, 16384)).interval;
  CHECK(at_point < between);
  CHECK(between < beyond);
}

TEST_CASE("points that are hardly known do not bend the curve") {
  std::vector<CurvePoint> points = grid(straight);
  // One of 36 was disturbed: twice as long, and its interval says so.
  points[10].time *= 2;
  points[10].interval = 1;
  const OpCurve curve(points);
  const KernelWork work = product(points[10].shape[0], points[10].shape[1], points[10].shape[2]);
  CHECK(curve.at(work).time == Approx(straight(work)).epsilon(0.1));
}

TEST_CASE("left out, a point is predicted by the others") {
  // On the base form each follows from the others; with a bend that few points show, none does.
  const OpCurve straight_curve(grid(straight));
  for (const double error : straight_curve.left_out()) CHECK(std::abs(error) < 0.01);
  std::vector<CurvePoint> points = grid(straight);
  points[14].time *= 1.5;
  const OpCurve curve(points);
  CHECK(curve.left_out()[14] == Approx(-std::log(1.5)).margin(0.15));
}

TEST_CASE("one point alone grows with the bytes") {
  const KernelWork work = product(64, 64, 64);
  const OpCurve curve({point(work, 20e-6)});
  CHECK(curve.at(work).time == Approx(20e-6));
  const KernelWork large = product(640, 640, 64);
  // Bytes: 4 (640 64 + 64 640 + 640 640) against 4 (3 64 64), 40 times as many.
  CHECK(curve.at(large).time == Approx(800e-6).epsilon(0.05));
  CHECK(curve.at(large).extrapolated);
}

TEST_CASE("tiny kernels alone do not say that large ones crawl") {
  // 2 us for 4 bytes is a startup, not a rate of 2 MB/s: at most 1 ns per byte is taken for
  // certain.
  KernelWork tiny = product(1, 1, 1);
  tiny.bytes = 4, tiny.flop = 0;
  KernelWork large = tiny;
  large.m = 1'000'000, large.bytes = 4'000'000;
  const OpCurve curve({point(tiny, 2e-6)});
  CHECK(curve.at(tiny).time == Approx(2e-6).epsilon(0.01));
  CHECK(curve.at(large).time <= 2e-6 + 4e-3);
}

namespace {

KernelWork attention(std::int64_t keys, bool mask) {
  KernelWork work = product(keys, keys, 64);
  work.form.kind = OpKind::kFlashAttention;
  work.form.num_reads = mask ? 2 : 1, work.form.num_writes = 1;
  work.form.types[0] = DType::kFp32;
  work.form.types[1] = mask ? DType::kUint8 : DType::kFp32;
  work.form.types[2] = DType::kFp32;
  if (mask) work.form.set(FormFlag::kMask);
  return work;
}

/// Bends at 512 keys; with a mask a fifth longer.
Seconds attention_time(const KernelWork& work) {
  const double slow = work.m > 512 ? 1.6 : 1;
  return slow * (work.form.num_reads == 2 ? 1.2 : 1) * straight(work);
}

std::vector<CurvePoint> attention_points(const std::vector<std::int64_t>& keys, bool mask) {
  std::vector<CurvePoint> points;
  for (const std::int64_t n : keys)
    points.push_back(point(attention(n, mask), attention_time(attention(n, mask))));
  return points;
}

}  // namespace

TEST_CASE("forms of a family are heard by each other") {
  REQUIRE(family_of(attention(64, true).form) == family_of(attention(64, false).form));
  std::vector<CurvePoint> points =
      attention_points({32, 64, 128, 256, 512, 1024, 2048, 4096}, false);
  const std::vector<CurvePoint> masked = attention_points({64, 128}, true);
  points.insert(points.end(), masked.begin(), masked.end());
  const OpCurve curve(points);
  // Timed with a mask at small sizes only: the bend beyond them is known from the form without one.
  const KernelWork large = attention(2048, true);
  CHECK(curve.at(large).time == Approx(attention_time(large)).epsilon(0.2));
  CHECK_FALSE(curve.at(large).extrapolated);
}

TEST_CASE("a form that was not timed is answered by its siblings, and marked") {
  const OpCurve curve(attention_points({64, 256, 1024}, false));
  CHECK(curve.at(attention(256, true)).extrapolated);
  CHECK_FALSE(curve.at(attention(256, false)).extrapolated);
  CHECK(curve.at(attention(256, true)).interval > curve.at(attention(256, false)).interval);
}

TEST_CASE(
    "of honest intervals a tenth of the points is surprised, of those that claim too much more") {
  // Timings of the base form with 10 % of noise that the points do not mention: the curve finds it.
  std::vector<CurvePoint> points = grid(straight);
  std::uint64_t state = 1;
  for (CurvePoint& p : points) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    p.time *= 1 + 0.1 * (static_cast<double>(state >> 33) / 0x1p30 - 1);  // -10 % to +10 %
    p.interval = 0.001;
  }
  const OpCurve curve(points);
  const std::vector<double> surprises = curve.surprises();
  REQUIRE(surprises.size() == points.size());
  const auto surprised =
      std::count_if(surprises.begin(), surprises.end(), [](double s) { return s > 1; });
  CHECK(surprised <= static_cast<std::ptrdiff_t>(points.size() / 3));
  CHECK(curve.at(product(256, 256, 1024)).interval > 0.05);
}

TEST_CASE("of more points than may be kept those are, that spread over all of them") {
  std::vector<CurvePoint> points;
  for (std::int64_t m = 1; m <= 1000; ++m) points.push_back(point(product(m, 8, 8), 1e-6));
  const std::vector<CurvePoint> kept = spread_over(points, 11);
  REQUIRE(kept.size() == 11);
  for (std::size_t i = 0; i < kept.size(); ++i)
    CHECK(kept[i].shape[0] == static_cast<std::int64_t>(i * 999 / 10) + 1);  // the ends too
  CHECK(spread_over(points, 5000).size() == 1000);
}

TEST_CASE("a curve of many points is as good as one of few") {
  std::vector<CurvePoint> points;
  for (std::int64_t m = 64; m <= 2048; m += 32) {
    for (const std::int64_t n : {64, 192, 512, 1280, 2048})
      points.push_back(point(product(m, n, 256), bent(product(m, n, 256))));
  }
  REQUIRE(points.size() > 300);
  const OpCurve many(points), few(spread_over(points, 60));
  for (const KernelWork& work :
       {product(100, 300, 256), product(1000, 900, 256), product(1500, 128, 256)}) {
    const auto error = [&](const OpCurve& curve) {
      return std::abs(curve.at(work).time / bent(work) - 1);
    };
    CHECK(error(many) <= error(few) + 0.01);
    CHECK(error(many) < 0.15);
  }
}

}  // namespace trainyard::op_curve_test
