// Patterns of weights' names, in which a * is a layer's number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trainyard {

/// The name that `pattern` says for `name`, which has to fit `from`: both may be whole names, or
/// modules to which .weight and .bias are added. Where `pattern` has two *, they are the stage, of
/// those that have so many layers as `stages` says, and the number in it. nullopt: it does not fit.
std::optional<std::string> renamed(std::string_view from, std::string_view pattern,
                                   const std::string& name, std::span<const std::int64_t> stages);

/// `name` with a * for each number that stands between dots.
std::string pattern_of(std::string_view name);

}  // namespace trainyard
