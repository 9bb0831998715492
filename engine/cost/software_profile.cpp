#include "engine/cost/software_profile.h"

namespace trainyard {

SoftwareProfile::SoftwareProfile() = default;
SoftwareProfile::SoftwareProfile(const SoftwareProfile&) = default;
SoftwareProfile::SoftwareProfile(SoftwareProfile&&) noexcept = default;
SoftwareProfile& SoftwareProfile::operator=(const SoftwareProfile&) = default;
SoftwareProfile& SoftwareProfile::operator=(SoftwareProfile&&) noexcept = default;
SoftwareProfile::~SoftwareProfile() = default;

}  // namespace trainyard
