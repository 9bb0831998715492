// Costs as a device measured them, in place of those of the cost model: per instruction of the
// Program, the mean over the middle steps (run_measurement.h) and over the ranks and microbatches
// that ran it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/validate/run_measurement.h"
#include "engine/exec/channels/lanes.h"
#include "engine/exec/costs.h"
#include "engine/exec/times/meetings.h"

namespace trainyard {

/// nullopt: not measured.
struct MeasuredCosts {
  using PerOp = Indexed<SegmentId, std::vector<std::optional<Seconds>>>;  // [op]
  PerOp kernel;  // of main's ops; none of frees
  /// Host's time before an op, without waiting. Where the host computes itself (a CPU): what main
  /// loses between its op before and this one, frees in; else the launch.
  PerOp host;
  Indexed<MessageId, std::optional<Seconds>> message;  // from when all members are ready
  bool host_computes = true;
};

/// `messages` false: the ranks had no peers, so that what they communicated says nothing.
MeasuredCosts measure_costs(const Program& program, const Lanes& lanes, const RunMeasurement& run,
                            bool messages);

/// Adds what `more` measured, of another rank of the same Program; it wins.
void add_measured(MeasuredCosts& to, const MeasuredCosts& more);

/// Also for ops that were not measured: the mean of those that do the same to values of the same
/// shapes and types, as the layers of other stages do; else, for a kind of op that was measured at
/// other shapes, its `predicted` [segment][op] time, times what the measured ones took against
/// theirs. Messages stay as they are.
MeasuredCosts spread_to_like_ops(const Program& program, MeasuredCosts measured,
                                 const OpCosts& predicted);

/// What the ops of a report's rows are called: "linear_dw"; "all_reduce:tp" and "send:pp" for both
/// ends of what is communicated; kHostKind for frees.
std::string cost_kind(const Program& program, const Lanes& lanes,
                      const Numbered<std::string>& exposed, SegmentId segment, std::uint32_t op);
inline constexpr std::string_view kHostKind = "host";

/// Host times of one rank's rows (MeasuredCosts::host), [row]; ops of other streams on a CPU: 0,
/// main has them.
std::vector<Seconds> host_times(const Program& program, const std::vector<TraceRow>& rows,
                                bool host_computes);

/// `costs` of `program` with what was measured of the kinds that `chosen` says yes to. Everything
/// measured applies to devices of all speeds.
Costs replace_costs(Costs costs, const Program& program, const MeasuredCosts& measured,
                    const std::function<bool(const std::string& kind)>& chosen);

}  // namespace trainyard
