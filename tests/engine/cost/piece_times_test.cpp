// Collectives in pieces beside products, in closed form: every expected time is derived beside it.
#include "engine/cost/piece_times.h"

#include <catch2/catch.hpp>

#include "tests/support/round_device.h"

namespace trainyard::piece_times_test {

namespace {

HardwareProfile device_of_products() {
  HardwareProfile device = round_device();
  device.matmul = {5e-6, 1, 1, 1, {}};
  return device;
}

}  // namespace

TEST_CASE("a piece of a product reads its share of what is cut, and all of the rest") {
  KernelWork work;
  work.cls = KernelClass::kMatmul;
  work.kind = OpKind::kLinear;
  work.dtype = DType::kBf16;
  work.m = 4000, work.k = 1000, work.n = 2000;
  work.flop = 16e9;
  work.bytes = 2 * (4'000'000 + 2'000'000 + 8'000'000);
  SourceLog log;
  const PieceTimes times = piece_times(work, 8, device_of_products(), {}, log);
  CHECK(times.forward);
  CHECK(times.ranks == 8);
  // 5 us + 16e9 / 100e12 + 28 MB / 1 TB/s.
  CHECK(times.whole == Approx(193e-6));
  // An eighth of the rows: 5 + 20 us + (1 + 4 + 2) MB / 1 TB/s.
  CHECK(times.rows == Approx(32e-6));
  // A fourth of the outputs: 5 + 40 us + (8 + 1 + 4) MB / 1 TB/s.
  CHECK(times.outputs == Approx(58e-6));
  work.part = OpPart::kInputGrad;
  CHECK_FALSE(piece_times(work, 8, device_of_products(), {}, log).forward);
}

TEST_CASE("what a collective in pieces adds to its product") {
  const PieceTimes product{true, 4, 20, 6, 6};
  // Copies of 1 + 9 / 3 = 4 end before the 4 products of 6 that wait for them: 24 - 20.
  CHECK(rows_gathered(product, {1, 9}) == 4);
  // Copies of 1 + 27 / 3 = 10: the last product begins at 30.
  CHECK(rows_gathered(product, {1, 27}) == 30 + 6 - 20);
  // The own rows are the last product: it ends at 24, behind the copy that began at 18.
  CHECK(rows_scattered(product, {1, 9}) == 4);
  // A copy of 1 + 21 / 3 = 8 that begins at 18 ends later; so does the first of three, at 6.
  CHECK(rows_scattered(product, {1, 21}) == 6 + 3 * 8 - 20);
  // Reductions of 1 + 12 / 4 = 4: the last begins at 24.
  CHECK(outputs_scattered(product, {1, 12}) == 24 + 4 - 20);
  // Reductions of 1 + 28 / 4 = 8: each waits for the one before, the first begins at 6.
  CHECK(outputs_scattered(product, {1, 28}) == 6 + 4 * 8 - 20);
}

TEST_CASE("user buffers and asynchronous tensor parallelism go in pieces") {
  SoftwareProfile software;
  SourceLog log;
  CHECK_FALSE(in_pieces(software, log));
  software.async_tensor = true;  // has it, and does not run it
  CHECK_FALSE(in_pieces(software, log));
  software.provenance["async_tensor"] = {"derived", "a pass"};
  software.runs_async_tensor = true;
  CHECK(in_pieces(software, log));
  REQUIRE(log.entries().size() == 1);
  CHECK(log.entries()[0].used_for == "tensor-parallel collectives");
  CHECK(in_pieces(
      [] {
        SoftwareProfile nemo;
        nemo.user_buffers = true;
        return nemo;
      }(),
      log));
}

}  // namespace trainyard::piece_times_test
