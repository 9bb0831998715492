#include "study/read_tensor_method.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/format.h"
#include "engine/base/user_text.h"
#include "engine/cluster/communication_matrix.h"
#include "engine/passes/tensor_methods.h"
#include "engine/plan/plan_limits.h"
#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

/// "2x4" -> its two numbers; the key's pattern is checked here.
MeasuredMesh read_measured(const YamlNode& measured, const std::string& mesh) {
  const YamlNode node = measured.at(mesh);
  const std::size_t x = mesh.find('x');
  const auto number = [&](const std::string& text) {
    const bool digits = !text.empty() && text.size() < 8 && text.front() != '0' &&
                        text.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || std::stoi(text) > kMaxRanks)
      throw ConfigError(measured.key_pos(mesh), node.key_path(),
                        "expected a mesh such as 2x4, got " + in_quotes(mesh));
    return std::stoi(text);
  };
  MeasuredMesh out;
  out.d1 = number(mesh.substr(0, x));
  out.d2 = number(x == std::string::npos ? "" : mesh.substr(x + 1));
  std::vector<double> bandwidths;
  for (const YamlNode& item : node.items()) {
    bandwidths.push_back(item.as_number() * kGB);
    if (bandwidths.back() != 0 && !is_bandwidth(bandwidths.back()))
      item.fail(format("expected GB/s, 0 or %s", kBandwidthRange));
  }
  if (bandwidths.size() != 2)
    node.fail("expected the bandwidths along both axes in GB/s, such as [1.2, 4.95]");
  out.b1 = bandwidths[0];
  out.b2 = bandwidths[1];
  if ((out.d1 > 1) != (out.b1 > 0) || (out.d2 > 1) != (out.b2 > 0))
    node.fail("an axis of one rank, and no other, has bandwidth 0");
  return out;
}

/// `{"*.mlp.fc1": {dim: 0, collective: none}}`
void read_split_table(const YamlNode& table, Section& section, std::vector<SplitRule>& rules) {
  for (const std::string& modules : table.keys()) {
    SplitRule& rule = rules.emplace_back();
    rule.modules = modules;
    const YamlNode node = table.at(modules);
    for (const std::string& key : node.keys()) {
      if (key != "dim" && key != "collective")
        throw ConfigError(node.key_pos(key), node.key_path() + "." + printable(key),
                          "unknown key; an entry takes dim and collective");
    }
    rule.dim = static_cast<int>(node.at("dim").as_integer(0, 1));
    rule.collective = static_cast<SplitRule::Collective>(
        read_word(node.at("collective"), "collective", kSplitCollectiveWords));
    section.study().origins[node.key_path()] = origin_of(node);
  }
  if (rules.empty())
    table.fail(
        "expected entries such as {\"*.mlp.fc1\": {dim: 0, collective: none}}; leave it out "
        "for the families'");
}

/// What is said of methods that a key of the map is not of.
struct MethodKey {
  std::string_view key, problem;  // empty: TensorMethod::has_mesh
};
constexpr MethodKey kMethodKeys[] = {
    {"mesh", ""},
    {"measured", ""},
    {"chunks", "leaves chunks to parallel.tensor_overlap"},
    {"table", "has rules of its own"},
    {"optimize", "has one way to split"},
    {"prescaled_batch", "gives the ranks of a tensor group the same samples"},
    {"memory_budget", "chooses no splits of ops"},
    {"ops", "chooses no splits of ops"}};

/// The first method that has the key.
std::string_view owner_of(std::string_view key) {
  const auto methods = tensor_methods();
  const auto found = std::ranges::find_if(
      methods, [&](const TensorMethod& method) { return takes_key(method, key); });
  check(found != methods.end(), "each key is some method's");
  return found->name;
}

void refuse_keys_of_others(const Section& section, const Study& study, const TensorMethod& method) {
  for (const auto& [key, problem] : kMethodKeys) {
    if (!section.contains(key) || takes_key(method, key)) continue;
    fail_at(study, section.key_path(key),
            "method " + std::string(method.name) + " " +
                std::string(problem.empty() ? method.has_mesh : problem) +
                "; leave it out, or write name: " + std::string(owner_of(key)));
  }
}

std::vector<int> read_mesh(const YamlNode& mesh, const TensorMethod& method, int tensor) {
  std::vector<int> out;
  for (const YamlNode& item : mesh.items())
    out.push_back(static_cast<int>(item.as_integer(1, kMaxRanks)));
  const auto [least, most] = method.said_axes;
  const bool wrong = std::ssize(out) < least || std::ssize(out) > most;
  const std::string axes =
      least < most ? "at most " + std::to_string(most) + " axes" : std::string("two axes");
  if (wrong && most > 0)
    mesh.fail("expected the ranks along " + axes + ", such as " + mesh_text(even_mesh(tensor)));
  return out;
}

