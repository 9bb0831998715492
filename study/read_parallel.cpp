// The `parallel:` block: degrees, ZeRO and placement. Degrees that this version cannot run are
// refused here; whether they fit the model and the cluster is study_checks.cpp's business.
#include <string>
#include <vector>

#include "engine/base/format.h"
#include "engine/base/user_text.h"
#include "engine/cluster/communication_matrix.h"
#include "engine/passes/mesh_methods.h"
#include "engine/plan/plan_limits.h"
#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

void read_only_one(Section& section, std::string_view key, int& value) {
  const auto node = section.given(key);
  if (!node) return;
  value = static_cast<int>(node->as_integer(1, kMaxRanks));
  if (value == 1) return;
  fail_at(section.study(), section.key_path(key),
          std::string(key) +
              " parallelism is not in this version, which has tensor, pipeline, "
              "context and data parallelism; write 1");
}

/// `tensor: 8`, or `tensor: {tp0: 2, tp1: 4}`.
void read_tensor(Section& section, ParallelConfig& parallel) {
  const auto node = section.given("tensor");
  if (!node) return;
  if (!node->is_map()) {
    parallel.tensor = static_cast<int>(section.integer_of(*node, "tensor"));
    return;
  }
  const std::vector<std::string> names = node->keys();
  if (names.empty() || names.size() > kMaxTensorAxes) {
    node->fail("expected 1 to " + std::to_string(kMaxTensorAxes) +
               " axes, such as {tp0: 2, tp1: 4}, got " + std::to_string(names.size()));
  }
  std::int64_t ranks = 1;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = "tp" + std::to_string(i);
    if (names[i] != name) {
      throw ConfigError(node->key_pos(names[i]), node->key_path() + "." + printable(names[i]),
                        "axis " + std::to_string(i + 1) + " of parallel.tensor is called " + name +
                            ": axes are tp0, tp1, ... in their order, the last fastest");
    }
    const std::int64_t size = section.integer_of(node->at(name), "tensor");
    parallel.tensor_axes.push_back(static_cast<int>(size));
    ranks *= size;
    if (ranks > kMaxRanks) node->fail("more than " + std::to_string(kMaxRanks) + " ranks");
  }
  parallel.tensor = static_cast<int>(ranks);
}

