// How uncertain the profiles leave a Program's costs: which entry each kernel's time rests on, and
// costs that are off as the entries may be. Entries without a stated interval count as exact.
//
// Errors are multiplicative and normal in the logarithm. Kernels of one entry are off together (a
// curve is too high or too low as a whole), entries independently of each other, and all measured
// kernels share what the machine as a whole does from run to run (MeasuredKernels::repeatability).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/exec/costs.h"

namespace trainyard {

/// Ops of one kind, per step, mean over the ranks.
struct KindTime {
  std::string kind;  // "linear_dw"
  double count = 0;
  Seconds time = 0;
  double interval = 0;  // half of the time's 90 % interval, over it
};

class CostUncertainty {
 public:
  CostUncertainty(const Program& program, const HardwareProfile& hardware,
                  const SoftwareProfile& software, const Cluster& cluster);

  /// False: no entry that this Program uses states an interval.
  bool any() const { return !entries_.empty(); }
  std::size_t num_entries() const { return entries_.size(); }
  const std::string& entry(std::size_t i) const { return entries_[i]; }

  /// `costs` with every entry off by draws[i] standard deviations. `draws`: num_entries().
  Costs drawn(const Costs& costs, std::span<const double> draws) const;

  /// [entry]: seconds per step, mean over the ranks, by which kernels and launches of the entry are
  /// longer if it is off by a standard deviation. Of links 0: how much they matter is for executors
  /// to say.
  Indexed<std::int32_t, Seconds> stakes(const Program& program, const Costs& costs) const;
  bool is_link(std::size_t entry) const { return entry >= first_link_; }

  /// Half of the 90 % interval of a kernel's time, over it, the machine's part in; 0: exact.
  double interval(SegmentId segment, std::size_t op) const;

  /// The kernels, the longest kind first.
  std::vector<KindTime> kinds(const Program& program, const Costs& costs) const;

 private:
  struct OpUncertainty {
    std::int32_t entry = -1;
    float deviation = 0;  // of ln time
  };
  std::int32_t add_entry(const std::string& name);

  std::vector<std::string> entries_;
  Indexed<SegmentId, std::vector<OpUncertainty>> ops_;  // [op]
  std::int32_t machine_ = -1, launch_ = -1;             // entries
  double machine_deviation_ = 0, launch_deviation_ = 0;
  std::size_t first_link_ = 0;
};

/// Mean number of times, per step and rank, that each segment is called.
Indexed<SegmentId, double> calls_per_rank(const Program& program);

}  // namespace trainyard