/// ATP's word for chunks of a microbatch in each layer.
void read_method_chunks(Section& parallel, const Section& section, const YamlNode& chunks,
                        std::string& text) {
  const auto number = static_cast<int>(section.integer_of(chunks, "chunks"));
  if (parallel.contains("tensor_overlap"))
    chunks.fail("parallel.tensor_overlap says chunks, too; leave one of them out");
  if (number == 1) return;
  text = to_string(TensorOverlap{TensorOverlap::Scope::kBlock, number});
  for (const char* key : {"tensor_overlap", "tensor_overlap.scope", "tensor_overlap.chunks"})
    parallel.study().origins[parallel.key_path(key)] = origin_of(chunks);
}

void read_method(Section& parallel, ParallelConfig& config) {
  const auto node = parallel.given("tensor_method");
  if (!node) return;
  const auto read_name = [&](const YamlNode& name) {
    config.tensor_method =
        tensor_method_words()[read_word(name, "tensor_method", tensor_method_words())];
  };
  if (node->is_scalar()) {
    parallel.study().origins[parallel.key_path("tensor_method.name")] = origin_of(*node);
    return read_name(*node);
  }
  Section section = parallel.child("tensor_method");
  parallel.draft().attempt([&] { read_name(section.required("name")); });
  section.read_given("mesh", [&](const YamlNode& mesh) {
    if (mesh.is_scalar()) {
      read_word(mesh, "mesh", kChosenWords);
      return;
    }
    config.tensor_mesh = read_mesh(mesh, tensor_method(config.tensor_method), config.tensor);
  });
  section.read_given("measured", [&](const YamlNode& measured) {
    for (const std::string& mesh : measured.keys())
      config.measured_meshes.push_back(read_measured(measured, mesh));
    if (config.measured_meshes.empty())
      measured.fail("expected meshes, such as {2x4: [1.2, 4.95]}; leave it out for the cluster's");
  });
  section.read_given("chunks", [&](const YamlNode& chunks) {
    if (takes_key(tensor_method(config.tensor_method), "chunks"))
      read_method_chunks(parallel, section, chunks, config.tensor_overlap);
  });
  section.read_given("table", [&](const YamlNode& table) {
    read_split_table(table, section, config.split_table);
  });
  section.read_given("optimize", [&](const YamlNode& optimize) {
    config.smp.optimize =
        static_cast<SmpConfig::Optimize>(read_word(optimize, "optimize", kOptimizeWords));
  });
  section.read_given("prescaled_batch",
                     [&](const YamlNode& flag) { config.smp.prescaled_batch = flag.as_bool(); });
  section.read_given("memory_budget", [&](const YamlNode& memory) {
    config.tensor_memory = memory.as_bytes();
    if (config.tensor_memory <= 0)
      memory.fail("expected more than 0 bytes; leave this key out for what the device has");
  });
  section.read_given("ops", [&](const YamlNode& ops) {
    if (!takes_key(tensor_method(config.tensor_method), "ops")) return;
    if (config.tensor_mesh.empty())
      ops.fail("names axes of a mesh that is yet to be chosen; write mesh: [" +
               std::to_string(config.tensor) + "], or another one");
    read_sharding_entries(parallel.study(), ops, section.key_path("ops"), config.tensor_ops);
  });
  section.finish();
  refuse_keys_of_others(section, parallel.study(), tensor_method(config.tensor_method));
}

}  // namespace

void read_tensor_method(Section& parallel, ParallelConfig& config) {
  read_method(parallel, config);
  const TensorMethod& method = tensor_method(config.tensor_method);
  config.own_samples = method.own_samples != nullptr && method.own_samples(config);
  config.divides_alike = method.divides_alike;
}

void read_tensor_overlap(Section& parallel, std::string& text) {
  const auto node = parallel.given("tensor_overlap");
  if (!node) return;
  TensorOverlap overlap;
  const auto read_scope = [&](const YamlNode& scope) {
    overlap.scope =
        static_cast<TensorOverlap::Scope>(read_word(scope, "tensor_overlap", kTensorOverlapWords));
  };
  if (node->is_scalar()) {
    read_scope(*node);
    text = to_string(overlap);
    return;
  }
  overlap.scope = TensorOverlap::Scope::kBlock;
  Section section = parallel.child("tensor_overlap");
  section.read_given("scope", read_scope);
  section.read_given("chunks", [&](const YamlNode& chunks) {
    overlap.chunks = static_cast<int>(section.integer_of(chunks, "chunks"));
    if (!overlap.on()) chunks.fail("scope none has no chunks; leave one of them out");
  });
  section.finish();
  text = to_string(overlap);
}

}  // namespace trainyard
