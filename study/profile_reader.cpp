#include "study/profile_reader.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/graph/op_kind.h"
#include "study/device_capacity.h"
#include "study/measured_reader.h"

namespace trainyard {

namespace {

constexpr std::array<std::string_view, 4> kKinds = {"measured", "fitted", "datasheet", "derived"};

// byte_efficiency may exceed 1 (operands that stay in cache); beyond this it is a slip of the pen.
constexpr double kMostByteEfficiency = 10;

Seconds duration(const YamlNode& node, std::string_view key) {
  const std::optional<YamlNode> found = node.find(key);
  if (!found) return 0;
  const Seconds value = found->as_duration();
  if (value < 0) found->fail("expected a duration of at least 0");
  return value;
}

MatmulCurve read_matmul(const YamlNode& node) {
  MatmulCurve curve;
  curve.startup = duration(node, "startup");
  curve.flop_efficiency = read_factor(node, "flop_efficiency", 1, 1);
  curve.byte_efficiency = read_factor(node, "byte_efficiency", 1, kMostByteEfficiency);
  curve.weight_gradient_factor = read_factor(node, "weight_gradient_factor", 1, 10);
  curve.winograd = read_factor(node, "winograd", 1, 10);
  curve.provenance = read_provenance(node);
  node.finish();
  return curve;
}

AttentionCurve read_attention(const YamlNode& node) {
  AttentionCurve curve;
  curve.startup = duration(node, "startup");
  curve.forward_efficiency = read_factor(node, "forward_efficiency", 1, 1);
  curve.backward_efficiency = read_factor(node, "backward_efficiency", 1, 1);
  curve.tail = read_factor(node, "tail", 0, 1e7);
  curve.forward_byte_efficiency =
      read_factor(node, "forward_byte_efficiency", 0, kMostByteEfficiency);
  curve.backward_byte_efficiency =
      read_factor(node, "backward_byte_efficiency", 0, kMostByteEfficiency);
  curve.small_head_factor = read_factor(node, "small_head_factor", 1, 1);
  curve.provenance = read_provenance(node);
  node.finish();
  return curve;
}

MemoryCurve read_memory_curve(const YamlNode& node) {
  MemoryCurve curve;
  curve.floor = duration(node, "floor");
  curve.startup = duration(node, "startup");
  curve.efficiency = read_factor(node, "efficiency", 1, 1);
  curve.provenance = read_provenance(node);
  node.finish();
  return curve;
}

void read_peak(const YamlNode& node, HardwareProfile& profile) {
  profile.peak_provenance = read_provenance(node);
  for (const std::string& key : node.keys()) {
    const std::optional<DType> type = parse_dtype(key);
    if (!type) continue;  // kind, note, or unknown: finish() says so
    const YamlNode rate = node.at(key);
    profile.peak[*type] = rate.as_flop_per_second();
    if (profile.peak[*type] <= 0) rate.fail("expected more than 0 FLOP/s");
  }
  node.finish();
  if (profile.peak.empty()) node.fail("expected a rate for at least one type, e.g. fp32");
}

void read_memory(const YamlNode& node, HardwareProfile& profile) {
  profile.memory_capacity = node.at("capacity").as_bytes();
  profile.memory_reserved = node.at("reserved").as_bytes();
  if (profile.memory_reserved < 0 || profile.memory_reserved >= profile.memory_capacity) {
    node.at("reserved").fail("expected at least 0 and less than the capacity");
  }
  profile.memory_provenance = read_provenance(node);
  node.finish();
}

Sustained read_sustained(const YamlNode& node) {
  Sustained sustained;
  sustained.products = read_factor(node, "products", 1, 1);
  sustained.attention = read_factor(node, "attention", 1, 1);
  sustained.provenance = read_provenance(node);
  node.finish();
  return sustained;
}

/// How many times longer something takes than the time `of`.
double read_slowing(const YamlNode& node, std::string_view key, const std::string& of) {
  constexpr double kMost = 100;
  const double value = read_factor(node, key, 1, kMost);
  if (value < 1) node.at(key).fail("expected at least 1, the time " + of);
  return value;
}

UnalignedRows read_unaligned(const YamlNode& node) {
  const auto factor = [&](std::string_view key) {
    return read_slowing(node, key, "of products that are aligned");
  };
  UnalignedRows rows;
  rows.even = factor("even");
  rows.odd = factor("odd");
  rows.odd_result = factor("odd_result");
  rows.provenance = read_provenance(node);
  node.finish();
  return rows;
}

void read_bandwidth(const YamlNode& node, HardwareProfile& profile) {
  profile.memory_bandwidth = node.at("rate").as_bandwidth();
  if (profile.memory_bandwidth <= 0) node.at("rate").fail("expected more than 0 bytes/s");
  profile.bandwidth_provenance = read_provenance(node);
  node.finish();
}

HostLink read_host_link(const YamlNode& node) {
  HostLink link;
  link.bandwidth = node.at("rate").as_bandwidth();
  if (link.bandwidth <= 0) node.at("rate").fail("expected more than 0 bytes/s");
  link.latency = duration(node, "latency");
  link.provenance = read_provenance(node);
  node.finish();
  return link;
}

/// Where a profile says nothing: a CPU's copy reads and writes its own memory. Of a GPU nothing is
/// known then.
HostLink default_host_link(const HardwareProfile& profile) {
  if (profile.architecture != "cpu") return {};
  return {profile.memory_bandwidth / 2,
          0,
          {"derived", "half of the memory's bandwidth: a copy reads and writes it; " +
                          profile.bandwidth_provenance.note}};
}

void read_memory_bound(const YamlNode& node, HardwareProfile& profile) {
  for (const std::string& key : node.keys()) {
    const YamlNode entry = node.at(key);
    const std::optional<KindAndPart> op = parse_op_name(key);
    if (key != "default" && key != kPersistentLayerNorm && (!op || op->part != OpPart::kForward)) {
      entry.fail("no op kind is called that; \"default\" is for those without an entry");
    }
    profile.memory_bound.insert_or_assign(key, read_memory_curve(entry));
  }
}

/// Where a profile says nothing of convolutions, or of FP8.
MatmulCurve as_products(MatmulCurve curve) {
  curve.provenance.kind = "derived";
  curve.provenance.note = "as linear layers, of which: " + curve.provenance.note;
  return curve;
}

/// Takes the curves of another device, marked as such.
void take_curves(const HardwareProfile& other, const std::string& why, HardwareProfile& profile) {
  profile.matmul = other.matmul;
  profile.batched_matmul = other.batched_matmul;
  profile.convolution = other.convolution;
  profile.plain_convolution = other.plain_convolution;
  profile.fp8_matmul = other.fp8_matmul;
  profile.flash_attention = other.flash_attention;
  profile.other_flash_attention = other.other_flash_attention;
  profile.memory_bound = other.memory_bound;
  profile.optimizer = other.optimizer;
  profile.launch = other.launch;
  const auto mark = [&](Provenance& provenance) {
    provenance = {"derived", "as on " + other.name + " (" + why + "): " + provenance.note};
  };
  mark(profile.matmul.provenance);
  mark(profile.batched_matmul.provenance);
  mark(profile.convolution.provenance);
  mark(profile.plain_convolution.provenance);
  mark(profile.fp8_matmul.provenance);
  mark(profile.flash_attention.provenance);
  for (auto& [name, curve] : profile.other_flash_attention) mark(curve.provenance);
  for (auto& [name, curve] : profile.memory_bound) mark(curve.provenance);
  mark(profile.optimizer.provenance);
  profile.sustained = other.sustained;
  if (!profile.sustained.provenance.note.empty()) mark(profile.sustained.provenance);
  profile.unaligned = other.unaligned;
  if (profile.unaligned.any()) mark(profile.unaligned.provenance);
  profile.slowdown = other.slowdown;
  if (profile.slowdown.any()) mark(profile.slowdown.provenance);
  profile.launch_provenance = other.launch_provenance;  // the host's, whatever the device
}

void read_like(const std::string& root, const YamlNode& node, HardwareProfile& profile) {
  const std::string why = node.at("like_because").as_string();
  const std::string name = node.at("like").as_string();
  const auto found = find_yaml(root + "/calibrate/profiles", name);
  if (!found || found->root.has("like")) {
    node.at("like").fail("expected a profile that has curves of its own, got '" + name + "'");
  }
  take_curves(read_hardware_profile(root, found->name, found->root), why, profile);
}

}  // namespace

DType read_dtype(const YamlNode& node) {
  const std::optional<DType> type = parse_dtype(node.as_string());
  if (!type) node.fail("expected a type such as bf16, got '" + node.as_string() + "'");
  return *type;
}

Slowdown read_slowdown(const YamlNode& node) {
  const auto factor = [&](std::string_view key) {
    return read_slowing(node, key, "without anything beside it");
  };
  Slowdown slowdown;
  slowdown.compute_by_communication = factor("compute_by_communication");
  slowdown.communication_by_compute = factor("communication_by_compute");
  slowdown.provenance = read_provenance(node);
  node.finish();
  return slowdown;
}

Provenance read_provenance(const YamlNode& node) {
  const YamlNode kind = node.at("kind");
  Provenance provenance{kind.as_string(), node.at("note").as_string(), 0};
  if (std::find(kKinds.begin(), kKinds.end(), provenance.kind) == kKinds.end()) {
    kind.fail("expected measured, fitted, datasheet or derived, got '" + provenance.kind + "'");
  }
  if (provenance.note.empty()) node.at("note").fail("expected how this number was found");
  provenance.interval = read_factor(node, "interval", 0, kMostInterval);
  return provenance;
}

double read_factor(const YamlNode& node, std::string_view key, double fallback, double most) {
  const std::optional<YamlNode> found = node.find(key);
  if (!found) return fallback;
  const double value = found->as_number();
  if (value <= 0) found->fail("expected more than 0, got " + number_text(value));
  if (value > most) {
    found->fail("expected at most " + number_text(most) + ", got " + number_text(value));
  }
  return value;
}

HardwareProfile read_hardware_profile(const std::string& root, const std::string& name,
                                      const YamlNode& node) {
  HardwareProfile profile;
  profile.name = name;
  profile.description = node.at("description").as_string();
  profile.architecture = node.at("architecture").as_string();
  read_peak(node.at("peak"), profile);
  read_memory(node.at("memory"), profile);
  read_bandwidth(node.at("bandwidth"), profile);

  // Curves: each required unless another profile has given it.
  const bool like = node.has("like");
  if (like) read_like(root, node, profile);
  const auto curve = [&](std::string_view key) {
    return like ? node.find(key) : std::optional<YamlNode>(node.at(key));
  };
  if (const auto entry = curve("matmul")) profile.matmul = read_matmul(*entry);
  if (const auto entry = curve("batched_matmul")) profile.batched_matmul = read_matmul(*entry);
  if (!like) profile.convolution = profile.plain_convolution = as_products(profile.matmul);
  if (!like || node.has("matmul")) profile.fp8_matmul = as_products(profile.matmul);
  if (const auto entry = node.find("fp8_matmul")) profile.fp8_matmul = read_matmul(*entry);
  if (const auto entry = node.find("convolution")) profile.convolution = read_matmul(*entry);
  if (const auto entry = node.find("plain_convolution"))
    profile.plain_convolution = read_matmul(*entry);
  if (const auto entry = curve("flash_attention")) profile.flash_attention = read_attention(*entry);
  if (const auto entry = node.find("other_flash_attention")) {
    for (const std::string& kernel : entry->keys()) {
      profile.other_flash_attention[kernel] = read_attention(entry->at(kernel));
    }
  }
  if (const auto entry = curve("memory_bound")) read_memory_bound(*entry, profile);
  if (profile.memory_bound.count("default") == 0) node.at("memory_bound").at("default");
  if (const auto entry = curve("optimizer")) profile.optimizer = read_memory_curve(*entry);
  if (const auto entry = curve("launch")) {
    profile.launch = duration(*entry, "time");
    profile.launch_provenance = read_provenance(*entry);
    entry->finish();
  }
  if (const auto entry = node.find("sustained")) profile.sustained = read_sustained(*entry);
  if (const auto entry = node.find("unaligned")) profile.unaligned = read_unaligned(*entry);
  if (const auto entry = node.find("slowdown")) profile.slowdown = read_slowdown(*entry);
  if (const auto entry = node.find("host_computes")) profile.host_computes = entry->as_bool();
  const auto host_link = node.find("host_link");
  profile.host_link = host_link ? read_host_link(*host_link) : default_host_link(profile);
  if (const auto entry = node.find("kernels"))
    profile.measured = read_measured_kernels(*entry, profile);
  node.find("links");        // find_link() reads them
  node.find("calibration");  // how it was made, for people
  node.finish();
  return profile;
}

std::optional<HardwareProfile> find_hardware_profile(const std::string& root,
                                                     const std::string& device) {
  if (device.ends_with(".yaml")) {
    return read_hardware_profile(root, std::filesystem::path(device).stem().string(),
                                 YamlNode::load_file(device));
  }
  const auto found = find_yaml(root + "/calibrate/profiles", device);
  if (found) return read_hardware_profile(root, found->name, found->root);
  const auto named = name_with_capacity(root, device);
  if (!named) return std::nullopt;
  auto profile = find_hardware_profile(root, named->shipped);
  if (!profile || profile->architecture == "cpu") return std::nullopt;
  return with_capacity(*std::move(profile), *named);
}

std::vector<NamedDescription> list_profiles(const std::string& root) {
  return list_yaml(root + "/calibrate/profiles");
}

}  // namespace trainyard
