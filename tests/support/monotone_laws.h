// Laws of a given order at fidelity analytic: what is faster, and what is hidden, never makes a
// token slower. Tests check them on some hundred random plans, bench/monotone_plans.cpp on
// thousands.
#pragma once

#include <string>

#include "tests/support/laws_held.h"

namespace trainyard {

/// Checks the laws of one study. What it leaves to cost is decided once, and stays; kernels and
/// communication do not slow each other.
///   link          twice a bandwidth of the cluster, half the latencies of a kind of link. A link
///                 that is slower than a curve takes the call's start-up in (bound_by_links()), and
///                 does not give it back where others on another link hold the message up: where
///                 devices share links, a faster one may make a step 1e-3 longer
///   device        devices that compute 1.25 times as fast; no device slower than the profile says
///                 (but where devices share links: ranks of unlike speed are unlike, and closed
///                 forms count only like messages on a link)
///   overlap       reductions of gradients beside the backward, input gradients' behind weight
///                 gradients, transfers for which no host waits, all with hosts that issue in no
///                 time
///   microbatches  twice as many of the same size (gpipe, 1f1b, interleaved): the time of one
///   stages        2 and 4 virtual stages against 1 (1f1b, interleaved), where links and hosts take
///                 no time
/// Two of them are not theorems, and bench/README.md has the plans that break them: reductions
/// beside the backward come in another order than norms and updates read them, and an LM head that
/// outweighs the layers of its stage keeps interleaved chunks waiting.
LawsHeld check_monotone_laws(const std::string& yaml);

}  // namespace trainyard
