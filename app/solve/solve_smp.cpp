// solve: smp-partition, SageMaker's modules on devices.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "app/module_lines.h"
#include "app/solve/model_study.h"
#include "app/solve/named_nodes.h"
#include "app/solve/problem_keys.h"
#include "app/solve/solve.h"
#include "engine/base/match_pattern.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/partition/tree_partition.h"
#include "engine/passes/one_stage_graph.h"
#include "study/study_section.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostDevices = 100'000;
constexpr std::int64_t kMostDeviceNodes = 100'000'000;  // nodes x devices
constexpr double kRounding = 1e-9;                      // of costs, as a share

/// A tree as it is written, parents in front of their children.
struct WrittenTree {
  NamedNodes names;
  ModuleTree tree;
  std::vector<YamlNode> where;
  std::vector<bool> has_cost, has_own;

  std::size_t add(const std::string& name, const YamlNode& node, std::size_t parent) {
    const std::size_t index = names.add(name, node);
    tree.parent.push_back(parent);
    tree.cost.push_back(0);
    tree.own.push_back(0);
    where.push_back(node);
    has_cost.push_back(false);
    has_own.push_back(false);
    return index;
  }
  void set_cost(std::size_t node, const YamlNode& value) {
    tree.cost[node] = read_least_zero(value);
    has_cost[node] = true;
  }
};

/// {name, cost, own, children: [...]}
void read_nested(const YamlNode& node, std::size_t parent, WrittenTree& out) {
  const std::size_t index = out.add(node.at("name").as_string(), node, parent);
  if (const auto cost = given(node, "cost")) out.set_cost(index, *cost);
  if (const auto own = given(node, "own")) {
    out.tree.own[index] = read_least_zero(*own);
    out.has_own[index] = true;
  }
  if (const auto children = given(node, "children")) {
    for (const YamlNode& child : children->items()) read_nested(child, index, out);
  }
  node.finish();
}

/// {module: [children, ...]} with `cost: {module: cost}` beside it.
void read_lists(const YamlNode& lists, const YamlNode& costs, WrittenTree& out) {
  std::map<std::string, YamlNode> children_of, parent_of;
  lists.each_entry([&](const std::string& name, const YamlNode& children) {
    children_of.emplace(name, children);
    for (const YamlNode& child : children.items()) {
      if (!parent_of.emplace(child.as_string(), child).second)
        child.fail(in_quotes(child.as_string()) + " has two parents");
    }
  });
  std::vector<std::string> roots;
  for (const std::string& name : lists.keys()) {
    if (!parent_of.contains(name)) roots.push_back(name);
  }
  if (roots.size() != 1) {
    lists.fail("expected one module that is nobody's child, the root, got " +
               (roots.empty() ? std::string("none") : join_words(roots)));
  }
  std::vector<std::pair<std::string, std::size_t>> open = {{roots.front(), kNoParent}};
  while (!open.empty()) {
    const auto [name, parent] = open.back();
    open.pop_back();
    const auto listed = children_of.find(name);
    const YamlNode& place = listed != children_of.end() ? listed->second : parent_of.at(name);
    const std::size_t index = out.add(name, place, parent);
    if (const auto cost = costs.find(name)) out.set_cost(index, *cost);
    if (listed == children_of.end()) continue;
    const std::vector<YamlNode> children = listed->second.items();
    for (std::size_t c = children.size(); c-- > 0;)
      open.emplace_back(children[c].as_string(), index);
  }
  for (const auto& [name, node] : children_of) {
    if (!out.names.find(name)) node.fail(in_quotes(name) + " is below itself");
  }
  costs.finish();
}

/// What is given of costs makes the rest: a node costs what it costs by itself and its children.
void complete_costs(WrittenTree& out) {
  ModuleTree& tree = out.tree;
  std::vector<double> below(tree.parent.size(), 0);
  for (std::size_t n = tree.parent.size(); n-- > 0;) {
    if (!out.has_cost[n]) tree.cost[n] = tree.own[n] + below[n];
    const double needed = out.has_own[n] ? tree.own[n] + below[n] : below[n];
    if (needed > tree.cost[n] * (1 + kRounding)) {
      out.where[n].fail(out.names.name(n) + " costs " + number_text(tree.cost[n]) +
                        ", less than what is in it: " + number_text(needed));
    }
    if (!out.has_own[n]) tree.own[n] = std::max(tree.cost[n] - below[n], 0.0);
    if (!out.has_own[n] && tree.own[n] <= kRounding * tree.cost[n] && below[n] > 0)
      tree.own[n] = 0;  // what is left of rounding
    if (n > 0) below[tree.parent[n]] += tree.cost[n];
  }
}

