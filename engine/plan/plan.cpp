#include "engine/plan/plan.h"

namespace trainyard {

ParallelConfig::ParallelConfig() = default;
ParallelConfig::ParallelConfig(const ParallelConfig&) = default;
ParallelConfig::ParallelConfig(ParallelConfig&&) noexcept = default;
ParallelConfig& ParallelConfig::operator=(const ParallelConfig&) = default;
ParallelConfig& ParallelConfig::operator=(ParallelConfig&&) noexcept = default;
ParallelConfig::~ParallelConfig() = default;
bool operator==(const ParallelConfig&, const ParallelConfig&) = default;

Plan::Plan() = default;
Plan::Plan(const Plan&) = default;
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(const Plan&) = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;
bool operator==(const Plan&, const Plan&) = default;

}  // namespace trainyard
