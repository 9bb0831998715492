#include "models/layer_groups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/user_text.h"

namespace trainyard {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// "layer1.0" -> "layer*.*"
std::string level_of(std::string_view path) {
  std::string level;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (!is_digit(path[i])) {
      level += path[i];
    } else if (level.empty() || level.back() != '*') {
      level += '*';
    }
  }
  return level;
}

/// The beginnings of a path, whole components each, that end in a number.
std::vector<std::string_view> numbered_beginnings(std::string_view path) {
  std::vector<std::string_view> out;
  for (std::size_t end = path.find('.');; end = path.find('.', end + 1)) {
    const std::string_view beginning = path.substr(0, end);
    if (!beginning.empty() && is_digit(beginning.back())) out.push_back(beginning);
    if (end == std::string_view::npos) return out;
  }
}

struct Level {
  std::int64_t elements = 0;  // of parameters inside
  std::set<std::string_view> children;
};

class Grouper {
 public:
  explicit Grouper(Graph& graph) : graph_(graph) {}

  void run(const std::string& pattern) {
    count();
    const std::string level = pattern.empty() ? largest() : pattern;
    if (!pattern.empty() && !levels_.contains(pattern)) {
      std::string known;
      for (const auto& [name, of] : levels_) known += (known.empty() ? "" : ", ") + name;
      throw ConfigError({}, "model.layer_pattern",
                        "no module is called " + in_quotes(pattern) +
                            (known.empty() ? "" : "; expected one of: " + printable(known, 400)));
    }
    end_layers(number(level));
  }

 private:
  /// Elements of the parameters that the op reads, each counted at its first reader.
  std::int64_t elements_of(const Op& op) {
    std::int64_t elements = 0;
    for (const TensorId input : op.inputs) {
      if (graph_.tensors[input].role != TensorRole::kParameter || counted_[input]) continue;
      counted_[input] = true;
      elements += num_elements(graph_.tensors[input].shape);
    }
    return elements;
  }

  /// A child of a level, which a module lies in.
  struct Place {
    std::string_view child;
    std::pair<const std::string, Level>* level;
  };

  /// Known once for all ops of the module: their paths are most of the work.
  const std::vector<Place>& places_of(PathId module) {
    if (places_.empty()) places_.resize(graph_.modules.size());
    std::optional<std::vector<Place>>& known = places_[module];
    if (known) return *known;
    known.emplace();
    for (const std::string_view child : numbered_beginnings(graph_.modules[module])) {
      auto& level = *levels_.try_emplace(level_of(child)).first;
      level.second.children.insert(child);
      known->push_back({child, &level});
    }
    return *known;
  }

  void count() {
    counted_.assign(graph_.tensors.size(), false);
    for (const Op& op : graph_.ops) {
      const std::int64_t elements = elements_of(op);
      for (const Place& place : places_of(op.module)) place.level->second.elements += elements;
    }
  }

  std::string largest() const {
    const std::pair<const std::string, Level>* best = nullptr;
    for (const auto& one : levels_) {
      const Level& level = one.second;
      if (level.children.size() < 2 || level.elements == 0) continue;
      const bool better = best == nullptr || level.elements > best->second.elements ||
                          (level.elements == best->second.elements &&
                           level.children.size() > best->second.children.size());
      if (better) best = &one;
    }
    return best == nullptr ? std::string() : best->first;
  }

  /// Layers count from 0 in the order in which they first run: an op of an earlier one that runs
  /// later belongs to the later one.
  /// Returns the last op of a layer.
  std::size_t number(const std::string& level) {
    std::unordered_map<std::string_view, std::int32_t> layers;
    counted_.assign(graph_.tensors.size(), false);
    std::int32_t now = -1, last = -1;
    std::size_t inside = 0;
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      Op& op = graph_.ops[OpId(i)];
      if (level.empty() && elements_of(op) > 0) now = ++last, inside = i;
      for (const Place& place : places_of(op.module)) {
        if (level.empty() || place.level->first != level) continue;
        const auto [at, is_new] = layers.emplace(place.child, last + 1);
        if (is_new) ++last;
        now = std::max(now, at->second);
        inside = i;
      }
      op.layer = now;
    }
    graph_.num_layers = last + 1;
    return inside;
  }

  /// What runs behind the last module of a layer is the model's end.
  void end_layers(std::size_t inside) {
    for (std::size_t i = inside + 1; i < graph_.ops.size(); ++i) graph_.ops[OpId(i)].layer = -1;
  }

  Graph& graph_;
  std::map<std::string, Level> levels_;
  Indexed<PathId, std::optional<std::vector<Place>>> places_;
  Indexed<TensorId, bool> counted_;
};

}  // namespace

void group_into_layers(Graph& graph, const std::string& pattern) { Grouper(graph).run(pattern); }

}  // namespace trainyard
