// Clusters drawn at random, as the text of a study's `cluster:`.
#pragma once

#include <cstdint>
#include <string>

#include "tests/support/random_draws.h"

namespace trainyard {

struct ClusterAsked {
  std::int64_t devices = 1;
  bool in_8_bits = false;  // of those that multiply so, which few do
  bool buffers = false;    // for transfers: hosts and networks that matter to them
};

/// `transfers`: draws of what buffers alone ask for.
std::string random_cluster(const ClusterAsked& of, RandomDraws& random, RandomDraws& transfers);

}  // namespace trainyard
