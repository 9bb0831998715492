// How old what a rank's heartbeats say is, at worst.
#pragma once

#include <chrono>

namespace trainyard {

/// Reads the heartbeats of a rank that moves on all the time, again and again for `duration`. The
/// greatest age of what was read, in seconds; -1: nothing came.
double oldest_beat(std::chrono::milliseconds duration);

}  // namespace trainyard
