// The `parallel:` block: degrees, ZeRO and placement. Degrees that this version cannot run are
// refused here; whether they fit the model and the cluster is study_checks.cpp's business.
#include <string>
#include <vector>

#include "engine/base/user_text.h"
#include "engine/plan/plan_limits.h"
#include "study/read_tensor_method.h"
#include "study/split_modules.h"
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
  for (const std::string_view key : {"method", "balance"}) {
    if (context.degree == 1 && section.contains(key))
      parallel.study().warnings.push_back(section.key_path(key) +
                                          " is not used: degree is 1, and no ranks share a "
                                          "sequence");
  }
  section.finish();
}

void read_units(const Section& section, const YamlNode& node, ZeroConfig& zero) {
  if (node.is_scalar()) {
    if (node.as_string() == kLayerUnits) return;
    node.fail("expected layer, or a list of patterns of modules such as [\"*.layers.*\"], got " +
              in_quotes(node.as_string()));
  }
  node.each_item([&](const YamlNode& item) {
    section.study().origins[units_item(zero.units.size())] = origin_of(item);
    zero.units.push_back(item.as_string());
  });
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

/// Means something to stage 3 alone, whose parameters owners cannot have.
void read_layout(Section& section, ZeroConfig& zero) {
  section.read_given("layout", [&](const YamlNode& layout) {
    const bool flat = kZeroLayoutWords[read_word(layout, "layout", kZeroLayoutWords)] == "flat";
    if (!flat && zero.stage >= 3 && zero.by == ZeroConfig::By::kShard)
      zero.by = ZeroConfig::By::kRows;
  });
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
void warn_of_unused_parallel(const Section& section, Study& study) {
  constexpr std::string_view kGathers[] = {"units", "layout", "prefetch", "gathers_in_flight",
                                           "reshard_after_forward"};
  const int stage = study.parallel.zero.stage;
  const auto warn = [&](std::string_view key, int least, const std::string& why) {
    if (stage < least && section.contains(key))
      study.warnings.push_back(section.key_path(key) + " is not used: " + why);
  };
  const std::string of_stage = "stage " + std::to_string(stage) + " ";
  for (const std::string_view key : {"by", "replicate"}) warn(key, 1, "stage 0 divides nothing");
  if (stage == 1) warn("reduce", 2, "stage 1 reduces once a step");
  warn("reduce_dtype", 2, of_stage + "reduces gradients as they add up");
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
       {"gather_dtype",
        [&] {
          section.read_given("gather_dtype", [&](const YamlNode& type) {
            zero.gathers_fp8 = read_word(type, "type of gathers", kFp8GatherWords) == 1;
          });
        }},
       {"reshard_after_forward",
        [&] {
          section.read_given("reshard_after_forward",
                             [&](const YamlNode& ranks) { read_reshard(section, ranks, zero); });
        }},
       {"offload", [&] { read_zero_offload(section, zero.offload); }},
       {"layout", [&] { read_layout(section, zero); }},
       {"units", [&] {
          section.read_given("units",
                             [&](const YamlNode& units) { read_units(section, units, zero); });
        }}});
  section.finish();
  warn_of_unused_parallel(section, parallel.study());
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
        in_quotes(node.as_string()));
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
       {"tensor_overlap", [&] { read_tensor_overlap(section, parallel.tensor_overlap); }},
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
