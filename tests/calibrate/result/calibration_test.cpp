// What is kept between runs, and the profile that is written from it: read back by the product's
// own reader, it predicts what was measured.
#include "calibrate/result/calibration.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/prepare.h"
#include "app/simulation.h"
#include "calibrate/result/calibration_page.h"
#include "calibrate/result/profile_text.h"
#include "engine/base/error.h"
#include "engine/cost/collective_time.h"
#include "engine/cost/transfer_time.h"
#include "engine/exec/costs.h"
#include "study/cluster_preset.h"
#include "study/profile_reader.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/source_root.h"
#include "tests/support/studies.h"

namespace trainyard::calibration_test {

namespace {

KernelWork product(const char* form, std::int64_t m, std::int64_t n, std::int64_t k) {
  KernelWork work;
  work.cls = KernelClass::kMatmul;
  work.form = *parse_kernel_form(form);
  work.kind = work.form.kind;
  work.part = work.form.part;
  work.dtype = DType::kFp32;
  work.m = m, work.n = n, work.k = k;
  work.flop = 2.0 * static_cast<double>(m * n * k);
  work.bytes = 4 * (m * k + k * n + m * n);
  return work;
}

void time(MeasuredSet& set, const KernelWork& work, Seconds seconds) {
  add_point(
      set.points[work.form],
      {work.form, {work.m, work.n, work.k, work.batch}, work.flop, work.bytes, seconds, 0.01});
}

/// A machine of 2 cores: 100 GFLOP/s for one process on both, 40 for each of two.
Calibration round_machine() {
  Calibration out;
  out.origin = {"cpu", "a round CPU, 2 cores", "trainyard with LibTorch 2.11.0"};
  out.devices = 2;
  out.memory = Bytes{8} << 30;
  out.date = "2026-01-02T03:04:05Z";
  out.command = "trainyard calibrate --device cpu --out round.yaml";
  for (const std::int64_t ranks : {1, 2}) {
    MeasuredSet& set = out.set_of(ranks);
    set.threads = ranks == 1 ? 2 : 1;
    set.spent = 10;
    set.kept = {9, 0.36, 0.09, 2};
    set.set_aside = {4, 6, 1, 3};
    set.complete = true;
    set.probes = {"a", "b"};
    set.launches = {4e-6, 5e-6, 6e-6};
    set.references = {1e-3, 1e-3};
    for (const std::int64_t m : {128, 512, 2048}) {
      for (const std::int64_t n : {128, 512, 2048}) {
        const KernelWork work = product("linear fp32 fp32 fp32 -> fp32", m, n, n);
        time(set, work, 3e-6 + work.flop / (ranks == 1 ? 100e9 : 40e9));
      }
      KernelWork norm;
      norm.form = *parse_kernel_form("layer_norm fp32 fp32 fp32 -> fp32 fp32");
      norm.m = m, norm.n = 512;
      norm.bytes = 8 * m * 512;
      time(set, norm, 2e-6 + static_cast<double>(norm.bytes) / 8e9);
    }
  }
  MeasuredSet& pair = out.set_of(2);
  for (const char* kind : {"all_reduce", "all_gather", "send"}) {
    for (Bytes bytes = 1024; bytes <= Bytes{16} << 20; bytes *= 8)
      pair.messages[kind].push_back({bytes, 30e-6 + static_cast<double>(bytes) / 2e9, 0.02});
  }
  pair.compute_slowdowns = {1.2, 1.3, 1.4};
  pair.communication_slowdowns = {1.5};
  return out;
}

HardwareProfile read_back(const Calibration& calibration) {
  return read_hardware_profile(source_root(), "round",
                               YamlNode::parse(profile_text(calibration), "round.yaml"));
}

Seconds kernel(const KernelWork& work, const HardwareProfile& hardware, SourceLog& log) {
  return kernel_time(work, hardware, SoftwareProfile{}, 1, log);
}

std::string kept_error(const std::string& text) {
  try {
    read_calibration(text, "my.yaml.partial");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("measurements read back as they were kept") {
  const Calibration calibration = round_machine();
  const std::string text = calibration_json(calibration);
  const Calibration again = read_calibration(text, "x");
  CHECK(again.origin == calibration.origin);
  CHECK(calibration_json(again) == text);
}

TEST_CASE("a file that holds no measurements says so") {
  CHECK(kept_error("{").starts_with("my.yaml.partial: no measurements to go on with ("));
  CHECK(kept_error("{\"form\": 0}") ==
        "my.yaml.partial: no measurements to go on with (written by another version); remove it to "
        "begin again");
  std::string text = calibration_json(round_machine());
  text.replace(text.find("layer_norm fp32"), 15, "layer_form fp32");
  CHECK(kept_error(text).find("no form of a kernel is called 'layer_form fp32") !=
        std::string::npos);
}

TEST_CASE("sets are kept in the order of their ranks, one for each number") {
  Calibration calibration;
  calibration.set_of(4).threads = 1;
  calibration.set_of(1).threads = 4;
  CHECK(&calibration.set_of(4) == &calibration.sets[1]);
  CHECK(calibration.sets[0].ranks == 1);
  CHECK(calibration.sets.size() == 2);
}

TEST_CASE("a shape that is timed twice becomes a mean that covers both") {
  std::vector<CurvePoint> points;
  add_point(points, {{}, {1, 2, 3, 1}, 6, 8, 1.0, 0.02});
  add_point(points, {{}, {1, 2, 3, 1}, 6, 8, 1.1, 0.02});
  add_point(points, {{}, {1, 2, 4, 1}, 6, 8, 2.0, 0.02});
  REQUIRE(points.size() == 2);
  CHECK(points[0].time == Approx(1.05));
  CHECK(points[0].interval == Approx(0.05 / 1.05));
  // One that is known ten times better counts a hundred times as much: (100 x 1.05 + 1 x ...) with
  // the mean's interval.
  add_point(points, {{}, {1, 2, 3, 1}, 6, 8, 1.0, 0.05 / 1.05 / 10});
  CHECK(points[0].time == Approx((1.05 + 91.0 * 1.0) / 92.0).epsilon(2e-3));
}

TEST_CASE("the profile predicts what was measured, for as many ranks as work") {
  const HardwareProfile profile = read_back(round_machine());
  CHECK(profile.host_computes);
  REQUIRE(profile.measured.size() == 2);
  const KernelWork work = product("linear fp32 fp32 fp32 -> fp32", 512, 512, 512);
  SourceLog log;
  const HardwareProfile one = on_ranks(profile, 1), two = on_ranks(profile, 2);
  CHECK(kernel(work, one, log) == Approx(3e-6 + work.flop / 100e9).epsilon(0.01));
  CHECK(kernel(work, two, log) == Approx(3e-6 + work.flop / 40e9).epsilon(0.01));
  CHECK(one.launch == Approx(5e-6));
  CHECK(one.memory_capacity == Bytes{8} << 30);
  CHECK(two.memory_capacity == Bytes{4} << 30);
  CHECK_FALSE(one.slowdown.any());
  CHECK(two.slowdown.compute_by_communication == Approx(1.3));
  CHECK(two.slowdown.communication_by_compute == Approx(1.5));
  // 4 ranks were not measured: those of 2 are taken, and it says so.
  SourceLog more;
  CHECK(kernel(work, on_ranks(profile, 4), more) == Approx(kernel(work, two, log)));
  REQUIRE(more.entries().size() == 1);
  CHECK(more.entries()[0].extrapolated);
}

TEST_CASE(
    "what a measured profile answers says where it comes from, and what lies beyond the points") {
  const HardwareProfile profile = on_ranks(read_back(round_machine()), 1);
  SourceLog log;
  kernel(product("linear fp32 fp32 fp32 -> fp32", 512, 512, 512), profile, log);
  auto entries = log.entries();
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].name == "round.kernels.linear fp32 fp32 fp32 -> fp32");
  CHECK(entries[0].kind == "measured");
  CHECK_FALSE(entries[0].extrapolated);
  kernel(product("linear fp32 fp32 fp32 -> fp32", 4096, 512, 512), profile, log);
  CHECK(log.entries()[0].extrapolated);

  // A form that was not measured takes the form fitted to the GEMMs that were: 3 us and 100
  // GFLOP/s.
  SourceLog other;
  const KernelWork unmeasured = product("linear_dx fp32 fp32 -> fp32", 512, 512, 512);
  CHECK(kernel(unmeasured, profile, other) == Approx(3e-6 + unmeasured.flop / 100e9).epsilon(0.02));
  CHECK(other.entries()[0].name == "round.bandwidth");
  CHECK(other.entries()[1].name == "round.matmul");
  CHECK(other.entries()[1].kind == "fitted");
}

TEST_CASE("the profile's links give back the messages' times") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/round.yaml";
  std::ofstream(path) << profile_text(round_machine());
  const auto link = find_link(source_root(), "loopback", path);
  REQUIRE(link.has_value());
  CHECK(link->name == "round.loopback");
  Cluster cluster;
  cluster.devices_per_node = cluster.num_devices = 2;
  cluster.intra = *link;
  SourceLog log;
  for (const Bytes bytes : {Bytes{4096}, Bytes{1} << 20}) {
    const Seconds expected = 30e-6 + static_cast<double>(bytes) / 2e9;
    CHECK(collective_time(OpKind::kAllReduce, bytes, {2, 1, 2}, cluster, log) ==
          Approx(expected).epsilon(1e-3));
    CHECK(collective_time(OpKind::kAllGather, bytes, {2, 1, 2}, cluster, log) ==
          Approx(expected).epsilon(1e-3));
    CHECK(transfer_time(bytes, Distance::kSameNode, cluster, log) ==
          Approx(expected).epsilon(1e-3));
  }
}

TEST_CASE("a study of this machine takes the profile that it names") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/round.yaml";
  std::ofstream(path) << profile_text(round_machine());
  const std::string study =
      "model: {family: gpt, layers: 1, hidden: 64, heads: 2, vocab: 64, seq_len: 32}\n"
      "cluster: {preset: local, ranks: 2, profile: " +
      path +
      "}\n"
      "training: {global_batch: 2, precision: fp32, dropout: 0}\n";
  const Prepared prepared = prepare_text(study);
  CHECK(prepared.study.warnings.empty());  // no estimates
  CHECK(prepared.hardware.name == "round");
  REQUIRE(prepared.hardware.kernels != nullptr);
  CHECK(prepared.hardware.kernels->ranks == 2);
  CHECK(prepared.study.cluster.intra.name == "round.loopback");
  CHECK(prepared.study.training.kernels == KernelSet::kCpu);
  // The Program is the same with estimates: costs are no part of it.
  const Prepared estimated = prepare_text(study, {"cluster.profile=null"});
  CHECK_FALSE(estimated.study.warnings.empty());
  CHECK(compiled_program(estimated) == compiled_program(prepared));
}

