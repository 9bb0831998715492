// The profiles that ship: every file reads, every number says where it comes from, and the facts a
// reader would check first are right. Then what a slip in such a file is answered with.
#include "study/profile_reader.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "engine/base/error.h"
#include "tests/support/source_root.h"

namespace trainyard::profile_reader_test {

namespace {

HardwareProfile device(const std::string& name) {
  const auto profile = find_hardware_profile(source_root(), name);
  REQUIRE(profile.has_value());
  return *profile;
}

SoftwareProfile framework(const std::string& name, const std::string& version = "") {
  const auto profile = find_software_profile(source_root(), name, version);
  REQUIRE(profile.has_value());
  return *profile;
}

void check_provenance(const Provenance& provenance) {
  const std::set<std::string> kinds = {"measured", "fitted", "datasheet", "derived"};
  CHECK(kinds.count(provenance.kind) == 1);
  CHECK_FALSE(provenance.note.empty());
}

const std::string kSmallDevice =
    "description: D\narchitecture: ampere\n"
    "peak: {fp32: 1 TFLOP/s, kind: datasheet, note: n}\n"
    "memory: {capacity: 2 GiB, reserved: 1 GiB, kind: datasheet, note: n}\n"
    "bandwidth: {rate: 1 GB/s, kind: datasheet, note: n}\n"
    "launch: {time: 5 us, kind: derived, note: n}\n"
    "matmul: {kind: derived, note: n}\nbatched_matmul: {kind: derived, note: n}\n"
    "flash_attention: {kind: derived, note: n}\n"
    "memory_bound: {default: {kind: derived, note: n}}\n";
const std::string kOptimizer = "optimizer: {kind: derived, note: n}\n";

std::string error_of(const std::string& text) {
  try {
    read_hardware_profile(source_root(), "d", YamlNode::parse(text, "d.yaml"));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("every device profile reads, and each of its numbers has a provenance") {
  const auto names = yaml_names(source_root() + "/calibrate/profiles");
  REQUIRE(names.size() >= 9);
  for (const std::string& name : names) {
    CAPTURE(name);
    const HardwareProfile profile = device(name);
    CHECK_FALSE(profile.description.empty());
    CHECK(profile.memory_capacity > profile.memory_reserved);
    CHECK(profile.memory_bandwidth > 0);
    CHECK(profile.launch > 0);
    CHECK(profile.peak.count(DType::kFp32) == 1);
    for (const Provenance* provenance :
         {&profile.peak_provenance, &profile.memory_provenance, &profile.bandwidth_provenance,
          &profile.launch_provenance, &profile.matmul.provenance,
          &profile.batched_matmul.provenance, &profile.flash_attention.provenance,
          &profile.optimizer.provenance}) {
      check_provenance(*provenance);
    }
    REQUIRE(profile.memory_bound.count("default") == 1);
    for (const auto& [op, curve] : profile.memory_bound) check_provenance(curve.provenance);
    for (const auto& [kernel, curve] : profile.other_flash_attention) {
      check_provenance(curve.provenance);
    }
  }
}

TEST_CASE("every framework profile reads, and each of its numbers has a provenance") {
  for (const NamedDescription& file : list_frameworks(source_root())) {
    CAPTURE(file.name);
    const SoftwareProfile profile = read_software_profile(
        YamlNode::load_file(source_root() + "/calibrate/software/" + file.name + ".yaml"));
    CHECK(file.name == profile.name + (profile.version.empty() ? "" : "-" + profile.version));
    for (const auto& [field, provenance] : profile.provenance) check_provenance(provenance);
    CHECK(profile.provenance.count("description") == 1);
    CHECK((profile.launch_factor == 1 || profile.provenance.count("launch_factor") == 1));
    CHECK(
        (profile.memory_bound_factor == 1 || profile.provenance.count("memory_bound_factor") == 1));
    CHECK((profile.context_gib == 0 || profile.provenance.count("context_gib") == 1));
  }
}

TEST_CASE(
    "a framework's profile lists the schedules that it has; an unknown one is refused at its "
    "line") {
  const auto has = [](const std::string& name, const std::string& version) {
    return find_software_profile(source_root(), name, version)->schedules;
  };
  const std::vector<std::string> megatron = {"1f1b", "interleaved"};
  CHECK(has("megatron-lm", "2021") == megatron);
  CHECK(has("megatron-lm", "2022") == megatron);
  CHECK(has("megatron-lm", "current") == megatron);
  CHECK(has("nemo", "") == megatron);
  CHECK(has("megatron-bridge", "") == megatron);
  CHECK(has("megatron-deepspeed", "") == std::vector<std::string>{"1f1b"});
  CHECK(has("merak", "") ==
        std::vector<std::string>{"1f1b", "pre-recompute-1f1b", "last-no-recompute-1f1b", "scp"});
  CHECK(find_software_profile(source_root(), "trainyard", "")->has_schedule("dualpipe-v"));  // all

  const auto problem = [](const std::string& schedules) -> std::string {
    try {
      read_software_profile(YamlNode::parse(
          "name: made\ndescription: made\nbasis: {kind: derived, note: made}\n" + schedules,
          "made.yaml"));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  };
  CHECK(problem("schedules: {value: [1f1b, 2f2b], kind: derived, note: made}\n")
            .starts_with("made.yaml:4:27: schedules.value[1]: unknown schedule '2f2b'; known: "
                         "gpipe, 1f1b, interleaved, zb-h1"));
  CHECK(problem("schedules: {value: [], kind: derived, note: made}\n") ==
        "made.yaml:4:20: schedules.value: expected the schedules that the framework has; without "
        "this key it has all");
  CHECK(problem("schedules: [1f1b]\n").find("schedules") !=
        std::string::npos);  // where does that come from?
  CHECK(problem("schedules: {value: [1f1b]}\n").find("kind") != std::string::npos);
}

TEST_CASE("profile files stay small: they are read at every start") {
  for (const std::string folder : {"calibrate/profiles", "calibrate/software", "calibrate/links"}) {
    for (const auto& file : std::filesystem::directory_iterator(source_root() + "/" + folder)) {
      CAPTURE(file.path().string());
      CHECK(file.file_size() <= 4096);
    }
  }
}

TEST_CASE("an A100 has the rates and the memory of its datasheet") {
  const HardwareProfile a100 = device("a100-sxm-80g");
  CHECK(a100.peak.at(DType::kBf16) == 312e12);
  CHECK(a100.peak.at(DType::kFp32) == 19.5e12);
  CHECK(a100.peak.at(DType::kTf32) == 156e12);
  CHECK(a100.memory_capacity == Bytes{80} << 30);
  CHECK(a100.memory_bandwidth == 2039e9);
  CHECK(a100.matmul.provenance.kind == "fitted");
  CHECK(a100.architecture == "ampere");
  CHECK(unsupported(a100, DType::kFp8).has_value());
}

TEST_CASE("products in either type of 8 bits have a device's FP8 rate, and a CPU's those of fp32") {
  const HardwareProfile h100 = device("h100-sxm-80g");
  CHECK(h100.peak.at(product_type(h100, DType::kE4m3)) == 1979e12);
  CHECK(product_type(h100, DType::kE5m2) == DType::kFp8);
  CHECK(product_type(h100, DType::kBf16) == DType::kBf16);
  CHECK(unsupported(h100, DType::kE5m2) == std::nullopt);
  const HardwareProfile cpu = device("cpu");
  CHECK(product_type(cpu, DType::kE4m3) == DType::kFp32);
  CHECK(unsupported(cpu, DType::kFp8) == std::nullopt);
}

TEST_CASE("a V100 multiplies fp16 but not bf16") {
  const HardwareProfile v100 = device("v100-sxm-32g");
  CHECK(unsupported(v100, DType::kFp16) == std::nullopt);
  CHECK(unsupported(v100, DType::kBf16) ==
        "v100-sxm-32g has no rate for products in bf16; it has fp64, fp32, fp16");
}

TEST_CASE("curves taken from another device are marked as derived") {
  const HardwareProfile of = device("a100-sxm-80g");
  const HardwareProfile v100 = device("v100-sxm-32g");
  CHECK(v100.optimizer.efficiency == of.optimizer.efficiency);
  CHECK(v100.optimizer.provenance.kind == "derived");
  CHECK(v100.optimizer.provenance.note.substr(0, 19) == "as on a100-sxm-80g ");
  CHECK(v100.memory_bound.at("add").provenance.kind == "derived");
  // What a file gives itself stays as it is.
  CHECK(device("a100-pcie-80g").matmul.provenance.kind == "fitted");
  CHECK(v100.matmul.flop_efficiency != of.matmul.flop_efficiency);
  // Products in FP8 are the device's own products where it has a curve of these alone.
  CHECK(v100.fp8_matmul.flop_efficiency == v100.matmul.flop_efficiency);
  CHECK(device("h200-sxm-141g").fp8_matmul.flop_efficiency ==
        device("h100-sxm-80g").fp8_matmul.flop_efficiency);
  CHECK(device("a100-pcie-80g").batched_matmul.provenance.kind == "derived");
}

TEST_CASE("a device may have two names") {
  CHECK(device("rtx3090-24g").name == "rtx-3090");
  CHECK_FALSE(find_hardware_profile(source_root(), "a1000").has_value());
  CHECK_FALSE(find_hardware_profile(source_root(), "../software/trainyard").has_value());
}

TEST_CASE("Megatron-LM differs by year as its releases do") {
  const SoftwareProfile of_2021 = framework("megatron-lm", "2021");
  CHECK(of_2021.fused_bias_gelu);
  CHECK(of_2021.saves_dropout_mask);
  CHECK(of_2021.attention_transposes);
  CHECK_FALSE(of_2021.flash_attention);
  CHECK_FALSE(of_2021.overlap_tensor_gradient);
  CHECK(gradient_dtype(of_2021, DType::kFp16) == DType::kFp16);
  CHECK(gradient_dtype(of_2021, DType::kBf16) == DType::kFp32);
  CHECK(of_2021.placement == "PDT");

  const SoftwareProfile of_2022 = framework("megatron-lm", "2022");
  CHECK(of_2022.overlap_tensor_gradient);
  CHECK(of_2022.fused_gradient_accumulation);
  CHECK(of_2022.persistent_layer_norm);
  CHECK_FALSE(of_2021.persistent_layer_norm);
  CHECK_FALSE(of_2022.flash_attention);
  CHECK(gradient_dtype(of_2022, DType::kFp16) == DType::kFp32);

  CHECK(framework("megatron-lm", "current").flash_attention);
  CHECK(framework("megatron-lm").version == "current");
}

TEST_CASE("Trainyard itself fuses nothing, draws masks again and follows the study's gradients") {
  const SoftwareProfile own = framework("trainyard");
  CHECK_FALSE(own.fused_bias_gelu);
  CHECK_FALSE(own.fused_bias_dropout_add);
  CHECK_FALSE(own.saves_dropout_mask);
  CHECK(own.overlap_data_parallel);
  CHECK(gradient_dtype(own, DType::kFp16) == std::nullopt);
  CHECK(own.placement == "DPT");
}

TEST_CASE("a framework or version that is not there is nullopt") {
  CHECK_FALSE(find_software_profile(source_root(), "megatron-lm", "1999").has_value());
  CHECK_FALSE(find_software_profile(source_root(), "megatron-lm-2021", "").has_value());
  CHECK_FALSE(find_software_profile(source_root(), "tensorflow", "").has_value());
}

TEST_CASE("lists give each device and framework once, with a line about it") {
  const auto devices = list_profiles(source_root());
  REQUIRE_FALSE(devices.empty());
  CHECK(devices[0].name == "a100-pcie-40g");
  CHECK(devices[0].description == "NVIDIA A100 PCIe 40 GB");
  for (const NamedDescription& entry : devices) CHECK(entry.name != "rtx3090-24g");
}

TEST_CASE("a slip in a device profile is refused at its line") {
  CHECK(error_of(kSmallDevice + kOptimizer) == "no error");
  CHECK(error_of(kSmallDevice + kOptimizer + "warp: 32\n").substr(0, 12) == "d.yaml:12:1:");
  CHECK(error_of(kSmallDevice).find("missing required key 'optimizer'") != std::string::npos);
  CHECK(error_of(kSmallDevice + "optimizer: {efficiency: 1.5, kind: derived, note: n}\n")
            .find("d.yaml:11:25: optimizer.efficiency: expected at most 1, got 1.5") == 0);
  CHECK(error_of(kSmallDevice + "optimizer: {kind: guessed, note: n}\n") ==
        "d.yaml:11:19: optimizer.kind: expected measured, fitted, datasheet or derived, got "
        "'guessed'");
  CHECK(error_of(kSmallDevice + "optimizer: {kind: derived}\n").find("'note'") !=
        std::string::npos);
  CHECK(error_of(kSmallDevice + kOptimizer +
                 "slowdown: {compute_by_communication: 1.05, kind: measured, note: n}\n") ==
        "no error");
  CHECK(error_of(kSmallDevice + kOptimizer +
                 "slowdown: {communication_by_compute: 0.9, kind: measured, note: n}\n")
            .find("d.yaml:12:38: slowdown.communication_by_compute: expected at least 1") == 0);
  CHECK(error_of(kSmallDevice + kOptimizer + "slowdown: {compute_by_communication: 1.05}\n")
            .find("'kind'") != std::string::npos);
  CHECK(error_of(kSmallDevice + kOptimizer + "like: a100-sxm-40g\nlike_because: b\n")
            .find("expected a profile that has curves of its own, got 'a100-sxm-40g'") !=
        std::string::npos);
}

TEST_CASE(
    "a profile says what rows of no multiple of 8 elements cost, at least 1, with its source") {
  const HardwareProfile h100 = device("h100-sxm-80g");
  CHECK(h100.unaligned.provenance.kind == "fitted");
  CHECK(h100.unaligned.even < h100.unaligned.odd);
  CHECK(h100.unaligned.odd < h100.unaligned.odd_result);
  // The same chip, and the next generation, take its numbers and say so.
  for (const char* name : {"h200-sxm-141g", "b200"}) {
    CHECK(device(name).unaligned.odd == h100.unaligned.odd);
    CHECK(device(name).unaligned.provenance.kind == "derived");
  }
  CHECK_FALSE(device("cpu").unaligned.any());
  CHECK(error_of(kSmallDevice + kOptimizer + "unaligned: {odd: 5, kind: measured, note: n}\n") ==
        "no error");
  CHECK(error_of(kSmallDevice + kOptimizer + "unaligned: {even: 0.5, kind: measured, note: n}\n")
            .find("d.yaml:12:19: unaligned.even: expected at least 1") == 0);
  CHECK(error_of(kSmallDevice + kOptimizer + "unaligned: {odd: 5}\n").find("'kind'") !=
        std::string::npos);
}

}  // namespace trainyard::profile_reader_test
