#include "real/command/calibrate_set.h"

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

#include "calibrate/measure/message_sizes.h"
#include "calibrate/measure/quiet_watch.h"
#include "calibrate/measure/timing_summary.h"
#include "engine/base/error.h"
#include "engine/base/steady_time.h"
#include "real/comm/gloo.h"
#include "real/comm/rendezvous.h"
#include "real/command/probe_run.h"
#include "real/command/probe_studies.h"
#include "real/cuda/cuda_device.h"
#include "real/cuda/nccl.h"
#include "real/exec/host_device.h"
#include "real/launch/rank_threads.h"
#include "real/measure/load_source.h"
#include "real/measure/message_timing.h"
#include "system/files.h"

namespace trainyard {

namespace {

constexpr const char* kNothing = "-";  // the store keeps no empty values
constexpr auto kTimeout = std::chrono::seconds(120);
constexpr std::size_t kFewSizes = 5;  // of a kind of message

class CalibrationRank {
 public:
  CalibrationRank(std::string out, Seconds seconds, const std::string& stat,
                  const RankEnvironment& environment)
      : out_(std::move(out)),
        environment_(environment),
        begin_(steady_time()),
        until_(begin_ + seconds),
        rendezvous_({environment.master_host, environment.master_port, environment.serves_store},
                    kTimeout),
        calibration_(read()),
        set_(calibration_.set_of(environment.world_size)),
        spent_(set_.spent),
        aside_(set_.set_aside.time),
        watch_(load_source(stat, processes())) {
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
    if (environment_.world_size > 1 && agree(needs_messages() ? "messages" : "") == "messages")
      time_messages();
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
    set_.spent = spent_ + steady_time() - begin_ - (set_.set_aside.time - aside_);
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

  /// All that measure, and the process that has started them.
  std::vector<pid_t> processes() {
    std::vector<pid_t> out = {getppid()};
    for (const std::string& process :
         rendezvous_.all_gather("calibrate/processes", environment_.rank, environment_.world_size,
                                std::to_string(getpid())))
      out.push_back(static_cast<pid_t>(std::stol(process)));
    return out;
  }

  /// Whether what was timed since watch_.begin() counts, for rank 0 to say. A GPU's kernels wait
  /// for no core.
  bool was_quiet() { return on_gpu_ || watch_.was_quiet(set_.kept, set_.set_aside); }

  /// Lets others end their work for a while, on rank 0. If they do not, this turn ends.
  void wait_for_quiet() {
    show("waiting for the machine to be quiet");
    constexpr Seconds kPatience = 20;
    loaded_ = !watch_.wait(std::min(steady_time() + kPatience, until_), set_.set_aside);
  }

  std::string choose(const std::vector<Probe>& probes) {
    if (loaded_) return "";
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
      const auto best =
          choose_probe(probes, others, known, {std::max(until_ - steady_time(), kSome)});
      if (best) return probes[*best].name;
    }
    const auto best = choose_probe(probes, set_.probes, known, {until_ - steady_time()});
    return best ? probes[*best].name : "";
  }

  /// Seconds of one fixed GEMM: what the device is worth right now.
  Seconds time_reference() {
    const auto options = at::TensorOptions(at::kFloat).device(device_->where());
    const at::Tensor a = at::ones({384, 384}, options);
    ProgramOp op;
    op.stream = StreamId::kMain;
    std::vector<Seconds> times;
    for (int i = 0; i < 9; ++i) {
      device_->begin_step(0, false);
      const Seconds begin = steady_time();
      device_->launch(op, [&] { at::mm(a, a); });
      device_->end_step([] {});
      times.push_back(steady_time() - begin);
    }
    return summarise_timings(std::move(times)).median;
  }

