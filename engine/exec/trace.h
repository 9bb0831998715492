// Who did what from when to when: what an executor answers, and all that a report is made from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/units.h"
#include "engine/cost/cost_model.h"
#include "engine/program/program.h"

namespace trainyard {

struct TraceRow {
  std::int32_t step = 0;
  SegmentId segment = kNoIndex;
  Microbatch mb = -1;
  std::uint32_t op = 0;  // index into the segment
  Seconds issued = 0;    // the host has issued it
  Seconds ready = 0;     // its stream is free, its inputs written, its storage free
  Seconds start = 0;     // all members of a collective are ready
  Seconds end = 0;
};

/// Where one rank's period goes; the parts add up to the period. Each instant is in the first that
/// applies: compute, optimizer, exposed communication, host, bubble.
struct TimeClasses {
  Seconds compute = 0;    // an op outside phase U on the main stream
  Seconds optimizer = 0;  // phase U; and main idle, its host updates
  std::map<std::string, Seconds>
      exposed;         // by kind ("all_reduce:tp"): main idle, this rank communicates
  Seconds host = 0;    // main idle, its next op not issued yet
  Seconds bubble = 0;  // the rest: waiting for a peer too
  Seconds exposed_total() const;
  Seconds total() const;
};

/// Among the kinds of what covers a main stream's idle time: an update by the host.
inline constexpr std::string_view kHostUpdates = "update:host";

/// Adds what of main's idle time something of this kind covers, to where it counts.
void add_covered(TimeClasses& to, const std::string& kind, Seconds seconds);

/// Adds `factor` times every part of `part`.
void add_scaled(TimeClasses& to, const TimeClasses& part, double factor);

/// One rank that stands for `multiplicity` ranks that behave alike (a fold class).
struct RankTrace {
  std::int64_t rank = 0;
  std::int64_t multiplicity = 1;
  std::size_t list = 0;        // index into Program::body
  TimeClasses time;            // of the last period
  Flop executed_flop = 0;      // per step, recompute in
  std::vector<TraceRow> rows;  // of the last step; only if asked for
};

/// What one link, or each of several that are used alike, carried in the last period. A link is one
/// direction.
struct LinkLoad {
  std::string name;               // of the first of them
  std::int64_t multiplicity = 1;  // links that are used alike
  BytesPerSecond capacity = 0;    // nominal
  double bytes = 0;
  double busy_fraction = 0;  // bytes / (capacity x period)
  Seconds shared = 0;        // in which several messages at once were on it, per period
};

struct Trace {
  std::vector<RankTrace> ranks;
  std::vector<Seconds> step_ends;  // latest end of any op of each step
  Seconds period = 0;   // from the end of the last step but one (or the start) to the last end
  bool steady = false;  // two successive periods agreed to 1e-9, and every rank with them
  std::int64_t num_events = 0;       // ops processed, after folding
  std::vector<SourceEntry> sources;  // entries of link profiles that the times rest on
  std::vector<LinkLoad> links;       // the busiest first; executors without a network: empty
};

}  // namespace trainyard