/// Modules with what they share, as they are written.
struct WrittenModules {
  NamedNodes names;
  std::vector<TracedModule> modules;
  std::vector<std::size_t> same;
  bool timed = false;
};

std::size_t first_of(std::vector<std::size_t>& same, std::size_t m) {
  while (same[m] != m) m = same[m] = same[same[m]];
  return m;
}

/// Joins modules that list the same word, and a module with those that list its name.
void join_shares(const std::vector<std::pair<std::size_t, YamlNode>>& shares, WrittenModules& out) {
  std::map<std::string, std::vector<std::size_t>> by_word;
  for (const auto& [m, word] : shares) by_word[word.as_string()].push_back(m);
  for (const auto& [m, word] : shares) {
    std::vector<std::size_t> others = by_word[word.as_string()];
    if (const auto named = out.names.find(word.as_string())) others.push_back(*named);
    if (std::ranges::all_of(others, [m = m](std::size_t other) { return other == m; }))
      word.fail("no other module shares " + in_quotes(word.as_string()));
    for (const std::size_t other : others) {
      const std::size_t a = first_of(out.same, m), b = first_of(out.same, other);
      out.same[std::max(a, b)] = std::min(a, b);
    }
  }
  for (std::size_t m = 0; m < out.same.size(); ++m) out.same[m] = first_of(out.same, m);
}

WrittenModules read_modules(const YamlNode& list) {
  WrittenModules out;
  std::vector<std::pair<std::size_t, YamlNode>> shares;
  for (const YamlNode& node : list.items()) {
    const YamlNode of_name = node.at("name");
    TracedModule module;
    if (const auto parent = given(node, "parent")) {
      const auto found = out.names.find(parent->as_string());
      if (!found) {
        parent->fail("no module in front of this one is called " + in_quotes(parent->as_string()) +
                     "; modules are in execution order, parents first");
      }
      module.parent = *found;
    } else if (!out.modules.empty()) {
      node.fail("missing required key 'parent'; " + in_quotes(out.names.name(0)) + " is the root");
    }
    const std::size_t m = out.names.add(of_name.as_string(), of_name);
    if (const auto value = given(node, "parameters")) module.parameters = read_least_zero(*value);
    if (const auto value = given(node, "activation")) module.activation = read_least_zero(*value);
    if (const auto value = given(node, "time")) {
      module.time = read_least_zero(*value);
      out.timed = true;
    }
    if (const auto words = given(node, "shares")) {
      for (const YamlNode& word : words->items()) shares.emplace_back(m, word);
    }
    out.modules.push_back(module);
    out.same.push_back(m);
    node.finish();
  }
  if (out.modules.empty()) list.fail("expected at least one module");
  join_shares(shares, out);
  return out;
}

double read_memory_weight(const YamlNode& problem) {
  const auto node = given(problem, "memory_weight");
  if (!node) return 0.8;
  const double weight = node->as_number();
  if (!(weight >= 0 && weight <= 1))
    node->fail("expected a share from 0 to 1, got " + number_text(weight));
  return weight;
}

std::int64_t read_devices(const YamlNode& problem, std::size_t num_nodes) {
  const YamlNode node = at_either(problem, "devices", "D");
  const std::int64_t devices = node.as_integer(1, kMostDevices);
  if (devices > kMostDeviceNodes / static_cast<std::int64_t>(num_nodes))
    node.fail(std::to_string(num_nodes) + " modules on " + std::to_string(devices) +
              " devices are too many to divide");
  return devices;
}

/// `assign: {pattern: device}`: the device of each module that a pattern matches, -1 for others.
std::vector<std::int64_t> assigned(const YamlNode& patterns, const NamedNodes& names,
                                   std::int64_t devices) {
  constexpr std::size_t kNone = 0;
  std::vector<std::int64_t> out(names.size(), -1);
  std::vector<std::size_t> literals(names.size(), kNone);
  std::vector<std::string> by(names.size());
  patterns.each_entry([&](const std::string& pattern, const YamlNode& value) {
    const std::int64_t device = value.as_integer(0, devices - 1);
    const auto stars = std::ranges::count(pattern, '*');
    const std::size_t literal = pattern.size() - stars + 1;
    bool matched = false;
    for (std::size_t m = 0; m < names.size(); ++m) {
      if (!matches_pattern(pattern, names.name(m))) continue;
      matched = true;
      if (literal == literals[m] && out[m] != device) {
        value.fail(in_quotes(names.name(m)) + " is on another device by " + in_quotes(by[m]) +
                   ", which is as specific");
      }
      if (literal <= literals[m]) continue;
      literals[m] = literal;
      out[m] = device;
      by[m] = pattern;
    }
    if (!matched) value.fail("no module matches " + in_quotes(pattern));
  });
  return out;
}

