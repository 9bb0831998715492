#include "real/calibrate/calibrate_set.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "cli/files.h"
#include "engine/base/error.h"
#include "engine/calibrate/message_sizes.h"
#include "engine/calibrate/timing_summary.h"
#include "real/calibrate/message_timing.h"
#include "real/calibrate/probe_run.h"
#include "real/calibrate/probe_studies.h"
#include "real/comm/gloo.h"
#include "real/comm/rendezvous.h"
#include "real/cuda/cuda_device.h"
#include "real/cuda/nccl.h"
#include "real/exec/host_device.h"
#include "real/launch/rank_threads.h"

namespace trainyard {

namespace {

constexpr const char* kNothing = "-";  // the store keeps no empty values
constexpr auto kTimeout = std::chrono::seconds(120);

Seconds now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class SetRun {
 public:
  SetRun(std::string out, Seconds seconds, const RankEnvironment& environment)
      : out_(std::move(out)),
        environment_(environment),
        begin_(now()),
        until_(begin_ + seconds),
        rendezvous_({environment.master_host, environment.master_port, environment.serves_store},
                    kTimeout),
        calibration_(read()),
        set_(calibration_.set_of(environment.world_size)),
        spent_(set_.spent) {
    on_gpu_ = calibration_.origin.device == "cuda";
    set_.threads = on_gpu_ ? 0 : threads_per_rank(environment);
    if (on_gpu_)
      device_ = make_cuda_device(static_cast<int>(environment.local_rank));
    else
      device_ = std::make_unique<HostDevice>();
    transport_ = on_gpu_
                     ? make_nccl_transport(rendezvous_, device_->where().index(), kTimeout)
                     : make_gloo_transport(rendezvous_, environment.rank, "127.0.0.1", kTimeout);
  }

  void run() {
    if (environment_.world_size > 1 && set_.probes.empty()) time_messages();
    std::vector<Probe> probes = probe_studies(calibration_.origin.device, environment_.world_size);
    if (leads()) {
      for (Probe& probe : probes) probe.kernels = kernels_of(compiler_.compile(probe).program);
    }
    for (;;) {
      const std::string next = agree(leads() ? choose(probes) : "");
      if (next.empty()) break;
      const auto probe = std::find_if(probes.begin(), probes.end(),
                                      [&](const Probe& p) { return p.name == next; });
      check(probe != probes.end(), "all ranks have the same probes");
      time_probe(*probe);
    }
    if (leads()) {
      const KnownKernels known(set_.points);
      constexpr Seconds kAnyTime = 1e9;
      set_.complete = !choose_probe(probes, set_.probes, known, {kAnyTime});
    }
    save();
    show("done");
  }

 private:
  bool leads() const { return environment_.rank == 0; }

  Calibration read() const {
    std::ifstream file(partial_file(out_), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return read_calibration(text, partial_file(out_));
  }

  void save() {
    if (!leads()) return;
    set_.spent = spent_ + now() - begin_;
    write_file(partial_file(out_), calibration_json(calibration_));
  }

  /// What rank 0 says, on all ranks.
  std::string agree(const std::string& own) {
    if (environment_.world_size == 1) return own;
    const std::string key = "calibrate/" + std::to_string(++num_agreed_);
    if (leads()) rendezvous_.set(key, own.empty() ? kNothing : own);
    const std::string said = leads() ? own : rendezvous_.get(key);
    return said == kNothing ? "" : said;
  }

  std::string choose(const std::vector<Probe>& probes) {
    const auto done = [&](const std::string& part) {
      return std::any_of(set_.probes.begin(), set_.probes.end(), [&](const std::string& name) {
        return name.find(part) != std::string::npos;
      });
    };
    if (environment_.world_size > 1 && !done(kOverlapProbe)) return kOverlapProbe;
    const KnownKernels known(set_.points);
    // A profile without a type refuses its studies: one probe of each comes first, whatever is
    // left.
    for (const std::string type : {" fp32", " bf16"}) {
      if (done(type)) continue;
      std::vector<std::string> others;
      for (const Probe& probe : probes) {
        if (probe.name.find(type) == std::string::npos) others.push_back(probe.name);
      }
      constexpr Seconds kSome = 30;
      const auto best = choose_probe(probes, others, known, {std::max(until_ - now(), kSome)});
      if (best) return probes[*best].name;
    }
    const auto best = choose_probe(probes, set_.probes, known, {until_ - now()});
    return best ? probes[*best].name : "";
  }

  /// Seconds of one fixed product: what the device is worth right now.
  Seconds time_reference() {
    const auto options = at::TensorOptions(at::kFloat).device(device_->where());
    const at::Tensor a = at::ones({384, 384}, options);
    ProgramOp op;
    op.stream = StreamId::kMain;
    std::vector<Seconds> times;
    for (int i = 0; i < 9; ++i) {
      device_->begin_step(0, false);
      const Seconds begin = now();
      device_->launch(op, [&] { at::mm(a, a); });
      device_->end_step([] {});
      times.push_back(now() - begin);
    }
    return summarise_timings(std::move(times)).median;
  }

  void time_probe(const Probe& probe) {
    show(probe.name);
    const CompiledProbe compiled = compiler_.compile(probe);
    const Seconds reference = time_reference();
    ProbeTimings timings = run(compiled);
    const bool repeatable = set_.num_repeated * 5 < static_cast<int>(set_.probes.size());
    const bool disturbed = repeatable && (is_disturbed(set_.references, reference) ||
                                          is_disturbed(set_.references, time_reference()));
    if (agree(disturbed ? "again" : "") == "again") {
      timings = run(compiled);
      ++set_.num_repeated;
    }
    if (!leads()) return;
    set_.references.push_back(reference);
    set_.probes.push_back(probe.name);
    add(timings);
    save();
  }

  ProbeTimings run(const CompiledProbe& compiled) {
    // A group's name serves once.
    const auto transport = prefixed(*transport_, std::to_string(++num_runs_) + ".");
    return run_probe(compiled, environment_.rank, *device_, *transport,
                     [this](Seconds warm_up, const std::vector<Seconds>& timed) {
                       return std::stoi(agree(std::to_string(more_steps(warm_up, timed))));
                     });
  }

  void add(const ProbeTimings& timings) {
    for (const ProbeTimings::Kernel& kernel : timings.kernels) {
      constexpr std::size_t kEnough = 3;
      if (kernel.alone.size() >= kEnough) add_kernel(kernel, timings.typical(kernel));
      if (kernel.alone.size() < kEnough || kernel.covered.size() < kEnough) continue;
      const Seconds alone = summarise_timings(kernel.alone).median,
                    covered = summarise_timings(kernel.covered).median;
      if (alone > 20e-6) set_.compute_slowdowns.push_back(covered / alone);
    }
    if (!timings.launches.empty())
      set_.launches.push_back(summarise_timings(timings.launches).median);
    for (const CoveredMessage& message : timings.messages) {
      if (const auto alone = message_time(message))
        set_.communication_slowdowns.push_back(message.time / *alone);
    }
  }

  void add_kernel(const ProbeTimings::Kernel& kernel, Seconds typical) {
    const TimingSummary summary = summarise_timings(kernel.alone);
    set_.num_outliers += summary.num_outliers;
    const KernelWork& work = kernel.work;
    CurvePoint point{work.form,
                     {work.m, work.n, work.k, work.batch},
                     work.flop,
                     work.bytes,
                     typical,
                     summary.interval};
    if (point.time > 0) add_point(set_.points[work.form], point);
  }

  /// As timed with nothing beside it, between the nearest sizes; nullopt: of another kind, or
  /// beyond them.
  std::optional<Seconds> message_time(const CoveredMessage& message) const {
    const auto known = set_.messages.find(std::string(to_string(message.kind)));
    if (known == set_.messages.end()) return std::nullopt;
    const MessagePoint *below = nullptr, *above = nullptr;
    for (const MessagePoint& point : known->second) {
      if (point.bytes <= message.bytes && (below == nullptr || point.bytes > below->bytes))
        below = &point;
      if (point.bytes >= message.bytes && (above == nullptr || point.bytes < above->bytes))
        above = &point;
    }
    if (below == nullptr || above == nullptr) return std::nullopt;
    if (below == above) return below->time;
    const double share =
        std::log(static_cast<double>(message.bytes) / static_cast<double>(below->bytes)) /
        std::log(static_cast<double>(above->bytes) / static_cast<double>(below->bytes));
    return below->time * std::pow(above->time / below->time, share);
  }

  /// At most a third of the set's first turn, shared among the kinds.
  void time_messages() {
    MessageTimer timer(*device_, *transport_, environment_.rank, environment_.world_size);
    constexpr Bytes kLeast = 256, kMost = Bytes{64} << 20;
    const Seconds each = (until_ - now()) / 3 / static_cast<double>(message_kinds().size());
    for (const std::string& kind : message_kinds()) {
      const Seconds end = now() + each;
      Seconds longest = 0;
      for (;;) {
        std::string next;
        if (leads()) {
          const auto size = next_message_size(set_.messages[kind], kLeast, kMost);
          if (size && (now() + longest < end || set_.messages[kind].size() < 5))
            next = std::to_string(*size);
        }
        next = agree(next);
        if (next.empty()) break;
        show(kind + " of " + next + " B");
        const Seconds begin = now();
        const Bytes bytes = std::stoll(next);
        const MessagePoint point = timer.time(kind, bytes, bytes > (Bytes{4} << 20) ? 7 : 15);
        longest = std::max(longest, now() - begin);
        if (leads()) set_.messages[kind].push_back(point);
      }
      save();
    }
  }

  void show(const std::string& what) {
    if (!leads() || isatty(STDERR_FILENO) == 0) return;
    const double share = std::clamp((now() - begin_) / std::max(until_ - begin_, 1.0), 0.0, 1.0);
    const int filled = what == "done" ? 30 : static_cast<int>(30 * share);
    std::fprintf(stderr, "\r%lld at work [%.*s%.*s] %-44.44s%s",
                 static_cast<long long>(environment_.world_size), filled,
                 "##############################", 30 - filled, "..............................",
                 what.c_str(), what == "done" ? "\n" : "");
    std::fflush(stderr);
  }

  std::string out_;
  ProbeCompiler compiler_;
  const RankEnvironment& environment_;
  Seconds begin_, until_;
  Rendezvous rendezvous_;
  Calibration calibration_;
  MeasuredSet& set_;
  Seconds spent_;  // before this run
  bool on_gpu_ = false;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Transport> transport_;
  int num_agreed_ = 0, num_runs_ = 0;
};

}  // namespace

std::string partial_file(const std::string& out) { return out + ".partial"; }

Calibration resume_calibration(const std::string& out, Calibration fresh) {
  const std::string path = partial_file(out);
  if (!std::filesystem::exists(path)) return fresh;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Calibration found = read_calibration(text, path);
  if (found.origin == fresh.origin) return found;
  const auto words = [](const CalibrationOrigin& origin) {
    return origin.device + " (" + origin.model + "; " + origin.version + ")";
  };
  throw ConfigError(path + ": measurements of " + words(found.origin) + ", this is " +
                    words(fresh.origin) + "; remove the file to begin again");
}

void calibrate_set(const std::string& out, Seconds seconds, const RankEnvironment& environment) {
  SetRun(out, seconds, environment).run();
}

}  // namespace trainyard
