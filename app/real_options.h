// What the commands take that need LibTorch. Both programs read them: `trainyard` to answer what is
// wrong with them, or
// --help, by itself, trainyard-real to do what they say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/units.h"

namespace CLI {
class App;
}

namespace trainyard {

struct TrainOptions {
  std::string study;
  std::vector<std::string> sets;
  std::optional<std::int64_t> ranks;
  std::string device;  // "": the study's
  std::optional<std::int64_t> steps;
  bool resume = false;
  std::optional<std::int64_t> resume_from;  // the step of a checkpoint; unset: the newest
  bool overwrite = false;
  std::string out;      // "": runs/<study name>
  std::string weights;  // "": drawn; a checkpoint, or a folder or file of Hugging Face's
  bool json = false;
};

struct EmulateOptions {
  std::string study;
  std::vector<std::string> sets;
  std::vector<std::int64_t> ranks;
  std::string device;  // "": the study's where this machine has it, else cpu
  std::string
      profile;  // of the device that emulates, where it is not the study's; "": its usual one
  std::optional<std::int64_t> steps;  // recorded ones
  std::optional<std::int64_t> threads;
  std::string out;  // "": write no files
  bool overwrite = false;
  bool json = false;
};

struct MeasureOptions {
  bool pairs = false;  // what every two devices take for a message, instead of a profile
  std::string device;  // cpu or cuda; "", of pairs alone: GPUs where there are two
  std::optional<std::int64_t> ranks;  // of pairs: how many devices
  double minutes = 10;
  std::string out;  // the profile or the pairs; "": out_file()
  std::string out_file() const {
    return !out.empty() ? out : pairs ? "pairs.yaml" : "calibrated.yaml";
  }
  Seconds set_seconds = 0;          // of a process that measures: what its set may take
  std::string stat = "/proc/stat";  // figures of load; tests have their own
  bool json = false;
};

void add_train_options(CLI::App& command, TrainOptions& options);
void add_emulate_options(CLI::App& command, EmulateOptions& options);
void add_measure_options(CLI::App& command,
                         MeasureOptions& options);  // of calibrate --device or --pairs

/// What --overwrite does, of commands that write a folder.
inline constexpr const char* kOverwriteHelp =
    "write into a folder that holds other things: what trainyard wrote there goes";

}  // namespace trainyard
