#include "study/sweep.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "engine/base/quantity.h"
#include "engine/base/readable.h"
#include "engine/base/user_text.h"
#include "study/key_aliases.h"

namespace trainyard {

namespace {

constexpr const char* kTogether = "together";

/// Whether `path` is `outer` or a key under it.
bool is_under(const std::string& path, const std::string& outer) {
  return path == outer || path.starts_with(outer + ".");
}

/// Decimal steps add up to 0.30000000000000004; what was meant has few digits.
std::string value_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", value);
  return number_text(parse_number(text).value_or(value));
}

/// {from, to, times} or {from, to, step}, both ends included.
std::vector<YamlNode> read_range(const YamlNode& node) {
  constexpr double kRounding = 1e-9;  // relative: `to` is reached however the steps round
  const double from = node.at("from").as_number();
  const double to = node.at("to").as_number();
  const auto times = node.find("times");
  const auto step = node.find("step");
  node.finish();
  if (times.has_value() == step.has_value()) {
    node.fail("expected times (a factor) or step beside from and to, got " +
              std::string(times ? "both" : "neither"));
  }
  if (from > to)
    node.at("to").fail("expected at least from, " + number_text(from) + ", got " + number_text(to));
  double steps = 0;  // behind the first value
  const double by = (times ? *times : *step).as_number();
  if (times) {
    if (!(from > 0))
      node.at("from").fail("expected more than 0 with times, got " + number_text(from));
    if (!(by > 1)) times->fail("expected more than 1, got " + number_text(by));
    steps = std::floor(std::log(to / from) / std::log(by) + kRounding);
  } else {
    if (!(by > 0)) step->fail("expected more than 0, got " + number_text(by));
    steps = std::floor((to - from) / by * (1 + kRounding) + kRounding);
  }
  if (steps >= static_cast<double>(kMaxSweepPoints)) {
    node.fail("more than " + std::to_string(kMaxSweepPoints) + " values");
  }
  std::vector<YamlNode> values;
  for (double i = 0; i <= steps; ++i) {
    values.push_back(
        YamlNode::scalar(value_text(times ? from * std::pow(by, i) : from + i * by), node.pos()));
  }
  return values;
}

SweepKey read_key(const YamlNode& map, const std::string& path) {
  const YamlNode node = map.at(path);
  if (is_under(path, "sweep"))
    throw ConfigError(map.key_pos(path), node.key_path(), "a sweep is no value of a study");
  const std::string key = key_of_alias(path);
  if (node.is_map()) return {key, map.key_pos(path), read_range(node)};
  if (!node.is_sequence()) {
    node.fail(
        "expected a list of values, or a range such as {from: 1, to: 8, times: 2}; a key is "
        "written whole, as parallel.tensor");
  }
  std::vector<YamlNode> values = node.items();
  if (values.empty()) node.fail("expected at least one value");
  return {key, map.key_pos(path), std::move(values)};
}

/// One map of `together`.
SweepAxis read_axis(const YamlNode& map) {
  SweepAxis axis;
  for (const std::string& path : map.keys()) {
    axis.keys.push_back(read_key(map, path));
    const SweepKey& key = axis.keys.back();
    const auto size = static_cast<std::int64_t>(key.values.size());
    if (size != axis.size()) {
      throw ConfigError(key.pos, printable(map.key_path() + "." + path),
                        plural(size, "value") + " cannot go together with the " +
                            std::to_string(axis.size()) + " of " + axis.keys.front().path);
    }
  }
  if (axis.keys.empty()) map.fail("expected keys that take their values together");
  return axis;
}

std::string replaced_by_values(const SweepKey& key) {
  return replaced_by_value(key.path, std::ranges::any_of(key.values, &YamlNode::is_map));
}

/// A later key is put over what an earlier one wrote: it must not undo it.
void refuse_hidden_keys(const Sweep& sweep) {
  const std::vector<const SweepKey*> keys = sweep.keys();
  for (std::size_t later = 0; later < keys.size(); ++later) {
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      const std::string early = replaced_by_values(*keys[earlier]);
      const std::string late = replaced_by_values(*keys[later]);
      if (!is_under(early, late)) continue;
      const bool same = early == late;
      throw ConfigError(keys[later]->pos, printable("sweep." + keys[later]->path),
                        same ? "is swept twice; the other is at " + to_string(keys[earlier]->pos)
                             : "would replace " + keys[earlier]->path + ", at " +
                                   to_string(keys[earlier]->pos) + "; write it before that key");
    }
  }
}

}  // namespace

std::int64_t Sweep::num_points() const {
  std::int64_t points = 1;
  for (const SweepAxis& axis : axes) points *= axis.size();
  return points;
}

std::vector<const SweepKey*> Sweep::keys() const {
  std::vector<const SweepKey*> all;
  for (const SweepAxis& axis : axes) {
    for (const SweepKey& key : axis.keys) all.push_back(&key);
  }
  return all;
}

std::vector<const YamlNode*> Sweep::values(std::int64_t point) const {
  std::vector<const YamlNode*> reversed;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const auto at = static_cast<std::size_t>(point % axis->size());
    point /= axis->size();
    for (auto key = axis->keys.rbegin(); key != axis->keys.rend(); ++key)
      reversed.push_back(&key->values[at]);
  }
  return {reversed.rbegin(), reversed.rend()};
}

Sweep read_sweep(const YamlNode& block) {
  Sweep sweep;
  for (const std::string& path : block.keys()) {
    if (path != kTogether) {
      sweep.axes.push_back({{read_key(block, path)}});
      continue;
    }
    const YamlNode groups = block.at(path);
    if (groups.is_null()) continue;
    for (const YamlNode& map : groups.items()) sweep.axes.push_back(read_axis(map));
  }
  if (sweep.axes.empty())
    block.fail("expected keys with their values, such as parallel.tensor: [1, 2, 4, 8]");
  double points = 1;
  for (const SweepAxis& axis : sweep.axes) points *= static_cast<double>(axis.size());
  if (points > static_cast<double>(kMaxSweepPoints)) {
    block.fail(number_text(points) + " combinations; at most " + std::to_string(kMaxSweepPoints) +
               " are run");
  }
  refuse_hidden_keys(sweep);
  return sweep;
}

std::vector<std::string> drop_replaced(Sweep& sweep, const std::string& assignment) {
  const std::size_t equals = std::min(assignment.find('='), assignment.size());
  const bool is_map = assignment.find('{') == equals + 1;
  const std::string replaced = replaced_by_value(assignment.substr(0, equals), is_map);
  std::vector<std::string> dropped;
  for (SweepAxis& axis : sweep.axes) {
    std::erase_if(axis.keys, [&](const SweepKey& key) {
      if (!is_under(replaced_by_values(key), replaced)) return false;
      dropped.push_back(key.path);
      return true;
    });
  }
  std::erase_if(sweep.axes, [](const SweepAxis& axis) { return axis.keys.empty(); });
  return dropped;
}

void put_point(const Sweep& sweep, std::int64_t point, YamlNode& study) {
  const std::vector<const SweepKey*> keys = sweep.keys();
  const std::vector<const YamlNode*> values = sweep.values(point);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string path = key_of_alias(keys[i]->path, study);
    study.put(place_of_value(path, values[i]->is_map(), study), *values[i], keys[i]->pos);
  }
}

}  // namespace trainyard
