// Text by printf's patterns, checked by the compiler.
#pragma once

#include <string>

namespace trainyard {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

}  // namespace trainyard
