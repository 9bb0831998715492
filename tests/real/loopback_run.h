// A training run with all its ranks in this process, a thread each.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/exec/trace.h"
#include "engine/program/program.h"
#include "tests/support/studies.h"

namespace trainyard {

class Device;
class RankExecutor;
class RankTrainer;
class Transport;

struct LoopbackRun {
  std::vector<double> losses;  // per step
  std::vector<double> gradient_norms, learning_rates, loss_scales;
  std::vector<std::int64_t> repeated;                    // runs that were void, of every rank
  std::map<std::string, std::vector<double>> gradients;  // of the first step, by weight, whole
  std::map<std::string, std::vector<double>>
      weights;  // after the last step, as they are computed with
  std::map<std::string, std::vector<double>>
      masters;  // after the last step; empty: weights are updated themselves
  std::vector<std::vector<TraceRow>> rows;  // [rank], of the last step, if asked for
  Program program;
};

struct LoopbackOptions {
  int steps = 1;  // 0: `weights` are the initial ones
  bool record_rows = false;
  bool over_gloo =
      false;  // the ranks talk through Gloo and this machine's network instead of in memory
  /// Standard deviation of noise that every initial weight gets, of whatever layout: no bias is 0
  /// then, no norm's weight 1, and what attention learns is not small beside the rest.
  float noise = 0;
  /// Kernels as on a GPU: none may look at a number.
  bool deferred = false;
  /// One rank only: bytes allocated, and bytes of live values of the Program, after each call.
  std::function<void(const Call&, std::int64_t allocated, std::int64_t live)> watch_memory = {};
  /// After each op of a main stream, frees apart: the most it has allocated beyond its results.
  /// Called by one rank at a time.
  std::function<void(const Program&, const ProgramOp&, std::int64_t)> watch_ops = {};
  int threads = 1;                           // of each rank, inside an op
  std::function<void(Program&)> plant = {};  // changes the Program before it runs
  bool gpu = false;                          // one rank only: on this machine's first
  /// Put between a rank and its device and transport, or in their place.
  std::function<std::unique_ptr<Device>(std::int64_t rank, std::unique_ptr<Device>)> device = {};
  std::function<std::unique_ptr<Transport>(std::int64_t rank, std::unique_ptr<Transport>)>
      transport = {};
  std::function<void(std::int64_t rank, RankExecutor&)> ready = {};  // before the first step
  std::function<void(std::int64_t rank, RankTrainer&)> between_steps =
      {};  // before each and behind the last
};

/// Trains the study; `sets` as --set. Throws what a rank throws.
LoopbackRun run_loopback(const std::string& yaml, const std::vector<std::string>& sets,
                         const LoopbackOptions& options);

}  // namespace trainyard
