// What the host takes of a step.
#include "engine/cost/host_times.h"

#include <catch2/catch.hpp>

namespace trainyard::host_times_test {

TEST_CASE("the host takes the device's launch time times the framework's factor") {
  HardwareProfile device;
  device.launch = 5e-6;
  SoftwareProfile software;
  software.launch_factor = 3;
  SourceLog log;
  CHECK(launch_time(device, software, 1, log) == Approx(15e-6));
  // With tensor parallelism 4: 15 us x (1 + 0.001 x 4^3); from 8 ranks on no more: 15 us x (1 +
  // 0.001 x 8^3).
  software.launch_growth = 0.001;
  CHECK(launch_time(device, software, 1, log) == Approx(15e-6));
  CHECK(launch_time(device, software, 4, log) == Approx(15e-6 * 1.064));
  CHECK(launch_time(device, software, 16, log) == Approx(15e-6 * 1.512));
}

TEST_CASE("a batch and each tensor of an update take what the framework says") {
  SoftwareProfile software;
  software.batch_us = 800;
  software.tensor_update_us = 35;
  SourceLog log;
  CHECK(batch_time(software, log) == Approx(800e-6));
  CHECK(tensor_update_time(302, software, log) == Approx(302 * 35e-6));
  CHECK(tensor_update_time(0, software, log) == 0);
}

}  // namespace trainyard::host_times_test
