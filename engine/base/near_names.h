// Names that people write in several ways, and names that they miss by a little.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// The same but for the case of letters, '-' and '_': 1F1B, dualpipe_v and DualPipeV, zb_h1.
bool same_name(std::string_view a, std::string_view b);

/// The entry of `known` that `name` is, or is by same_name() where no other is; "": none.
std::string known_name(std::string_view name, std::span<const std::string> known);

/// At most three of `known`: those that begin with it or with which it begins (dualpipe:
/// dualpipe-v), then those that differ in at most a third of the longer name, by how many
/// characters have to be inserted, left out, replaced or exchanged with the next.
std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> known);

/// For a message: " (did you mean a, b or c?)"; "": no names.
std::string did_you_mean(std::span<const std::string> names);

/// The same of nearest_names().
std::string did_you_mean(std::string_view name, std::span<const std::string> known);

}  // namespace trainyard
