#include "models/onnx/module_path.h"

#include <boost/container/small_vector.hpp>

namespace trainyard {

namespace {

using Parts = boost::container::small_vector<std::string_view, 12>;

Parts parts_of(std::string_view text) {
  Parts parts;
  while (!text.empty()) {
    const std::size_t end = text.find('/');
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

/// Each scope is "path: class"; the last is the op itself, the model's own has no path.
std::string path_of_scopes(std::string_view scopes) {
  const auto parts = parts_of(scopes);
  for (std::size_t i = parts.size(); i-- > 0;) {
    const std::size_t colon = parts[i].find(": ");
    if (i + 1 == parts.size() || colon == std::string_view::npos) continue;
    const std::string_view path = parts[i].substr(0, colon);
    return path.starts_with("_empty") ? std::string() : std::string(path);
  }
  return {};
}

/// A child of a Sequential is called by its whole path again: /features/features.0 is features.0.
std::string path_of_name(std::string_view name) {
  std::string path;
  std::string_view last;
  auto parts = parts_of(name.substr(1));
  if (!parts.empty()) parts.pop_back();  // the op
  for (const std::string_view part : parts) {
    const bool repeats = !last.empty() && part.starts_with(last) && part.size() > last.size() &&
                         part[last.size()] == '.';
    if (repeats) path.resize(path.size() - last.size());
    if (!path.empty() && !path.ends_with('.')) path += '.';
    path += part;
    last = part;
  }
  return path;
}

}  // namespace

std::string module_path(std::string_view node_name, std::string_view scopes) {
  if (!scopes.empty()) return path_of_scopes(scopes);
  return node_name.starts_with('/') ? path_of_name(node_name) : std::string();
}

}  // namespace trainyard
