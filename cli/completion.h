// Completion of words in a shell, from the commands' own options, the topics of `list` and the
// tables of a study's keys.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace trainyard {

/// A script for bash: `source <(trainyard completion bash)`.
std::string bash_completion(const CLI::App& app);

}  // namespace trainyard
