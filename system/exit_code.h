// Exit codes: 0 done, 2 the input is wrong, 3 a backend failed, 4 the plan cannot run; 130 and 143
// by SIGINT and SIGTERM.
#pragma once

namespace trainyard {

inline constexpr int kDone = 0;
inline constexpr int kWrongInput = 2;
inline constexpr int kBackendFailed = 3;
inline constexpr int kCannotRun = 4;
inline constexpr int kNeedsReal =
    75;  // to the launcher alone: trainyard-real has to be there to answer this

}  // namespace trainyard
