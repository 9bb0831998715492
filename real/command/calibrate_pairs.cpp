#include "real/command/calibrate_pairs.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include "calibrate/result/calibration.h"
#include "calibrate/result/pairs_text.h"
#include "engine/base/error.h"
#include "engine/base/readable.h"
#include "real/comm/gloo.h"
#include "real/comm/rendezvous.h"
#include "real/cuda/cuda.h"
#include "real/cuda/cuda_device.h"
#include "real/cuda/nccl.h"
#include "real/exec/host_device.h"
#include "real/exec/retained_memory.h"
#include "real/launch/local_launcher.h"
#include "real/launch/rank_threads.h"
#include "real/measure/machine.h"
#include "real/measure/pair_timing.h"
#include "study/measured_pairs.h"
#include "system/exit_code.h"
#include "system/files.h"
#include "system/interrupt.h"
#include "system/output_folder.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

constexpr std::int64_t kMostOfHosts = 8;  // unless --ranks says more
constexpr auto kAnswerWithin = std::chrono::seconds(120);

/// What has no --device: GPUs where there are two.
std::string device_of(const MeasureOptions& options) {
  if (!options.device.empty()) return options.device;
  return num_cuda_devices() > 1 ? "cuda" : "cpu";
}

std::int64_t ranks_of(const MeasureOptions& options, const Calibration& machine) {
  const bool gpus = machine.origin.device == "cuda";
  if (gpus && machine.devices < 2) {
    throw BackendError("--pairs: this machine has one GPU, and a pair takes two");
  }
  if (gpus && options.ranks.value_or(0) > machine.devices) {
    throw ConfigError("--ranks: this machine has " + plural(machine.devices, "GPU") + ", not " +
                      std::to_string(*options.ranks));
  }
  return options.ranks.value_or(gpus ? machine.devices
                                     : std::clamp(machine.devices, std::int64_t{2}, kMostOfHosts));
}

int measure_pairs(const MeasureOptions& options, const RankEnvironment& environment) {
  retain_cpu_memory();
  at::set_num_threads(threads_per_rank(environment));
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const Calibration machine = begin_calibration(device_of(options), "");
  const bool gpus = machine.origin.device == "cuda";
  Rendezvous rendezvous(
      {environment.master_host, environment.master_port, environment.serves_store}, kAnswerWithin);
  const std::unique_ptr<Device> device =
      gpus ? make_cuda_device(static_cast<int>(environment.local_rank))
           : std::make_unique<HostDevice>();
  const std::unique_ptr<Transport> transport =
      gpus ? make_nccl_transport(rendezvous, device->where().index(), kAnswerWithin)
           : make_gloo_transport(rendezvous, environment.rank, "127.0.0.1", kAnswerWithin);
  const PairCosts pairs =
      time_pairs(*device, *transport, rendezvous, environment.rank, environment.world_size);
  if (environment.rank == 0) {
    const std::string ranks = std::to_string(environment.world_size);
    write_file(options.out_file(),
               pairs_text(pairs, "trainyard calibrate --pairs, " + machine.date + "; " + ranks +
                                     (gpus ? " GPUs over NCCL, " : " processes over Gloo, ") +
                                     machine.origin.model));
  }
  return kDone;
}

}  // namespace

int run_pairs(const MeasureOptions& options, const std::vector<std::string>& arguments,
              const std::optional<RankEnvironment>& environment) {
  if (environment) return measure_pairs(options, *environment);
  const std::string out = options.out_file();
  const LockedFile file(out);
  if (std::filesystem::exists(out))
    throw ConfigError("--out: " + out + " is there already; name another file, or remove it");
  const Calibration machine = begin_calibration(device_of(options), "");
  const RunEnd end = run_local_ranks(arguments, ranks_of(options, machine));
  if (end.exit != 0) {
    file.remove_drafts();
    return end.signal != 0 ? ended_by_signal(end.signal) : end.exit;
  }
  const PairCosts pairs = read_pairs_file(out);
  if (options.json)
    print_answer(pairs_summary_json(pairs, out));
  else
    print_text(pairs_summary(pairs, out));
  return kDone;
}

}  // namespace trainyard
