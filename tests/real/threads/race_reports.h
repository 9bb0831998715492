// Races that ThreadSanitizer has seen in this process. 0 where the build has no sanitizer.
#pragma once

namespace trainyard {

#ifdef __SANITIZE_THREAD__
inline constexpr bool kSeesRaces = true;
#else
inline constexpr bool kSeesRaces = false;
#endif

int num_race_reports();

}  // namespace trainyard