/// "2x4" -> its two numbers; the key's pattern is checked here.
MeasuredMesh read_measured(const YamlNode& measured, const std::string& mesh) {
  const YamlNode node = measured.at(mesh);
  const std::size_t x = mesh.find('x');
  const auto number = [&](const std::string& text) {
    const bool digits = !text.empty() && text.size() < 8 && text.front() != '0' &&
                        text.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || std::stoi(text) > kMaxRanks)
      throw ConfigError(measured.key_pos(mesh), node.key_path(),
                        "expected a mesh such as 2x4, got " + quoted(mesh));
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

/// Which method has each key of its map, and what to do without it.
struct MethodKey {
  std::string_view key, method, problem;
};
constexpr MethodKey kMethodKeys[] = {
    {"mesh", "atp", " has one axis"},
    {"measured", "atp", " has one axis"},
    {"table", "auto", " has rules of its own"},
    {"optimize", "smp", " has one way to split"},
    {"prescaled_batch", "smp", " gives the ranks of a tensor group the same samples"},
    {"memory_budget", "map", " chooses no splits of ops"},
    {"ops", "map", " chooses no splits of ops"}};

/// `tensor_method: atp`, or `tensor_method: {name: atp, mesh: [2, 4]}`. Read behind `tensor`.
void read_tensor_method(Section& parallel, ParallelConfig& config) {
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
    for (const YamlNode& item : mesh.items())
      config.tensor_mesh.push_back(static_cast<int>(item.as_integer(1, kMaxRanks)));
    const std::size_t axes = config.tensor_mesh.size();
    if (config.tensor_method == "map" ? axes == 0 || axes > kMaxTensorAxes : axes != 2)
      mesh.fail(config.tensor_method == "map"
                    ? "expected the ranks along at most 4 axes, such as [2, 2, 2]"
                    : "expected the ranks along two axes, such as [2, 4]");
  });
  section.read_given("measured", [&](const YamlNode& measured) {
    for (const std::string& mesh : measured.keys())
      config.measured_meshes.push_back(read_measured(measured, mesh));
    if (config.measured_meshes.empty())
      measured.fail("expected meshes, such as {2x4: [1.2, 4.95]}; leave it out for the cluster's");
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
  const bool map = config.tensor_method == "map";
  section.read_given("memory_budget", [&](const YamlNode& memory) {
    config.tensor_memory = memory.as_bytes();
    if (config.tensor_memory <= 0)
      memory.fail("expected more than 0 bytes; leave this key out for what the device has");
  });
  section.read_given("ops", [&](const YamlNode& ops) {
    if (!map) return;
    if (config.tensor_mesh.empty())
      ops.fail("names axes of a mesh that is yet to be chosen; write mesh: [" +
               std::to_string(config.tensor) + "], or another one");
    read_sharding_entries(parallel.study(), ops, section.key_path("ops"), config.tensor_ops);
  });
  section.finish();
  for (const auto& [key, method, problem] : kMethodKeys) {
    if (config.tensor_method == method || !section.contains(key)) continue;
    if (map && key == "mesh") continue;  // atp's and map's
    const bool own_mesh = mesh_method(config.tensor_method) != nullptr;
    const std::string why = map && key == "measured"    ? " takes its mesh from the cluster's links"
                            : own_mesh && key == "mesh" ? " has the mesh that parallel.tensor says"
                                                        : std::string(problem);
    fail_at(parallel.study(), section.key_path(key),
            "method " + config.tensor_method + why +
                "; leave it out, or write name: " + std::string(method));
  }
}

void read_tensor_modules(Section& section, std::vector<std::string>& modules) {
  const auto node = section.given("tensor_modules");
  if (!node) return;
  for (const YamlNode& item : node->items()) modules.push_back(item.as_string());
  if (modules.empty()) node->fail("expected patterns of modules, such as [\"*.mlp\"]");
}

/// `context: 4`, or `context: {degree: 4, method: ring, balance: zig-zag}`.
void read_context(Section& parallel, ContextConfig& context) {
  const auto node = parallel.given("context");
  if (!node) return;
  const auto read_degree = [&](const YamlNode& degree) {
    context.degree = static_cast<int>(degree.as_integer(1, kMaxRanks));
  };
  if (node->is_scalar()) return read_degree(*node);
  Section section = parallel.child("context");
  parallel.draft().attempt([&] { read_degree(section.required("degree")); });
  if (const auto method = section.given("method")) {
    parallel.draft().attempt([&] {
      context.method = static_cast<ContextConfig::Method>(
          read_word(*method, "method of context parallelism", kContextMethodWords));
    });
  }
  if (context.method == ContextConfig::Method::kUlysses)
    context.balance = ContextConfig::Balance::kNone;
  if (const auto balance = section.given("balance")) {
    parallel.draft().attempt([&] {
      context.balance =
          static_cast<ContextConfig::Balance>(read_word(*balance, "balance", kContextBalanceWords));
    });
  }
  section.finish();
}

void read_units(const YamlNode& node, ZeroConfig& zero) {
  if (node.is_scalar()) {
    if (node.as_string() == kLayerUnits) return;
    node.fail("expected layer, or a list of patterns of modules such as [\"*.layers.*\"], got " +
              quoted(node.as_string()));
  }
  node.each_item([&](const YamlNode& item) { zero.units.push_back(item.as_string()); });
  if (zero.units.empty()) node.fail("expected patterns of modules, got nothing");
}

/// true, false, or a number of ranks.
void read_reshard(const Section& section, const YamlNode& node, ZeroConfig& zero) {
  constexpr std::string_view kKey = "reshard_after_forward";
  const bool number = node.is_scalar() && node.as_string().find_first_of("0123456789") == 0;
  if (!number) {
    const bool all = node.as_bool("true, false or a number of ranks");
    zero.reshard_after_forward = all ? ZeroConfig::kAllShards : 1;
    return;
  }
  zero.reshard_after_forward = static_cast<int>(section.integer_of(node, kKey));
  if (zero.reshard_after_forward == 1) node.fail("one rank would have all of it; write false");
}

/// `offload: optimizer`, or `offload: {optimizer: host, parameters: host}`.
void read_zero_offload(Section& zero, ZeroConfig::Offload& offload) {
  const auto node = zero.given("offload");
  if (!node) return;
  if (node->is_scalar()) {
    const std::string_view word =
        kZeroOffloadWords[read_word(*node, "part of the training state", kZeroOffloadWords)];
    if (word == "optimizer") offload.optimizer = ZeroConfig::Place::kHost;
    if (word == "parameters") offload.parameters = ZeroConfig::Place::kHost;
    return;
  }
  Section section = zero.child("offload");
  section.read_all();
  section.finish();
}

/// Keys that say how a stage divides mean nothing to lower ones.
void warn_of_unused(const Section& section, Study& study) {
  constexpr std::string_view kReductions[] = {"reduce", "reduce_dtype"};
  constexpr std::string_view kGathers[] = {"units", "prefetch", "gathers_in_flight",
                                           "reshard_after_forward"};
  const int stage = study.parallel.zero.stage;
  const auto warn = [&](std::string_view key, int least, const std::string& why) {
    if (stage < least && section.contains(key))
      study.warnings.push_back(section.key_path(key) + " is not used: " + why);
  };
  const std::string of_stage = "stage " + std::to_string(stage) + " ";
  for (const std::string_view key : {"by", "replicate"}) warn(key, 1, "stage 0 divides nothing");
  for (const std::string_view key : kReductions) warn(key, 2, of_stage + "reduces once a step");
  for (const std::string_view key : kGathers) warn(key, 3, of_stage + "gathers no parameters");
}

/// `zero: 1`, or `zero: {stage: 3, units: layer}`.
void read_zero(Section& parallel, ZeroConfig& zero) {
  const auto node = parallel.given("zero");
  if (!node) return;
  if (node->is_scalar()) {
    parallel.study().origins[parallel.key_path("zero.stage")] = origin_of(*node);
    zero.stage = static_cast<int>(parallel.integer_of(*node, "zero"));
    return;
  }
  Section section = parallel.child("zero");
  section.read_all(
      {{"stage",
        [&] {
          zero.stage = static_cast<int>(section.integer_of(section.required("stage"), "stage"));
        }},
       {"by",
        [&] {
          section.read_given("by", [&](const YamlNode& by) {
            zero.by = static_cast<ZeroConfig::By>(read_word(by, "way to divide", kZeroByWords));
          });
        }},
       {"reduce_dtype",
        [&] {
          section.read_given("reduce_dtype", [&](const YamlNode& type) {
            zero.reduce_dtype =
                parse_dtype(kReduceTypeWords[read_word(type, "type", kReduceTypeWords)]);
          });
        }},
       {"reshard_after_forward",
        [&] {
          section.read_given("reshard_after_forward",
                             [&](const YamlNode& ranks) { read_reshard(section, ranks, zero); });
        }},
       {"offload", [&] { read_zero_offload(section, zero.offload); }},
       {"units", [&] {
          section.read_given("units", [&](const YamlNode& units) { read_units(units, zero); });
        }}});
  section.finish();
  warn_of_unused(section, parallel.study());
}

/// PyTorch's word for stage 3.
void read_fsdp(Section& parallel, ZeroConfig& zero) {
  const auto node = parallel.given("fsdp");
  if (!node || !node->as_bool()) return;
  if (parallel.contains("zero"))
    node->fail("is stage 3 of ZeRO, and parallel.zero says a stage, too; leave one of them out");
  zero.stage = 3;
  parallel.study().origins[parallel.key_path("zero.stage")] = origin_of(*node);
}

void read_buffer(Section& section, Bytes& bytes) {
  const auto buffer = section.given("d2d_buffer");
  if (!buffer) return;
  bytes = buffer->as_bytes();
  if (bytes <= 0) buffer->fail("expected more than 0 bytes; leave this key out to have no buffer");
  if (bytes > kMaxBufferBytes) buffer->fail("expected at most 1024 TiB");
}

/// "DPT", "PDT", ... or the words cluster and spread, as all five letters: missing ones go just
/// left of T, which is rightmost unless said.
std::string normalise_placement(const YamlNode& node) {
  std::string letters = node.as_string();
  if (letters == "cluster") letters = "DPT";
  if (letters == "spread") letters = "TPD";
  if (letters == "stages" || letters == "flat") return letters;  // as partition.replicas has it
  const bool known = letters.find_first_not_of("DPCET") == std::string::npos;
  bool repeated = false;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    repeated |= letters.find(letters[i], i + 1) != std::string::npos;
  }
  if (letters.empty() || !known || repeated) {
    node.fail(
        "expected letters of D, P, C, E, T, each at most once, such as DPT, or cluster, spread, "
        "stages or flat, got " +
        quoted(node.as_string()));
  }
  return full_placement(letters);
}

}  // namespace

