// What tests of executors compare with times that were worked out by hand.
#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "tests/support/timing.h"

namespace trainyard {

/// Equal but for rounding: times here are sums of a few whole numbers of seconds.
inline Approx exactly(double value) { return Approx(value).epsilon(1e-9).margin(1e-12); }

using Exposed = std::map<std::string, Seconds>;

void check_time(const RankTrace& rank, Seconds compute, Seconds optimizer, const Exposed& exposed,
                Seconds host, Seconds bubble);

/// The first lines of a Program's text.
std::string mesh_text(int pp, int dp, int tp, int microbatches);

}  // namespace trainyard
