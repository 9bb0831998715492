#include "real/command/emulated_rank.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/format.h"
#include "engine/memory/memory.h"
#include "engine/program/rank_places.h"
#include "real/cuda/cuda.h"
#include "real/cuda/cuda_device.h"
#include "real/data/samples.h"
#include "real/exec/counting_allocator.h"
#include "real/exec/host_device.h"
#include "real/exec/retained_memory.h"
#include "real/exec/stand_in.h"
#include "real/kernels/workspace.h"
#include "real/launch/rank_environment.h"
#include "real/train/rank_trainer.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

constexpr std::int64_t kFewestSteps = 3, kMostSteps = 20;
constexpr auto kEnough = std::chrono::seconds(2);

std::unique_ptr<Device> make_device(bool on_gpu) {
  if (on_gpu) return make_cuda_device(0);
  return std::make_unique<HostDevice>();
}

std::string gib(Bytes bytes) { return format("%.2f GiB", static_cast<double>(bytes) / kGiB); }

/// The number in a file of the system's; nullopt: there is none ("max", no such file).
std::optional<Bytes> number_in(const std::string& path) {
  std::ifstream in(path);
  Bytes number = 0;
  if (!(in >> number)) return std::nullopt;
  return number;
}

Bytes available_on_host() {
  std::ifstream in("/proc/meminfo");
  Bytes available = 0;
  for (std::string key; in >> key;) {
    if (key == "MemAvailable:") {
      in >> available;
      available *= 1024;
      break;
    }
    in.ignore(1 << 10, '\n');
  }
  // What ranks before have left for the next one's tensors.
  const RetainedMemory retained = retained_memory();
  const Bytes kept = retained.mapped - retained.live;
  const auto limit = number_in("/sys/fs/cgroup/memory.max"),
             used = number_in("/sys/fs/cgroup/memory.current");
  return kept + (limit && used ? std::min(available, *limit - *used) : available);
}

/// The most that the tensors of this process have had since it was made, beyond what they had then.
class PeakWatch {
 public:
  PeakWatch(bool on_gpu, at::Device device) : on_gpu_(on_gpu), device_(device) {
    if (on_gpu_) {
      begin_cuda_peak(device_);
      before_ = peak_cuda_bytes(device_);
    } else {
      count_cpu_allocations();
      begin_cpu_peak();
      before_ = peak_cpu_bytes();
    }
  }
  Bytes peak() const { return (on_gpu_ ? peak_cuda_bytes(device_) : peak_cpu_bytes()) - before_; }

 private:
  bool on_gpu_;
  at::Device device_;
  Bytes before_ = 0;
};

}  // namespace

EmulationNeed emulation_need(const Program& program, std::size_t list, bool on_gpu, int threads) {
  EmulationNeed need;
  const MemoryPeak peak = memory_peaks(program, {})[list];
  need.values = peak.total;
  if (on_gpu) return need;
  need.values += peak.host;
  std::set<SegmentId> segments;
  for (const TraceRow& row : issued_rows(program, program.body[list])) segments.insert(row.segment);
  for (const SegmentId segment : segments) {
    for (const ProgramOp& op : program.segments[segment].ops) {
      if (is_compute(op.stream))
        need.workspace = std::max(need.workspace, workspace_bytes(program, op, threads));
    }
  }
  need.kept = need.used() / 6;  // retained_memory.h
  return need;
}

std::string kernels_word(const Study& study) {
  return study.training.kernels == KernelSet::kCpu ? "cpu" : "cuda";
}

void use_threads(std::optional<std::int64_t> threads, const Study& study, std::int64_t ranks) {
  if (environment_variable("OMP_NUM_THREADS") && !threads) return;
  const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::int64_t sharing = study.cluster.name == kLocalCluster ? ranks : 1;
  at::set_num_threads(
      static_cast<int>(threads.value_or(std::max<std::int64_t>(1, cores / sharing))));
}

void check_memory(const TrainingPlan& plan, std::int64_t rank) {
  const bool on_gpu = plan.prepared.study.training.kernels == KernelSet::kCuda;
  const EmulationNeed need =
      emulation_need(plan.program, list_of(plan.program, rank), on_gpu, at::get_num_threads());
  const Bytes available = available_bytes(on_gpu);
  if (need.total() <= available) return;
  throw PlanError(
      "rank " + std::to_string(rank) + " cannot be emulated on this machine: it needs " +
      gib(need.total()) + " (values " + gib(need.values) + ", workspace of a kernel " +
      gib(need.workspace) + ", blocks kept for the next tensor " + gib(need.kept) + "), of which " +
      gib(available) + " are free: " + gib(need.total() - available) + " too much");
}

Bytes available_bytes(bool on_gpu) {
  return on_gpu ? free_cuda_bytes(at::Device(at::kCUDA, 0)) : available_on_host();
}

EmulatedRank emulate_rank(const TrainingPlan& plan, std::int64_t rank,
                          std::optional<std::int64_t> steps) {
  const Study& study = plan.prepared.study;
  const bool on_gpu = study.training.kernels == KernelSet::kCuda;
  EmulatedRank out;
  out.rank = rank;
  out.recorded.program_digest = plan.digest;
  out.recorded.device = on_gpu ? "cuda" : "cpu";
  out.recorded.cores = std::max(1U, std::thread::hardware_concurrency());
  out.recorded.ranks_on_machine = 1;
  out.recorded.threads_per_rank = at::get_num_threads();
  const std::unique_ptr<Samples> samples = make_samples(study);
  const std::unique_ptr<Device> device = make_device(on_gpu);
  const std::unique_ptr<Transport> transport = make_stand_in_transport(device->where());
  const PeakWatch watch(on_gpu, device->where());
  RankTrainer trainer(plan.program, plan.prepared.model, study, *samples, rank, *device,
                      *transport);
  RankExecutor& executor = trainer.executor();
  trainer.assume_valid();  // sums that come from nowhere are no norms
  out.list = executor.plan().list();
  out.predicted = emulation_need(plan.program, out.list, on_gpu, at::get_num_threads());
  executor.hooks().call_done = [&](std::size_t) {
    out.values_peak = std::max(out.values_peak, executor.values().live_bytes());
  };
  executor.hooks().op = [&](const OpPlan&, bool) {
    out.values_peak = std::max(out.values_peak, executor.values().live_bytes());
  };
  trainer.step();
  executor.hooks() = {};
  executor.record_rows(true);
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t done = 0;; ++done) {
    if (done >= steps.value_or(kMostSteps)) break;
    if (!steps && done >= kFewestSteps && std::chrono::steady_clock::now() - begin > kEnough) break;
    RankTrace rows;
    rows.rank = rank;
    rows.list = out.list;
    rows.rows = trainer.step().rows;
    out.recorded.steps.push_back({trainer.steps_done(), false, {std::move(rows)}});
  }
  out.allocated_peak = watch.peak();
  return out;
}

}  // namespace trainyard
