// Studies drawn at random, each from its seed alone: families, sizes, degrees, schedules, clusters
// of every form. Most can run; some are impossible on purpose, in one place.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard {

/// The study of `seed`, as YAML. The same on every machine.
std::string random_study(std::uint64_t seed);

}  // namespace trainyard
