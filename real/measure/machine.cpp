#include "real/measure/machine.h"

#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <thread>

#include "engine/base/error.h"
#include "real/cuda/cuda.h"
#include "real/torch.h"

namespace trainyard {

namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "a CPU";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

Calibration begin_calibration(const std::string& device, const std::string& command) {
  Calibration out;
  out.origin.device = device;
  out.origin.version = "trainyard with LibTorch " TORCH_VERSION;
  out.date = utc_now();
  out.command = command;
  if (device == "cuda") {
    out.devices = num_cuda_devices();
    if (out.devices == 0) throw BackendError("--device cuda: " + why_no_cuda());
    out.origin.model = cuda_device_name(0);
    out.memory = cuda_device_memory(0);
    const int capability = cuda_capability(at::Device(at::kCUDA, 0));
    out.architecture = capability >= 100  ? "blackwell"
                       : capability >= 90 ? "hopper"
                       : capability >= 80 ? "ampere"
                                          : "volta";
    return out;
  }
  out.devices = std::max(1U, std::thread::hardware_concurrency());
  out.origin.model =
      cpu_model() + ", " + std::to_string(out.devices) + " cores, " + at::get_cpu_capability();
  out.memory = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
  return out;
}

}  // namespace trainyard