std::string full_placement(std::string letters) {
  if (letters.find('T') == std::string::npos) letters += 'T';
  for (const char letter : {'D', 'P', 'C', 'E'}) {
    if (letters.find(letter) == std::string::npos) letters.insert(letters.find('T'), 1, letter);
  }
  return letters;
}

void read_parallel(Section& root) {
  ParallelConfig& parallel = root.study().parallel;
  Section section = root.child("parallel");
  parallel.data = 0;  // resolve_defaults() divides the devices
  parallel.placement.clear();
  section.read_all(
      {{"tensor", [&] { read_tensor(section, parallel); }},
       {"data",
        [&] {
          if (const auto node = section.given("data"))
            parallel.data = static_cast<int>(section.integer_of(*node, "data"));
        }},
       {"context", [&] { read_context(section, parallel.context); }},
       {"tensor_method", [&] { read_tensor_method(section, parallel); }},
       {"tensor_modules", [&] { read_tensor_modules(section, parallel.tensor_modules); }},
       {"expert", [&] { read_only_one(section, "expert", parallel.expert); }},
       {"zero", [&] { read_zero(section, parallel.zero); }},
       {"fsdp", [&] { read_fsdp(section, parallel.zero); }},
       {"placement",
        [&] {
          if (const auto node = section.given("placement"))
            parallel.placement = normalise_placement(*node);
        }},
       {"d2d_buffer", [&] { read_buffer(section, parallel.d2d_buffer); }}});
  section.finish();
}

}  // namespace trainyard
