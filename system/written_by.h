// Which command made the files in a folder, from what: said by a line in one of the files
// themselves.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// A command and the file or folder that it was given: a study, a list of cases, a run.
struct WrittenBy {
  std::string command;  // "simulate"
  std::string input;    // as the user gave it
};

/// Names of what a command writes into its --out; "checkpoints" and "software" are folders. Of one
/// that writes no folder: none.
const std::vector<std::string>& files_of(std::string_view command);

/// `text` with the line in it that read_written_by() finds, for a file in `folder`: behind the
/// first line, as a comment of YAML or as a key of JSON. The input is written relative to the
/// folder, so that both may be moved together.
std::string marked_yaml(const std::string& text, const WrittenBy& by, const std::string& folder);
std::string marked_json(const std::string& text, const WrittenBy& by, const std::string& folder);

/// "export of ../run": what the line says, for files of other forms.
std::string written_by_text(const WrittenBy& by, const std::string& folder);

/// What the files in `folder` say; the input is a path from the folder. nullopt: nothing.
std::optional<WrittenBy> read_written_by(const std::string& folder);

/// Whether `found`, which read_written_by(folder) said, is `by`.
bool same_writer(const WrittenBy& found, const WrittenBy& by, const std::string& folder);

}  // namespace trainyard
