// summary.json read back, as far as the report shows it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainyard {

/// What the report takes from a summary.json, of a simulation or of a training run (which "kind"
/// says). What differs from run to run, wall_s, is left out. Throws ConfigError `path:line:column:
/// problem` where `text` is not JSON, `path: key: problem` where a key is missing or of another
/// type.
nlohmann::ordered_json checked_summary(const std::string& text, const std::string& path);

}  // namespace trainyard
