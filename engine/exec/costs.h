// What every executor that does not run real kernels needs to know about durations: one table of
// kernel times, host launch times, and the cluster whose links time the rest.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/cost/cost_model.h"
#include "engine/cost/piece_times.h"
#include "engine/exec/channels/lanes.h"
#include "engine/exec/op_work.h"
#include "engine/exec/work_table.h"
#include "engine/program/program.h"
#include "engine/program/shared_segments.h"

namespace trainyard {

struct OpCost {
  Seconds kernel = 0;  // on the device; 0 for communication
  Seconds launch = 0;  // on the host
  Flop flop = 0;
  Bytes bytes = 0;
};

using OpCosts = Indexed<SegmentId, std::vector<OpCost>>;  // [op]

struct Costs {
  // By compute rate of a device (1: as the profile says).
  std::map<double, OpCosts> ops;
  WorkTable works;  // of attention whose work is a symbol, over what `ops` says
  Cluster cluster;
  /// [Lanes::products], or empty: collectives go whole.
  Indexed<ProductId, PieceTimes> pieces;
  double piece_sum = 0;  // seconds per byte: piece_sum_rate()
  /// [Lanes::messages], or empty: measured, in place of the closed forms, on all channels. Such a
  /// message shares no link: what others cost it is in its time.
  Indexed<MessageId, std::optional<Seconds>> messages;
  Slowdown slowdown;           // of kernels and communication side by side
  HostLink host_link;          // HardwareProfile's
  bool host_computes = false;  // HardwareProfile's: the host waits for every kernel
};

/// The costs of one Program after another. Of those that share their segments, on devices of the
/// same name and speeds, only segments with ops that touch `sized` values, or whose work is a
/// symbol, are costed again.
class CostCache {
 public:
  /// Costs of every op of `program` for every speed that a device of the cluster has; valid until
  /// the next call. The profiles are those that the cluster's device and the Program's framework
  /// have, but for what messages to modules take, which the schedule's mode decides.
  const Costs& make(const Program& program, const SharedSegments& shared,
                    const HardwareProfile& hardware, const SoftwareProfile& software,
                    const Cluster& cluster, SourceLog& log);

 private:
  void make_pieces(const Program& program, const HardwareProfile& hardware,
                   const SoftwareProfile& software, SourceLog& log);

  Costs costs_;
  std::vector<SourceEntry> sources_;  // of costs_
  std::uint64_t segments_ = 0;        // SharedSegments::number; 0: none that could be used again
  double request_us_ = 0, metadata_us_ = 0;  // SoftwareProfile's
  Indexed<SegmentId, bool> sized_segments_;  // has such an op
};

/// The same for one Program.
Costs make_costs(const Program& program, const HardwareProfile& hardware,
                 const SoftwareProfile& software, const Cluster& cluster, SourceLog& log);

}  // namespace trainyard
