// Which profile the CPU of this machine has: a matter of its flags, and of nothing else.
#include "system/this_cpu.h"

#include <catch2/catch.hpp>
#include <set>

#include "app/prepare.h"
#include "engine/cost/cpu_profile.h"
#include "study/profile_reader.h"
#include "study/study_writer.h"
#include "tests/support/source_root.h"

namespace trainyard::this_cpu_test {

namespace {

const std::string kLocal =
    "model: {family: gpt, layers: 2, hidden: 64, heads: 2, vocab: 64, seq_len: 32}\n"
    "cluster: {preset: local, ranks: 2}\ntraining: {global_batch: 2, precision: bf16}\n";

/// A study as a machine with these flags reads it.
Study read_on(const std::vector<std::string>& flags, const std::string& text,
              const std::vector<std::string>& sets = {}) {
  std::vector<std::string> warnings;
  StudyResolvers resolvers = make_resolvers(source_root(), warnings);
  resolvers.local_device = [&] { return cpu_profile(flags); };
  return read_study_text(text, "study.yaml", sets, resolvers);
}

}  // namespace

TEST_CASE("a CPU's profile is chosen by its flags") {
  CHECK(cpu_profile({"fpu", "avx512_bf16", "amx_bf16", "avx512f", "amx_tile", "amx_int8"}).name ==
        "cpu-amx");
  // Tiles alone multiply no bf16, and GEMMs of bf16 need tiles.
  CHECK(cpu_profile({"amx_tile", "amx_int8", "avx512f"}).name == "cpu");
  CHECK(cpu_profile({"amx_bf16"}).name == "cpu");
  CHECK(cpu_profile({"avx512f", "avx512_bf16"}).name == "cpu-avx512-bf16");
  CHECK(cpu_profile({"avx2", "avx512f", "avx512_bf160"}).name == "cpu");
  CHECK(cpu_profile({}).name == "cpu");
}

TEST_CASE("the flags are those of the first processor that /proc/cpuinfo lists") {
  CHECK(cpu_flags_in("processor\t: 0\nflags\t\t: fpu amx_tile amx_bf16\nflags : other\n") ==
        std::vector<std::string>{"fpu", "amx_tile", "amx_bf16"});
  CHECK(cpu_flags_in("processor: 0\nFeatures: fp asimd bf16\n").empty());
  CHECK(cpu_flags_in("").empty());
}

TEST_CASE("each class has a profile, which multiplies every type that trains") {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"amx_tile", "amx_bf16"}, {"avx512_bf16"}, {}}) {
    const std::string name = cpu_profile(flags).name;
    CAPTURE(name);
    const auto profile = find_hardware_profile(source_root(), name);
    REQUIRE(profile);
    CHECK(profile->architecture == "cpu");
    for (const DType type : {DType::kFp64, DType::kFp32, DType::kFp16, DType::kBf16})
      CHECK_FALSE(unsupported(*profile, type));
  }
}

TEST_CASE("the resolved study names the choice, and means the same on any other machine") {
  const std::vector<std::string> amx = {"amx_tile", "amx_bf16"};
  const Study study = read_on(amx, kLocal);
  CHECK(study.cluster.device == "cpu-amx");
  const std::string resolved = resolved_study_text(study);
  CHECK(resolved.find("device: cpu-amx  # default: this machine's CPU has amx_tile and amx_bf16") !=
        std::string::npos);
  const Study elsewhere = read_on({}, resolved);
  CHECK(elsewhere.cluster.device == "cpu-amx");
  CHECK(elsewhere.warnings == study.warnings);
  CHECK(read_on({}, kLocal).cluster.device == "cpu");
  CHECK(read_on(amx, "model: gpt3-175b\ncluster: local\ntraining: {global_batch: 1}\n")
            .cluster.device == "cpu-amx");
  // What the study says itself goes first.
  CHECK(read_on(amx, kLocal, {"cluster.device=cpu"}).cluster.device == "cpu");
}

TEST_CASE("other studies never look at the machine") {
  std::vector<std::string> warnings;
  StudyResolvers resolvers = make_resolvers(source_root(), warnings);
  int asked = 0;
  resolvers.local_device = [&] {
    ++asked;
    return cpu_profile({});
  };
  const auto read = [&](const std::string& cluster) {
    return read_study_text("model: gpt3-175b\ncluster: " + cluster +
                               "\nparallel: {tensor: 8}\ntraining: {global_batch: 64}\n",
                           "study.yaml", {}, resolvers);
  };
  for (const char* cluster :
       {"dgx-a100-80g", "{preset: dgx-h100, nodes: 2}",
        "{device: cpu, devices_per_node: 8, intra: {kind: loopback, bandwidth: 5 GB/s}}",
        "{gpu: a100-sxm-80g, gpus: 8, gpus_per_node: 8, intra: nvswitch}",
        "{preset: local, ranks: 8, device: h100-sxm-80g}"}) {
    CAPTURE(cluster);
    read(cluster);
    CHECK(asked == 0);
  }
  read("{preset: local, ranks: 8}");
  CHECK(asked == 1);
}

}  // namespace trainyard::this_cpu_test
