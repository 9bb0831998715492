// Laws that hold for every plan on every cluster, whatever the numbers: tests check them on some
// hundred random plans, bench/contended_plans.cpp on thousands.
#pragma once

#include <string>

#include "tests/support/laws_held.h"

namespace trainyard {

struct LawsAsked {
  bool step = false;        // at fidelity step too (every rank is simulated)
  bool unfolded = true;     // again with every rank simulated, and op by op, where they are few
  bool capacities = false;  // again with each capacity of the cluster doubled
  bool texts = false;       // again from study.resolved.yaml, and from program.txt
};

/// Checks the laws of one study:
///   plausible   numbers are finite, time classes add up to the period, memory parts to their total
///               (find_implausible())
///   busy        no link carries more than its capacity times the period, where the period has
///               settled (not under nemo, whose profile hides a part of each tensor message behind
///               GEMMs that need not be there)
///   alone       where no link has several messages at once, fluid and step take as long as
///               analytic
///   contention  fluid and step never take less than analytic, nor end a step earlier; step may
///               where an all-reduce is a tree, whose ranks end apart, but not in rings; by less
///               than a thousandth where kernels slow down
///   memory      peaks are equal in all executors
///   rows        keeping rows changes nothing, not even the last bit
///   folded      simulating one rank of each class changes nothing
///   reused      timing every op of every call by itself changes nothing in closed forms
///   capacity    twice the bandwidth of any kind of links is at most kLonger slower, where the
///               Program stays the same
///   texts       study.resolved.yaml has the same answer, program.txt reads back to the same digest
inline constexpr double kLonger = 0.03;
LawsHeld check_laws(const std::string& yaml, const LawsAsked& asked);

}  // namespace trainyard