TEST_CASE("where the host computes, a step is the sum of its kernels and launches") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/round.yaml";
  std::ofstream(path) << profile_text(round_machine());
  const Prepared prepared = prepare_text(
      "model: {family: gpt, layers: 2, hidden: 64, heads: 2, vocab: 64, seq_len: 32}\n"
      "cluster: {preset: local, ranks: 1, profile: " +
      path +
      "}\ntraining: {global_batch: 4, microbatch: 2, precision: fp32, dropout: 0}\nfidelity: "
      "analytic\n");
  const auto answer = simulate(prepared, RunOptions{});
  REQUIRE(std::holds_alternative<Simulation>(answer));
  const Simulation& simulation = std::get<Simulation>(answer);
  SourceLog log;
  const Costs costs = make_costs(simulation.program, prepared.hardware, prepared.software,
                                 prepared.study.cluster, log);
  Seconds sum = 0;
  for (const Call& call : simulation.program.body.front().calls) {
    REQUIRE(call.inside.empty());  // one rank reduces nothing
    for (const OpCost& op : costs.ops.at(1.0)[call.segment]) sum += op.kernel + op.launch;
  }
  CHECK(simulation.summary.iteration_time == Approx(sum).epsilon(1e-9));
}

TEST_CASE("a profile says how quiet the machine was, and a summary what was set aside") {
  // Two sets: 18 s were kept with 0.72 and 0.18 s of CPU time beside them: 0.04 and 0.01 CPUs.
  const Calibration calibration = round_machine();
  CHECK(profile_text(calibration)
            .find("load: \"0.04 of 2 CPUs taken by other processes, 0.01 stolen\"}") !=
        std::string::npos);
  const std::string summary = calibration_summary(calibration, "p.yaml", "p.html");
  CHECK(summary.find("load: 0.04 of 2 CPUs taken by other processes, 0.01 stolen\n"
                     "6 samples and 8 s under load were set aside: 1.50 of 2 CPUs taken by other "
                     "processes, 0.25 stolen\n") != std::string::npos);
  const auto json =
      nlohmann::json::parse(calibration_summary_json(calibration, "p.yaml", "p.html"));
  CHECK(json["load"]["cpus"] == 2);
  CHECK(json["load"]["kept"]["others_cpus"].get<double>() == Approx(0.04));
  CHECK(json["load"]["set_aside"]["samples"] == 6);
  CHECK(json["load"]["set_aside"]["stolen_cpus"].get<double>() == Approx(0.25));
  Calibration silent = round_machine();
  for (MeasuredSet& set : silent.sets) set.kept = set.set_aside = {};
  CHECK(nlohmann::json::parse(calibration_summary_json(silent, "p", "p"))["load"].is_null());
  CHECK(calibration_summary(silent, "p", "p").find("load: not watched") != std::string::npos);
}

