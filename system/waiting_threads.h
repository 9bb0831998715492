// How long OpenMP's threads spin before they sleep, where they wait for work or for each other.
//
// libgomp's own limit is 300,000 looks, some 8 ms. On a machine with other load a thread that is
// waited for may have no core, while the one that waits keeps its own from it: training with two
// threads on two cores then took 50 times as long. It reads its limit when it is loaded, so it has
// to be in the environment before a program with LibTorch begins.
#pragma once

namespace trainyard {

/// Limits it for the programs that this one becomes or starts, unless the user has said how threads
/// wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT). Whether it has.
bool limit_spinning();

}  // namespace trainyard
