// Output files appear whole or not at all.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace trainyard {

/// The whole file. Throws ConfigError, "PATH: reason".
std::string read_file(const std::string& path);

/// By a DraftFile. Throws BackendError. Several files of one folder: OutputFolder.
void write_file(const std::string& path,
                const std::function<void(const std::function<void(std::string_view)>&)>& produce);
void write_file(const std::string& path, std::string_view text);

}  // namespace trainyard
