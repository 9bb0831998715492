#include "real/command/calibrate_command.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "calibrate/measure/quiet_time.h"
#include "calibrate/measure/quiet_watch.h"
#include "calibrate/measure/turns.h"
#include "calibrate/result/calibration_page.h"
#include "calibrate/result/profile_text.h"
#include "engine/base/error.h"
#include "real/command/calibrate_pairs.h"
#include "real/command/calibrate_set.h"
#include "real/exec/retained_memory.h"
#include "real/launch/local_launcher.h"
#include "real/launch/rank_environment.h"
#include "real/launch/rank_threads.h"
#include "real/measure/load_source.h"
#include "real/measure/machine.h"
#include "real/torch.h"
#include "system/exit_code.h"
#include "system/files.h"
#include "system/interrupt.h"
#include "system/output_folder.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

/// Processes at work at the same time, from one to a device each.
std::vector<std::int64_t> set_sizes(std::int64_t devices) {
  constexpr std::int64_t kMost = 8;
  std::vector<std::int64_t> sizes;
  for (std::int64_t ranks = 1; ranks <= std::min(devices, kMost); ranks *= 2)
    sizes.push_back(ranks);
  return sizes;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text = "trainyard";
  for (std::size_t i = 1; i < words.size(); ++i) text += " " + words[i];
  return text;
}

int measure_set(const MeasureOptions& options, const RankEnvironment& environment) {
  retain_cpu_memory();
  at::set_num_threads(threads_per_rank(environment));
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  calibrate_set(options.out_file(), options.set_seconds, options.stat, environment);
  return kDone;
}

void write_results(const MeasureOptions& options, const Calibration& calibration) {
  write_file(options.out_file(), profile_text(calibration));
  const std::string page = fs::path(options.out_file()).replace_extension(".html").string();
  write_file(page, calibration_page(calibration, fs::path(options.out_file()).stem().string()));
  if (options.json)
    print_answer(calibration_summary_json(calibration, options.out_file(), page));
  else
    print_text(calibration_summary(calibration, options.out_file(), page));
}

/// The turns of one start, up to its time.
class Measurement {
 public:
  Measurement(const MeasureOptions& options, std::vector<std::string> arguments)
      : options_(options),
        arguments_(std::move(arguments)),
        asked_(options.minutes * 60),
        fresh_(begin_calibration(options.device, joined(arguments_))),
        calibration_(resume_calibration(options.out_file(), fresh_)),
        before_(calibration_),
        sizes_(set_sizes(calibration_.devices)) {}

  /// What the turn that failed, or was ended by a signal, has ended with; `kept` is what a signal
  /// leaves.
  RunEnd run(const std::string& kept) {
    write_file(partial_file(options_.out_file()), calibration_json(calibration_));
    keeps(kept);
    Turns turns(sizes_, asked_);
    while (auto turn = turns.next(calibration_)) {
      constexpr Seconds kShortest = 1;
      const Seconds left = begin_ + asked_ - watch_.now();
      if (left < kShortest || !quiet()) break;
      turn->seconds = std::min(turn->seconds, left);
      const RunEnd end = take(*turn);
      if (end.exit != 0) return end;
      if (end.out_of_time) break;
    }
    return {};
  }

  const Calibration& calibration() const { return calibration_; }

  /// Why there can be no profile yet.
  std::optional<std::string> too_few() const {
    return too_few_quiet_samples(before_, calibration_, sizes_, waited_,
                                 static_cast<int>(calibration_.devices), asked_);
  }

 private:
  /// Before a turn, whose processes take seconds to start; false: not in time.
  bool quiet() {
    return options_.device != "cpu" || watch_.wait(begin_ + asked_, waited_, [] { return false; });
  }

  RunEnd take(const Turn& turn) {
    write_file(partial_file(options_.out_file()), calibration_json(calibration_));
    std::vector<std::string> words = arguments_;
    words.push_back("--set-seconds=" + std::to_string(turn.seconds));
    // The rest of what the command may take is for the profile and its page.
    constexpr double kOver = 1.05;
    constexpr Seconds kMore = 3;
    const auto until = std::chrono::duration<double>(begin_ + kOver * asked_ + kMore);
    const RunEnd end = run_local_ranks(
        words, turn.ranks,
        std::chrono::steady_clock::time_point(
            std::chrono::duration_cast<std::chrono::steady_clock::duration>(until)));
    if (end.exit == 0) calibration_ = resume_calibration(options_.out_file(), fresh_);
    return end;
  }

  const MeasureOptions& options_;
  std::vector<std::string> arguments_;
  QuietWatch watch_{load_source(options_.stat, {getpid()})};
  Seconds begin_ = watch_.now(), asked_;
  Calibration fresh_, calibration_, before_;
  std::vector<std::int64_t> sizes_;
  LoadTally waited_;  // for the machine to be quiet
};

}  // namespace

int run_measure(const MeasureOptions& options, const std::vector<std::string>& arguments) {
  const std::optional<RankEnvironment> environment = read_rank_environment(environment_variable);
  if (environment) {
    if (environment->launcher != kOwnLauncher) {
      throw ConfigError("calibrate starts its own processes; run it without " +
                        environment->launcher);
    }
    if (!options.pairs) return measure_set(options, *environment);
  }
  if (!options.out_file().ends_with(".yaml"))
    throw ConfigError("--out: expected the name of a .yaml file, got '" + options.out + "'");
  if (options.pairs) return run_pairs(options, arguments, environment);
  if (options.device.empty()) throw ConfigError("--device: expected cpu or cuda");
  const LockedFile file(options.out_file());
  if (fs::exists(options.out_file()) && !fs::exists(partial_file(options.out_file()))) {
    throw ConfigError("--out: " + options.out_file() +
                      " is there already; name another file, or remove it");
  }
  Measurement measurement(options, arguments);
  const std::string kept = "what was measured is kept in " + partial_file(options.out_file()) +
                           "; the same command goes on from there";
  if (const RunEnd end = measurement.run(kept); end.exit != 0) {
    file.remove_drafts();
    if (end.signal != 0) return ended_by_signal(end.signal);
    say(kept);
    return end.exit;
  }
  if (const auto reason = measurement.too_few()) throw BackendError(*reason + "; " + kept);
  write_results(options, measurement.calibration());
  fs::remove(partial_file(options.out_file()));
  return kDone;
}

}  // namespace trainyard
