// By which addresses the ranks of a run reach its store and each other. A run listens nowhere else:
// whoever reaches a store or a rank can change what is trained.
#pragma once

#include <optional>
#include <string>

#include "real/launch/rank_environment.h"

namespace trainyard {

struct RunAddresses {
  std::string store;  // where rank 0, or a supervisor, keeps it
  std::string own;    // where this rank listens
};

/// A run on one machine has its loopback. Else the launcher's address of rank 0, and this machine's
/// on the way there, or `own_host` (TRAINYARD_HOST), which also serves where rank 0's name means
/// this machine's loopback. Throws ConfigError where other machines could not reach rank 0,
/// BackendError where a name has no address.
RunAddresses run_addresses(const RankEnvironment& environment,
                           const std::optional<std::string>& own_host);

}  // namespace trainyard
