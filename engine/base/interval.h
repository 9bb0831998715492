// Intervals as profiles state them: half of a 90 % interval, over the figure.
#pragma once

namespace trainyard {

inline constexpr double kSigmasOfInterval =
    1.645;  // standard deviations in half of a normal distribution's 90 %

}  // namespace trainyard
