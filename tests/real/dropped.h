// What dropout leaves, by the kernel and in a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard {

/// A shard of the activations [samples, .., features] of one module.
struct DropoutTrial {
  double rate = 0.25;
  std::string module = "m";
  std::vector<std::int64_t> shape;                   // of the shard
  std::vector<std::int64_t> start = {}, whole = {};  // where it lies; empty: it is the whole
  std::int64_t first_run = 0, second_start = 0;      // of dim 1: ShardPlace; 0: it is one run
  std::int64_t first_sample = 0;
  bool backward = false;
};

/// The kernel's result for ones.
std::vector<double> dropped_ones(const DropoutTrial& trial);

/// The result of one dropout in a run of one rank.
struct DropoutSeen {
  std::string module;
  bool of_attention = false;  // of its probabilities
  int draw = 0;               // of the module's
  bool backward = false;
  std::int64_t step = 0;
  int microbatch = 0;
  std::vector<bool> kept;  // not 0
};

std::vector<DropoutSeen> dropouts_of(const std::string& yaml, const std::vector<std::string>& sets,
                                     int steps);

}  // namespace trainyard
