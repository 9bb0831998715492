// Sorts one rank's period into compute, optimizer, exposed communication, host and bubble.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/exec/trace.h"

namespace trainyard {

/// The main stream did nothing between `begin` and `end`; its next op was issued at `issued`.
struct MainGap {
  Seconds begin = 0;
  Seconds end = 0;
  Seconds issued = 0;
};

/// One collective or transfer of this rank between its start and its end.
struct CommunicationSpan {
  Seconds start = 0;
  Seconds end = 0;
  std::int32_t kind = 0;  // index into the names of kinds
};

/// Distributes the gaps over communication (of several at once the one that started first), host and
/// bubble. `spans` need not be sorted.
void classify_gaps(const std::vector<MainGap>& gaps, std::vector<CommunicationSpan> spans,
                   const std::vector<std::string>& kinds, TimeClasses& into);

}  // namespace trainyard
