// The words of the Program's text form, shared by writer and parser.
#pragma once

#include <array>
#include <string_view>

#include "engine/program/program.h"

namespace trainyard::program_words {

inline constexpr std::array<std::string_view, 4> kScopes = {"persistent", "step", "mb", "local"};
inline constexpr std::array<std::string_view, 5> kMemory = {"parameter", "gradient", "state",
                                                            "activation", "buffer"};
inline constexpr std::array<std::string_view, kNumStreams> kStreams = {"main", "tp", "fwd",
                                                                       "bwd",  "dp", "norm"};
inline constexpr std::array<std::string_view, 2> kSlots = {"[m]", "[n]"};

}  // namespace trainyard::program_words
