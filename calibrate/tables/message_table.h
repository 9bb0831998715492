// Tables of timed messages that others have measured: what nccl-tests prints, and the tables of two
// published simulators (vTrain's and Vidur's).
#pragma once

#include <string>
#include <vector>

#include "calibrate/result/calibration.h"
#include "engine/base/error.h"

namespace trainyard {

/// One kind of message in one group.
struct MessageTable {
  std::string kind;  // all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send
  std::int64_t ranks = 0;
  std::int64_t nodes = 1;            // hosts that they lie on, equally many on each
  std::vector<MessagePoint> points;  // by ascending size, each once: of several rows the median
  SourcePos where;                   // where its first row says a size
};

/// Which of the three a text is, it says itself:
///
///   nccl-tests  "#  Rank  0 ... on HOST device 0", a line "#  size count type ... time algbw
///   busbw"; the kind from
///               "# Collective test starting: all_reduce_perf", else from the file's name; times
///               out of place, in us
///   vTrain      a CSV "size(B),count,type,time(ns),..."; kind and number of GPUs from the file's
///   name (_allreduce_,
///               _8gpu_)
///   Vidur       a CSV with the columns time_stats.KIND.median (ms), num_workers, size, collective,
///   devices_per_node
///
/// Throws ConfigError with file and line for anything else.
std::vector<MessageTable> read_message_tables(const std::string& text, const std::string& file);

}  // namespace trainyard