TEST_CASE("a profile that leaves a step open by a large factor is warned of") {
  const ScratchFolder folder;
  const auto warnings = [&](double interval) {
    Calibration calibration = round_machine();
    for (MeasuredSet& set : calibration.sets) {
      for (auto& [form, points] : set.points) {
        for (CurvePoint& point : points) point.interval = interval;
      }
    }
    std::ofstream(folder / "round.yaml") << profile_text(calibration);
    const Prepared prepared = prepare_text(
        "model: {family: gpt, layers: 2, hidden: 64, heads: 2, vocab: 64, seq_len: 32}\n"
        "cluster: {preset: local, ranks: 1, profile: " +
        folder / "round.yaml" +
        "}\ntraining: {global_batch: 4, precision: fp32, dropout: 0}\nfidelity: analytic\n");
    return std::get<Simulation>(simulate(prepared, RunOptions{})).summary.warnings;
  };
  CHECK(warnings(0.05).empty());
  REQUIRE(warnings(9).size() == 1);
  CHECK_THAT(warnings(9)[0],
             Catch::StartsWith("the profile leaves the step time open by a factor of "));
}

TEST_CASE("no profile is written whose kernels beat its own peak or memory") {
  // One process was timed while the machine was busy: two of them are then ten times as fast.
  Calibration calibration = round_machine();
  for (auto& [form, points] : calibration.sets[0].points) {
    for (CurvePoint& point : points) point.time *= 25;
  }
  const HardwareProfile profile = read_back(calibration);
  const KernelWork largest = product("linear fp32 fp32 fp32 -> fp32", 2048, 2048, 2048);
  CHECK(profile.peak.at(DType::kFp32) ==
        Approx(largest.flop / (3e-6 + largest.flop / 40e9)).epsilon(1e-3));
  // 2048 rows of 512 are 8 MiB: in 2 us + 8 MiB / (8 GB/s).
  CHECK(profile.memory_bandwidth == Approx((8 << 20) / (2e-6 + (8 << 20) / 8e9)).epsilon(1e-3));
}

TEST_CASE("too few measurements are no profile") {
  Calibration calibration = round_machine();
  calibration.sets[0].points.clear();
  CHECK_THROWS_WITH(profile_text(calibration),
                    "too little was measured for a profile: give it more --minutes");
}

TEST_CASE("the page holds every curve, and nothing of the machine's name ends its script") {
  Calibration calibration = round_machine();
  calibration.origin.model = "</script><b>";
  const std::string page = calibration_page(calibration, "round");
  CHECK(page.find("\"linear fp32 fp32 fp32 -> fp32\"") != std::string::npos);
  CHECK(page.find("\"all_gather\"") != std::string::npos);
  CHECK(page.find("</script><b>") == std::string::npos);
}

}  // namespace trainyard::calibration_test
