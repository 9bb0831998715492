// All that a calibration has measured, as plain data: what is kept beside --out until it is
// complete, and what the profile is written from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "calibrate/measure/machine_load.h"
#include "engine/base/units.h"
#include "engine/cost/op_curves.h"
#include "engine/graph/kernel_form.h"

namespace trainyard {

struct MessagePoint {
  Bytes bytes = 0;  // as the cost model counts a message: message_bytes()
  Seconds time = 0;
  double interval = 0;  // relative, half of 90 %
};

/// One set of measurements: so many processes worked at the same time.
struct MeasuredSet {
  std::int64_t ranks = 1;
  int threads = 1;                  // of each process; 0: a GPU
  Seconds spent = 0;                // on what was kept
  LoadTally kept, set_aside;        // the machine's load then, and when samples were not kept
  bool complete = false;            // nothing is left that is worth timing
  std::vector<std::string> probes;  // those done, by name
  std::map<KernelForm, std::vector<CurvePoint>> points;
  std::vector<Seconds> launches;    // host time per op, of each probe
  std::vector<Seconds> references;  // of the reference kernel, before each probe
  std::map<std::string, std::vector<MessagePoint>> messages;  // by collective, and "send"
  std::vector<double> compute_slowdowns,
      communication_slowdowns;  // of single ops beside the other sort
  int num_outliers = 0;
  int num_repeated = 0;  // probes made again because the machine was disturbed
};

/// What must be the same for measurements to be put together.
struct CalibrationOrigin {
  std::string device;   // cpu or cuda
  std::string model;    // "Intel(R) Xeon(R) Processor, 2 cores"
  std::string version;  // of the program and LibTorch
  friend bool operator==(const CalibrationOrigin&, const CalibrationOrigin&) = default;
};

struct Calibration {
  CalibrationOrigin origin;
  std::string architecture = "cpu";  // cpu, ampere, hopper, ...
  std::int64_t devices = 1;          // cores or GPUs of this machine
  Bytes memory = 0;                  // of the machine (cpu), of one device (cuda)
  std::string date;                  // ISO, UTC, of the beginning
  std::string command;
  std::vector<MeasuredSet> sets;  // by ascending number of ranks

  MeasuredSet& set_of(std::int64_t ranks);  // made where there is none yet
};

/// Adds a timing of a kernel. A shape that is known already becomes the mean of both, weighted by
/// how well each is known; its interval covers their difference.
void add_point(std::vector<CurvePoint>& points, const CurvePoint& point);

std::string calibration_json(const Calibration& calibration);
/// Throws ConfigError, with `file`, for anything that calibration_json() does not write.
Calibration read_calibration(const std::string& text, const std::string& file);

}  // namespace trainyard
