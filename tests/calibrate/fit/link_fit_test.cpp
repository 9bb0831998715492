// Messages whose times are a formula: which sizes are asked for, and what the fit finds.
#include "calibrate/fit/link_fit.h"

#include <catch2/catch.hpp>

#include "calibrate/measure/message_sizes.h"
#include "engine/cost/collective_time.h"

namespace trainyard::link_fit_test {

namespace {

constexpr Bytes kKiBytes = 1024, kMiBytes = 1024 * 1024;

/// 50 us, 1 GB/s up to 64 KiB, 4 GB/s beyond.
Seconds link_time(Bytes bytes) {
  const Bytes first = std::min(bytes, 64 * kKiBytes);
  return 50e-6 + static_cast<double>(first) / 1e9 + static_cast<double>(bytes - first) / 4e9;
}

MessagePoint timed(Bytes bytes) { return {bytes, link_time(bytes), 0.01}; }

}  // namespace

TEST_CASE("startup and the rates of both regimes are found") {
  std::vector<MessagePoint> points;
  for (Bytes bytes = kKiBytes; bytes <= 64 * kMiBytes; bytes *= 4) points.push_back(timed(bytes));
  const MessageFit fit = fit_messages(points);
  CHECK(fit.startup == Approx(50e-6).epsilon(1e-6));
  REQUIRE(fit.beyond == std::vector<Bytes>{64 * kKiBytes});
  CHECK(1 / fit.slopes[0] == Approx(1e9).epsilon(1e-6));
  CHECK(1 / fit.slopes[1] == Approx(4e9).epsilon(1e-6));
  CHECK(fit.mean_error < 1e-6);
}

TEST_CASE("a table of a thousand sizes is fitted as one of ten") {
  std::vector<MessagePoint> points;
  for (Bytes bytes = kKiBytes; bytes <= kMiBytes; bytes += kKiBytes) points.push_back(timed(bytes));
  const MessageFit fit = fit_messages(points);
  CHECK(fit.startup == Approx(50e-6).epsilon(0.02));
  CHECK(fit.mean_error < 0.01);
}

TEST_CASE("one line is not bent without need") {
  std::vector<MessagePoint> points;
  for (Bytes bytes = kKiBytes; bytes <= 64 * kMiBytes; bytes *= 4)
    points.push_back({bytes, 20e-6 + static_cast<double>(bytes) / 2e9, 0});
  CHECK(fit_messages(points).beyond.empty());
  CHECK(fit_messages({timed(kKiBytes)}).beyond.empty());
}

TEST_CASE("the cost model gives back what was fitted") {
  std::vector<MessagePoint> points;
  for (Bytes bytes = kKiBytes; bytes <= 64 * kMiBytes; bytes *= 4) points.push_back(timed(bytes));
  const MessageFit fit = fit_messages(points);
  for (const char* kind : {"all_reduce", "all_gather"}) {
    CAPTURE(kind);
    const BytesPerSecond bandwidth = fastest_rate(fit, kind, 2);
    Cluster cluster;
    cluster.devices_per_node = cluster.num_devices = 2;
    cluster.intra.kind = "loopback";
    cluster.intra.bandwidth = bandwidth;
    cluster.intra.by_kind[kind].by_ranks[2] = group_of(fit, kind, 2, bandwidth);
    SourceLog log;
    const OpKind op = parse_op_name(kind)->kind;
    for (const Bytes bytes : {4 * kKiBytes, 300 * kKiBytes, 16 * kMiBytes}) {
      CHECK(collective_time(op, bytes, {2, 1, 2}, cluster, log) ==
            Approx(link_time(bytes)).epsilon(1e-6));
    }
  }
}

TEST_CASE(
    "a collective of its own kind of curve leaves the others theirs, and its range is noted") {
  Cluster cluster;
  cluster.devices_per_node = cluster.num_devices = 2;
  cluster.intra.kind = "loopback";
  cluster.intra.bandwidth = 1e9;
  cluster.intra.collective.startup = 10e-6;
  LinkCurve& own = cluster.intra.by_kind["all_gather"];
  own.startup = 70e-6;
  own.measured_from = kKiBytes;
  own.measured_to = kMiBytes;
  SourceLog log;
  // Ring of 2: half of 1 MiB at 1 GB/s for a gather, all of it for a reduction.
  CHECK(collective_time(OpKind::kAllGather, kMiBytes, {2, 1, 2}, cluster, log) ==
        Approx(70e-6 + 0.5 * 1048576e-9));
  CHECK(collective_time(OpKind::kAllReduce, kMiBytes, {2, 1, 2}, cluster, log) ==
        Approx(10e-6 + 1048576e-9));
  for (const SourceEntry& entry : log.entries()) CHECK_FALSE(entry.extrapolated);
  collective_time(OpKind::kAllGather, 2 * kMiBytes, {2, 1, 2}, cluster, log);
  const auto entries = log.entries();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].name == "loopback.all_gather");
  CHECK(entries[0].extrapolated);
  CHECK_FALSE(entries[1].extrapolated);
}

TEST_CASE("sizes are asked for at the ends, then where the times bend") {
  std::vector<MessagePoint> points;
  while (points.size() < 9) {
    const auto next = next_message_size(points, kKiBytes, 64 * kMiBytes);
    if (!next) break;
    points.push_back(timed(*next));
  }
  REQUIRE(points.size() >= 3);
  CHECK(points[0].bytes == kKiBytes);
  CHECK(points[1].bytes == 64 * kMiBytes);
  CHECK(points[2].bytes == 256 * kKiBytes);  // the middle of 10 and 26 doublings
  // Log log, the curve bends from flat to steep around 50 us = 50 KiB, and again to the faster
  // line.
  const auto bends = std::count_if(points.begin(), points.end(), [](const MessagePoint& point) {
    return point.bytes >= 8 * kKiBytes && point.bytes <= 2 * kMiBytes;
  });
  CHECK(bends >= 4);
}

TEST_CASE("a straight line needs no more sizes than show it") {
  // Proportional to the bytes: in logarithms a line of slope 1 everywhere.
  std::vector<MessagePoint> points;
  while (points.size() < 20) {
    const auto next = next_message_size(points, kKiBytes, 64 * kMiBytes);
    if (!next) break;
    points.push_back({*next, static_cast<double>(*next) / 1e9, 0});
  }
  CHECK(points.size() == 3);
}

}  // namespace trainyard::link_fit_test