  void time_probe(const Probe& probe) {
    show(probe.name);
    const CompiledProbe compiled = compiler_.compile(probe);
    watch_.begin();
    const Seconds reference = time_reference();
    ProbeTimings timings = run(compiled);
    const bool repeatable = set_.num_repeated * 5 < static_cast<int>(set_.probes.size());
    const bool disturbed = repeatable && (is_disturbed(set_.references, reference) ||
                                          is_disturbed(set_.references, time_reference()));
    std::string verdict = leads() && !was_quiet() ? "aside" : (disturbed ? "again" : "");
    verdict = agree(verdict);
    if (verdict == "again") {
      watch_.begin();
      timings = run(compiled);
      ++set_.num_repeated;
      verdict = agree(leads() && !was_quiet() ? "aside" : "");
    }
    if (!leads()) return;
    if (verdict == "aside") {
      wait_for_quiet();
      save();
      return;
    }
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
    CurvePoint point{work.form, {work.m, work.n, work.k, work.batch},
                     work.flop, work.bytes,
                     typical,   summary.interval};
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

  /// Whether a kind of message has too few sizes: of rank 0, on the others nothing.
  bool needs_messages() {
    if (!leads()) return false;
    const auto& kinds = message_kinds();
    return std::any_of(kinds.begin(), kinds.end(), [&](const std::string& kind) {
      return set_.messages[kind].size() < kFewSizes && next_size(kind).has_value();
    });
  }

  std::optional<Bytes> next_size(const std::string& kind) {
    constexpr Bytes kLeast = 256, kMost = Bytes{64} << 20;
    return next_message_size(set_.messages[kind], kLeast, kMost);
  }

  /// At most a third of the set's turn, shared among the kinds.
  void time_messages() {
    MessageTimer timer(*device_, *transport_, environment_.rank, environment_.world_size);
    const Seconds each = (until_ - steady_time()) / 3 / static_cast<double>(message_kinds().size());
    watch_.begin();
    for (const std::string& kind : message_kinds()) {
      const Seconds end = steady_time() + each;
      Seconds longest = 0;
      for (;;) {
        std::string next;
        if (leads()) {
          judge_messages(/*last=*/false);
          const auto size = loaded_ ? std::nullopt : next_size(kind);
          if (size && (steady_time() + longest < end || set_.messages[kind].size() < kFewSizes))
            next = std::to_string(*size);
        }
        next = agree(next);
        if (next.empty()) break;
        show(kind + " of " + next + " B");
        const Seconds begin = steady_time();
        const Bytes bytes = std::stoll(next);
        const MessagePoint point = timer.time(kind, bytes, bytes > (Bytes{4} << 20) ? 7 : 15);
        longest = std::max(longest, steady_time() - begin);
        if (!leads()) continue;
        set_.messages[kind].push_back(point);
        unjudged_.push_back(kind);
      }
    }
    if (leads()) judge_messages(/*last=*/true);
    save();
  }

  /// Messages are too short for figures of load, which count in ticks: those of half a second are
  /// kept or set aside together.
  void judge_messages(bool last) {
    if (unjudged_.empty() || (!last && watch_.elapsed() < QuietWatch::kWindow)) return;
    watch_.fill_window();
    const bool quiet = was_quiet();
    if (!quiet) {
      for (const std::string& kind : unjudged_) set_.messages[kind].pop_back();
    }
    unjudged_.clear();
    save();
    if (!quiet) wait_for_quiet();
    watch_.begin();
  }

  void show(const std::string& what) {
    if (!leads() || isatty(STDERR_FILENO) == 0) return;
    const double share =
        std::clamp((steady_time() - begin_) / std::max(until_ - begin_, 1.0), 0.0, 1.0);
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
  Seconds spent_, aside_;  // before this run: on samples, set aside
  QuietWatch watch_;
  bool loaded_ = false;                // others stay at work: this turn is over
  std::vector<std::string> unjudged_;  // kinds of messages whose load is not known yet
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

void calibrate_set(const std::string& out, Seconds seconds, const std::string& stat,
                   const RankEnvironment& environment) {
  CalibrationRank(out, seconds, stat, environment).run();
}

}  // namespace trainyard
