// Devices that are named by their kind and another capacity.
#include "study/device_capacity.h"

#include <catch2/catch.hpp>

#include "engine/base/error.h"
#include "study/profile_reader.h"
#include "tests/support/source_root.h"
#include "tests/support/studies.h"

namespace trainyard::device_capacity_test {

TEST_CASE("a name with another capacity is the device with so much memory") {
  const auto named = find_hardware_profile(source_root(), "b200-192g");
  const auto shipped = find_hardware_profile(source_root(), "b200");
  REQUIRE(named);
  CHECK(named->name == "b200-192g");
  CHECK(named->capacity_of == "b200");
  CHECK(named->memory_capacity == Bytes{192} * 1024 * 1024 * 1024);
  CHECK(named->memory_reserved == shipped->memory_reserved);
  CHECK(named->peak == shipped->peak);
  CHECK(named->memory_bandwidth == shipped->memory_bandwidth);
  CHECK(named->memory_provenance.kind == "derived");
}

TEST_CASE("a shipped profile of that name wins, and of several kinds the nearest capacity") {
  // 2,400 GB/s are those of the part with 96 GB, 3,350 those of the one with 80.
  CHECK(find_hardware_profile(source_root(), "h100-sxm-96g")->capacity_of.empty());
  CHECK(find_hardware_profile(source_root(), "h100-sxm-94g")->capacity_of == "h100-sxm-96g");
  CHECK(find_hardware_profile(source_root(), "h100-sxm-64g")->capacity_of == "h100-sxm-80g");
  CHECK(find_hardware_profile(source_root(), "a100-sxm-20g")->memory_bandwidth == 1555e9);
}

TEST_CASE("other names are no devices") {
  for (const char* name : {"b200-180", "b200-0g", "b200-g", "x9-80g", "cpu-64g", "b200-180gb"})
    CHECK_FALSE(find_hardware_profile(source_root(), name));
  CHECK(kind_of_device("a100-sxm-80g") == "a100-sxm");
  CHECK(kind_of_device("b200") == "b200");
}

TEST_CASE("a case on such a device is read with a warning, and finds its links") {
  const Prepared prepared = prepare_text(
      "model: {family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 64, seq_len: 32}\n"
      "cluster: {gpu: b200-180g, gpus: 8, gpus_per_node: 8, intra: nvswitch, intra_gb_per_s: 900}\n"
      "training: {global_batch: 32}\n");
  CHECK(prepared.hardware.name == "b200-180g");
  REQUIRE(prepared.study.warnings.size() == 1);
  CHECK(
      prepared.study.warnings[0] ==
      "cluster.gpu: no profile is of b200-180g: compute and bandwidth are taken for those of b200, "
      "memory as named");
}

}  // namespace trainyard::device_capacity_test
