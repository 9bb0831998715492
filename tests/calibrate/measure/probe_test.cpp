// The adaptive choice of probes, on a device that is a formula: what it picks, and that what it has
// picked predicts what it has not.
#include "calibrate/measure/probe.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/studies.h"

namespace trainyard::probe_test {

namespace {

KernelWork product(std::int64_t m, std::int64_t n) {
  KernelWork work;
  work.cls = KernelClass::kMatmul;
  work.form = *parse_kernel_form("linear fp32 fp32 -> fp32");
  work.m = m, work.n = n, work.k = 256;
  work.flop = 2.0 * static_cast<double>(m * n * work.k);
  work.bytes = 4 * (m * work.k + work.k * n + m * n);
  return work;
}

/// 100 GFLOP/s up to 384 columns, 200 from 768 on, and between them in between.
Seconds device_time(const KernelWork& work) {
  const double wide = std::clamp(std::log2(static_cast<double>(work.n) / 384), 0.0, 1.0);
  return 3e-6 + work.flop / (100e9 * (1 + wide));
}

Probe probe(std::int64_t m, std::int64_t n) {
  return {std::to_string(m) + " x " + std::to_string(n), "", {{product(m, n), 4}}};
}

using Points = std::map<KernelForm, std::vector<CurvePoint>>;

void time_on_device(const Probe& one, Points& points) {
  for (const ProbeKernel& kernel : one.kernels) {
    const KernelWork& work = kernel.work;
    add_point(points[work.form], {work.form,
                                  {work.m, work.n, work.k, work.batch},
                                  work.flop,
                                  work.bytes,
                                  device_time(work),
                                  0.005});
  }
}

}  // namespace

TEST_CASE("a step of a Program lists each kernel once, with its count") {
  const Program program = compiled_program(prepare_text(
      "model: {family: gpt, layers: 3, hidden: 64, heads: 4, vocab: 128, seq_len: 32}\n"
      "cluster: {preset: local, ranks: 1}\ntraining: {global_batch: 4, microbatch: 2, precision: "
      "fp32, dropout: 0}\n"));
  const std::vector<ProbeKernel> kernels = kernels_of(program);
  const auto count = [&](const std::string& form, std::int64_t n) {
    const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const ProbeKernel& kernel) {
      return to_string(kernel.work.form) == form && kernel.work.n == n;
    });
    return found == kernels.end() ? 0 : found->count;
  };
  // 3 layers, 2 microbatches: the first GEMM of the MLP, 64 -> 256, runs 6 times.
  CHECK(count("linear fp32 fp32 fp32 -> fp32", 256) == 6);
  // Two norms in a layer and one behind them all, in 2 microbatches.
  CHECK(count("layer_norm fp32 fp32 fp32 -> fp32 fp32", 64) == 14);
}

TEST_CASE("what nothing is known of is worth most, what is known well is worth nothing") {
  Points points;
  const KnownKernels nothing(points);
  CHECK(value_of(probe(128, 128), nothing) == Approx(1));
  for (const std::int64_t n : {128, 256, 512}) time_on_device(probe(128, n), points);
  const KnownKernels known(points);
  CHECK(value_of(probe(128, 256), known) < 1e-3);
  CHECK(value_of(probe(128, 384), known) < value_of(probe(2048, 384), known));
  CHECK(step_time(probe(128, 256), known) ==
        Approx(4 * device_time(product(128, 256))).epsilon(0.02));
}

TEST_CASE("probes that do not fit into the time that is left are not chosen") {
  const std::vector<Probe> probes = {probe(65536, 4096), probe(64, 64)};
  const KnownKernels nothing{Points{}};
  // 4 GEMMs of 137 GFLOP at the first guess of 50 GFLOP/s: 11 s a step.
  CHECK(choose_probe(probes, {}, nothing, {5}) == std::optional<std::size_t>(1));
  CHECK(choose_probe(probes, {"64 x 64"}, nothing, {5}) == std::nullopt);
  CHECK(choose_probe(probes, {"64 x 64"}, nothing, {500}) == std::optional<std::size_t>(0));
}

TEST_CASE(
    "chosen one after the other, few probes predict all candidates, better than as many spread "
    "evenly") {
  std::vector<Probe> probes;
  for (const std::int64_t m : {64, 128, 256, 512, 1024}) {
    for (const std::int64_t n : {64, 96, 128, 192, 256, 384, 512, 576, 768, 1024, 1536, 2048, 3072})
      probes.push_back(probe(m, n));
  }
  Points chosen, spread;
  std::vector<std::string> done;
  while (done.size() < 20) {
    const auto next = choose_probe(probes, done, KnownKernels(chosen), {1000});
    if (!next) break;
    done.push_back(probes[*next].name);
    time_on_device(probes[*next], chosen);
  }
  const auto error_of_all = [&](const Points& points) {
    const KnownKernels known(points);
    double error = 0;
    for (const Probe& one : probes)
      error += std::abs(step_time(one, known) / (4 * device_time(one.kernels[0].work)) - 1);
    return error / static_cast<double>(probes.size());
  };
  CHECK(error_of_all(chosen) < 0.05);
  // As many that are spread evenly over the list do worse.
  for (std::size_t i = 0; i < done.size(); ++i)
    time_on_device(probes[i * probes.size() / done.size()], spread);
  CHECK(error_of_all(chosen) < error_of_all(spread));
}

TEST_CASE("steps are timed for a while, at least a few and at most some dozens") {
  CHECK(timed_steps(10) == 5);
  CHECK(timed_steps(0.06) == 10);
  CHECK(timed_steps(1e-5) == 30);
}

TEST_CASE("steps that jitter are timed again, at most three times as many") {
  CHECK(more_steps(0.06, {}) == 10);
  const std::vector<Seconds> steady(10, 0.06);
  CHECK(more_steps(0.06, steady) == 0);
  // Half of them take half as long again: the median may be either.
  std::vector<Seconds> jitter;
  for (int i = 0; i < 10; ++i) jitter.push_back(i % 2 == 0 ? 0.05 : 0.075);
  const int round = more_steps(0.06, jitter);
  CHECK(round == 9);  // 0.6 s of the median, 62.5 ms
  for (int i = 0; i < 20; ++i) jitter.push_back(i % 2 == 0 ? 0.05 : 0.075);
  CHECK(more_steps(0.06, jitter) == 0);
}

}  // namespace trainyard::probe_test