/// The devices of nodes by `assign` and `default`; a node below another has that one's.
TreePartition assigned_partition(const YamlNode& problem, const NamedNodes& names,
                                 const std::vector<std::size_t>& node_of, const ModuleTree& tree,
                                 std::int64_t devices) {
  const YamlNode patterns = problem.at("assign");
  const std::vector<std::int64_t> of_module = assigned(patterns, names, devices);
  const auto fallback = given(problem, "default");
  TreePartition out;
  out.device.assign(tree.parent.size(), -1);
  for (std::size_t m = 0; m < of_module.size(); ++m) {
    std::int64_t& device = out.device[node_of[m]];
    if (of_module[m] < 0) continue;
    if (device >= 0 && device != of_module[m]) {
      patterns.fail(in_quotes(names.name(m)) + " shares a parameter with a module on device " +
                    std::to_string(device) + ", and is given device " +
                    std::to_string(of_module[m]));
    }
    device = of_module[m];
  }
  if (out.device[0] < 0) out.device[0] = fallback ? fallback->as_integer(0, devices - 1) : 0;
  out.load.assign(devices, 0);
  for (std::size_t n = 0; n < tree.parent.size(); ++n) {
    if (out.device[n] < 0) out.device[n] = out.device[tree.parent[n]];
    out.load[out.device[n]] += tree.own[n];
  }
  return out;
}

/// The modules of a study's model, traced by its cost model as partition smp traces them.
WrittenModules modules_of_study(const YamlNode& problem, const Prepared& prepared) {
  const YamlNode where = problem.at("study");
  const auto made = one_stage_graph(prepared.model, prepared.study, prepared.software);
  if (const auto* reason = std::get_if<Infeasible>(&made)) where.fail(reason->reason);
  const auto& training = std::get<TrainingGraph>(made);
  const ModelModules modules = model_modules(training.graph);
  WrittenModules out;
  for (const std::string& path : modules.path) out.names.add(path.empty() ? "model" : path, where);
  out.modules = trace_modules(modules, training, prepared.hardware, prepared.software);
  out.same = modules.same;
  out.timed = true;
  if (const auto times = given(problem, "times"))
    out.timed = read_word(*times, "times", kModuleTimeWords) == 0;
  return out;
}

}  // namespace

Json solve_smp_partition(const YamlNode& problem) {
  NamedNodes names;
  ModuleTree tree;
  std::vector<std::size_t> node_of;
  const double weight = read_memory_weight(problem);
  if (const auto study = read_model_study(problem)) {
    WrittenModules traced = modules_of_study(problem, *study);
    ModuleNodes nodes =
        module_nodes(traced.modules, traced.same, weight, traced.timed, FiguresOf::kModule);
    names = std::move(traced.names);
    tree = std::move(nodes.tree);
    node_of = std::move(nodes.node_of);
  } else if (const auto list = given(problem, "modules")) {
    WrittenModules written = read_modules(*list);
    FiguresOf figures = FiguresOf::kModule;
    if (const auto node = given(problem, "inclusive"))
      figures = node->as_bool() ? FiguresOf::kSubtree : FiguresOf::kModule;
    ModuleNodes nodes = module_nodes(written.modules, written.same, weight, written.timed, figures);
    names = std::move(written.names);
    tree = std::move(nodes.tree);
    node_of = std::move(nodes.node_of);
  } else {
    WrittenTree written;
    const YamlNode node = problem.at("tree");
    const auto name = node.contains("name") ? node.find("name") : std::nullopt;
    if (name && name->is_scalar())
      read_nested(node, kNoParent, written);
    else
      read_lists(node, problem.at("cost"), written);
    complete_costs(written);
    names = std::move(written.names);
    tree = std::move(written.tree);
    node_of.resize(names.size());
    std::iota(node_of.begin(), node_of.end(), 0);
  }
  const std::int64_t devices = read_devices(problem, names.size());
  const bool by_hand = given(problem, "assign").has_value();
  const TreePartition partition = by_hand
                                      ? assigned_partition(problem, names, node_of, tree, devices)
                                      : partition_tree(tree, devices);
  Json device = Json::object(), sets = Json::object(), costs = Json::object();
  for (std::size_t m = 0; m < names.size(); ++m) {
    device[names.name(m)] = partition.device[node_of[m]];
    if (!by_hand) sets[names.name(m)] = *partition.devices[node_of[m]];
    costs[names.name(m)] = tree.cost[node_of[m]];
  }
  Json answer = {{"device", device}};
  if (!by_hand) answer["devices"] = sets;
  answer["cost"] = costs;
  answer["loads"] = partition.load;
  return answer;
}

}  // namespace trainyard
