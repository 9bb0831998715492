#include "engine/cluster/cluster.h"

namespace trainyard {

Cluster::Cluster() = default;
Cluster::Cluster(const Cluster&) = default;
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(const Cluster&) = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;
Cluster::~Cluster() = default;

}  // namespace trainyard
