// What calls bind symbols of work to (program/attended_pairs.h), as times: by how much a kernel
// takes longer in a microbatch, on a rank, than its cost says, which is that of the mean.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "engine/base/units.h"
#include "engine/graph/kernel_work.h"
#include "engine/program/program.h"

namespace trainyard {

/// Over what the op's cost says; 1: as much.
struct WorkValue {
  double time = 1, flop = 1;
  friend bool operator==(const WorkValue&, const WorkValue&) = default;
};

struct WorkTable {
  std::int32_t num_symbols = 0;                         // ops that work alike share one
  Indexed<SegmentId, std::vector<std::int32_t>> of_op;  // [op]: its symbol, -1; empty: none has one
  Indexed<std::int64_t, std::int32_t> row;              // [rank]; empty: there are no symbols
  /// By compute rate of a device: [row][microbatch x num_symbols + symbol]. Ranks that do the same
  /// in all microbatches share a row.
  std::map<double, std::vector<std::vector<WorkValue>>> values;

  std::int32_t symbol(SegmentId segment, std::size_t op) const {
    return num_symbols == 0 || of_op[segment].empty() ? -1 : of_op[segment][op];
  }
};

/// Time of a kernel on a device of this compute rate.
using KernelTime = std::function<Seconds(const KernelWork& work, double speed)>;

/// In step 0, whose samples every simulated step has.
WorkTable make_work_table(const Program& program, std::span<const double> speeds,
                          const KernelTime& time);

}  // namespace trainyard
