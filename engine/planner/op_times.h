// Times of kernels as a device measured them, in place of the cost model's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/units.h"
#include "engine/passes/training_graph.h"
#include "engine/program/program.h"

namespace trainyard {

/// What decides how long a kernel takes: "linear_dw{bias} fp32[8,64] fp32[8,128] -> fp32[64,128]".
/// Of an instruction of a graph and of the op that a Program has of it the same.
std::string kernel_text(const TrainingGraph& training, const Instruction& op);
std::string kernel_text(const Program& program, const ProgramOp& op);

class OpTimes {
 public:
  /// One measurement; the time of a kernel is the mean of all.
  void add(const std::string& kernel, Seconds time);
  std::optional<Seconds> find(const std::string& kernel) const;
  std::map<std::string, Seconds> all() const;
  bool empty() const { return sums_.empty(); }

 private:
  std::map<std::string, std::pair<Seconds, double>> sums_;  // seconds, how often
};

}  // namespace trainyard
