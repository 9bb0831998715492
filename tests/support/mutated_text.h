// Files as a careless hand or a failing disk leaves them: any text, changed in one to four places.
// For readers that have to take it or refuse it, and do nothing else.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace trainyard {

/// Bytes, tokens (numbers by extreme ones), lines, brackets; at times a piece of `other`. The same
/// on every machine.
std::string mutate_text(std::string text, const std::string& other, std::uint64_t seed);

/// The same of JSON, which it stays: values and members gone, twice, elsewhere, or of another type.
void mutate_json(nlohmann::ordered_json& json, std::uint64_t seed);

}  // namespace trainyard
