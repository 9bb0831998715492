// Pieces of the Program's text that are read the same wherever they stand. What is not of its form
// is a ConfigError at its place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/program/line_scanner.h"
#include "engine/program/program.h"

namespace trainyard {

/// The most that a count of tokens or samples may be.
inline constexpr std::int64_t kMaxTokens = 1'000'000'000'000;

/// "0-2,4": what is left of the line, or up to the next space.
std::vector<std::int64_t> read_runs(LineScanner& line, std::string_view what);

/// "2048,512": each from 1.
std::vector<std::int64_t> read_numbers(LineScanner& line, std::string_view what);

/// "[96~128?3,4]", added to `dims`.
void read_dims(LineScanner& line, Dims& dims);

/// The part of the next word up to its last `mark`; steps over both.
std::string_view before_last(LineScanner& line, char mark, const std::string& problem);

/// The dims in brackets, and the states behind them, which begin with a capital; steps over them.
std::string_view spec_at(LineScanner& line);

/// The memory that the line goes on to name behind `mark`; the device's is not said.
Space read_space(LineScanner& line, const std::string& mark);

}  // namespace trainyard
