// A study: everything one YAML file says, as plain structs. Its plan (plan.h) is what a Program is
// compiled from.
//
// The reader (study_reader.h) fills every field and remembers where each value came from, so that
// study.resolved.yaml can say it and a cross-field check can point at the line.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/cluster/cluster.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// Where a value of the study came from; study.resolved.yaml prints it beside the value.
struct Origin {
  enum class Kind : std::uint8_t { kStudy, kSet, kPreset, kFile, kDefault, kDerived };
  Kind kind = Kind::kDefault;
  SourcePos pos;     // kStudy, kPreset, kFile: the line
  std::string note;  // kDefault, kDerived: the rule; kSet: the option as typed
};

struct DataConfig {
  std::string path = "generated";  // a file or folder, or: generated | synthetic
  std::string kind;                // tokens | images | tensors; empty: the imported model says it
  std::string format = "text";     // of tokens: megatron | u16 | u32 | text
  bool shuffle = true;
  std::vector<double> mean = {0}, std = {1};  // of pixels as x / 255: of all channels, or of each
};

struct CheckpointConfig {
  std::int64_t every = 100;  // steps
  std::int64_t keep = 2;
};

/// By what planners of stages weigh ops.
struct TimesOfOps {
  bool emulated = false;  // measured on a device by `emulate`; else by the cost model
  std::string file;       // that holds them; empty: they are to be measured
};

struct Study : Plan {
  // Compiled once, in study.cpp: hundreds of files copy, move and destroy it.
  Study();
  Study(const Study&);
  Study(Study&&) noexcept;
  Study& operator=(const Study&);
  Study& operator=(Study&&) noexcept;
  ~Study();

  std::string file;
  Cluster cluster;
  double price = 0;  // per device and hour, in the user's currency; 0: not said
  DataConfig data;
  CheckpointConfig checkpoint;
  std::string fidelity = "fluid";  // analytic | fluid | step
  TimesOfOps times_of_ops;         // of partition.times

  std::vector<std::string> warnings;
  std::vector<std::string> planned;       // what a planner of whole pipelines found, a line each
  std::map<std::string, Origin> origins;  // by key path, e.g. "parallel.pipeline"
};

}  // namespace trainyard
