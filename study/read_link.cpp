#include "study/read_link.h"

#include <array>
#include <string>
#include <utility>

#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "study/profile_reader.h"
#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

constexpr std::array<std::string_view, 8> kCurveKeys = {"startup",           "latency",
                                                        "rank_latency",      "efficiency",
                                                        "half_size",         "efficiency_by_ranks",
                                                        "efficiency_beyond", "by_ranks"};
constexpr std::array<std::string_view, 4> kSourceKeys = {"source", "provenance", "interval",
                                                         "measured"};  // of a curve
constexpr std::array<std::string_view, 2> kCurves = {"collective", "point_to_point"};
constexpr std::string_view kInSwitch = "in_switch";

std::string in_curve(std::string_view curve, std::string_view key) {
  return std::string(curve) + "." + std::string(key);
}

/// What the link says of both its curves comes from there in each.
void record_shared_keys(Section& link_section) {
  auto& origins = link_section.study().origins;
  for (const std::string_view key : kCurveKeys) {
    const auto origin = link_section.given(key);
    if (!origin) continue;
    for (const std::string_view curve : kCurves) {
      origins[link_section.key_path(in_curve(curve, key))] = origin_of(*origin);
    }
  }
}

double read_efficiency(const YamlNode& node, double most) {
  const double efficiency = node.as_number();
  if (!(efficiency > 0) || efficiency > most) {
    node.fail("expected a share of the bandwidth, more than 0 and at most " + number_text(most) +
              ", got " + number_text(efficiency));
  }
  return efficiency;
}

void read_curve(Section& section, LinkCurve& curve) {
  if (const auto node = section.given("startup")) curve.startup = node->as_duration();
  if (const auto node = section.given("latency")) curve.latency = node->as_duration();
  if (const auto node = section.given("rank_latency")) curve.rank_latency = node->as_duration();
  if (const auto node = section.given("half_size")) curve.half_size = node->as_bytes();
  if (const auto node = section.given("efficiency")) {
    curve.efficiency = read_efficiency(*node, 1);
    curve.efficiency_by_ranks.clear();  // one figure for all groups and sizes
    curve.efficiency_beyond.clear();
    curve.by_ranks.clear();
  }
}

void read_maps(Section& section, LinkCurve& curve) {
  if (const auto node = section.given("efficiency_by_ranks")) {
    curve.efficiency_by_ranks = read_efficiency_by_ranks(*node);
    curve.by_ranks.clear();
  }
  if (const auto node = section.given("efficiency_beyond"))
    curve.efficiency_beyond = read_efficiency_beyond(*node);
  if (const auto node = section.given("by_ranks")) curve.by_ranks = read_groups(*node);
}

/// Where a curve comes from, if it does not come from where its link does.
void read_sources(Section& section, const LinkClass& link, LinkCurve& curve) {
  const auto source = section.given("source"), kind = section.given("provenance");
  if ((source || kind) && curve.provenance.note.empty()) {
    curve.provenance.kind = link.provenance;
    curve.provenance.note = link.source;
  }
  if (source) curve.provenance.note = source->as_text();
  if (source && curve.provenance.note.empty()) source->fail("expected how the figures were found");
  if (kind)
    curve.provenance.kind = kProvenanceWords[read_word(*kind, "kind of source", kProvenanceWords)];
  if (const auto interval = section.given("interval")) {
    curve.provenance.interval = read_factor(*section.node(), "interval", 0, kMostInterval);
  }
  if (const auto measured = section.given("measured")) read_measured_range(*measured, curve);
}

void read_map(Section section, const LinkClass& link, LinkCurve& curve) {
  read_curve(section, curve);
  read_maps(section, curve);
  read_sources(section, link, curve);
  section.finish();
}

void read_own_curve(Section& link_section, std::string_view key, const LinkClass& link,
                    LinkCurve& curve) {
  read_curve(link_section, curve);
  read_maps(link_section, curve);
  read_map(link_section.child(key), link, curve);
}

void read_in_switch(Section& link_section, LinkClass& link) {
  Section section = link_section.child(kInSwitch);
  if (!section.node()) return;
  if (!link.in_switch) link.in_switch.emplace();
  read_map(std::move(section), link, *link.in_switch);
}

/// Collectives with a curve of their own.
void read_by_kind(Section& link_section, LinkClass& link) {
  Section kinds = link_section.child("by_kind");
  if (!kinds.node()) return;
  for (const std::string_view kind : kCollectives) {
    Section section = kinds.child(kind);
    if (!section.node()) continue;
    read_map(std::move(section), link, link.by_kind[std::string(kind)]);
  }
  kinds.finish();
}

/// A number of ranks as a key.
std::int64_t read_ranks(const std::string& key, const YamlNode& entry) {
  const bool number =
      !key.empty() && key.size() < 7 && key.find_first_not_of("0123456789") == std::string::npos;
  if (!number) entry.fail("expected a number of ranks as the key");
  return std::stoll(key);
}

}  // namespace

void record_link(Section& parent, std::string_view key, const Origin& origin) {
  auto& origins = parent.study().origins;
  const std::string link = parent.key_path(key) + ".";
  for (const char* value : {"kind", "bandwidth", "name", "source", "provenance"}) {
    origins[link + value] = origin;
  }
  const auto record_curve = [&](const std::string& curve) {
    for (const std::string_view value : kCurveKeys) origins[link + in_curve(curve, value)] = origin;
    for (const std::string_view value : kSourceKeys)
      origins[link + in_curve(curve, value)] = origin;
  };
  for (const std::string_view curve : {kCurves[0], kCurves[1], kInSwitch})
    record_curve(std::string(curve));
  for (const std::string_view kind : kCollectives) record_curve(in_curve("by_kind", kind));
}

void read_measured_range(const YamlNode& node, LinkCurve& curve) {
  curve.measured_from = node.at("from").as_bytes();
  curve.measured_to = node.at("to").as_bytes();
  if (curve.measured_from < 0 || curve.measured_to < curve.measured_from)
    node.fail("expected from at most to");
  node.finish();
}

std::map<std::int64_t, double> read_efficiency_by_ranks(const YamlNode& node) {
  std::map<std::int64_t, double> efficiencies;
  for (const std::string& ranks : node.keys()) {
    const YamlNode entry = node.at(ranks);
    const std::int64_t number = read_ranks(ranks, entry);
    efficiencies[number] = read_efficiency(entry, 1);
  }
  return efficiencies;
}

std::map<Bytes, double> read_efficiency_beyond(const YamlNode& node) {
  std::map<Bytes, double> efficiencies;
  for (const std::string& size : node.keys()) {
    const YamlNode entry = node.at(size);
    const Quantity bytes = parse_quantity(size, Dimension::kBytes);
    if (!bytes.problem.empty() || !(bytes.value > 0))
      entry.fail("expected a size as the key, such as 16 MiB");
    efficiencies[static_cast<Bytes>(bytes.value)] = read_efficiency(entry, kMostEfficiencyBeyond);
  }
  return efficiencies;
}

std::map<std::int64_t, LinkCurve::Group> read_groups(const YamlNode& node) {
  std::map<std::int64_t, LinkCurve::Group> groups;
  for (const std::string& ranks : node.keys()) {
    const YamlNode entry = node.at(ranks);
    LinkCurve::Group& group = groups[read_ranks(ranks, entry)];
    if (const auto startup = entry.find("startup")) {
      group.startup = startup->as_duration();
      if (group.startup < 0) startup->fail("expected a duration of at least 0");
    }
    group.efficiency = read_efficiency(entry.at("efficiency"), kMostEfficiencyBeyond);
    if (const auto beyond = entry.find("efficiency_beyond"))
      group.efficiency_beyond = read_efficiency_beyond(*beyond);
    entry.finish();
  }
  return groups;
}

bool read_link_by_kind(Section& parent, std::string_view key, LinkClass& link,
                       const std::string& device, std::int64_t nics, BytesPerSecond of_nics,
                       const StudyResolvers& resolvers) {
  const auto node = parent.given(key);
  if (!node) return false;
  const bool only_kind = node->is_map() && node->contains("kind") && node->keys().size() == 1;
  if (!node->is_scalar() && !only_kind) return false;
  const YamlNode named = only_kind ? node->at("kind") : *node;
  if (named.is_null()) return false;
  const std::string kind(kLinkWords[read_word(named, "kind of link", kLinkWords)]);
  if (kind == link.kind) return true;
  record_link(parent, key, {Origin::Kind::kPreset, node->pos(), "links of " + kind});
  parent.study().origins[parent.key_path(key) + ".kind"] = origin_of(named);
  if (kind == "none") {
    link = LinkClass{};
    link.kind = kind;
    return true;
  }
  std::optional<LinkClass> found = resolvers.link(kind, device);
  if (!found) {
    named.fail("no curves for links of kind " + quoted(kind) + " between devices " + device +
               known_names(kind, resolvers, StudyResolvers::Names::kLinks));
  }
  if (found->bandwidth <= 0)
    found->bandwidth = found->bandwidth_per_nic * static_cast<double>(nics);
  if (found->bandwidth <= 0) found->bandwidth = of_nics;
  if (found->bandwidth <= 0) {
    named.fail("links of kind " + kind + " have no usual bandwidth; write {kind: " + kind +
               ", bandwidth: 25 GB/s}");
  }
  link = *std::move(found);
  return true;
}

void read_link(Section& parent, std::string_view key, LinkClass& link) {
  Section section = parent.child(key);
  if (!section.node()) return;
  const bool fresh = link.kind.empty() || link.kind == "none";
  if (fresh) {
    record_link(parent, key, default_origin());
    section.required("kind");
  }
  const std::string kind_before = link.kind;
  section.word("kind", link.kind);
  if (!fresh && link.kind != kind_before) {
    section.required("kind").fail(
        "the preset's links are " + kind_before +
        ", and so are their curves; write the cluster out to have others");
  }
  if (fresh && link.kind != "none") section.required("bandwidth");
  if (const auto node = section.given("bandwidth")) {
    link.bandwidth = node->as_bandwidth();
    if (!(link.bandwidth > 0) && link.kind != "none") node->fail("expected more than 0");
  }
  if (fresh) link.source = "written in the study";
  if (fresh) link.provenance = "derived";
  section.text("name", link.name);
  section.text("source", link.source);
  section.word("provenance", link.provenance);
  record_shared_keys(section);
  read_own_curve(section, kCurves[0], link, link.collective);
  read_own_curve(section, kCurves[1], link, link.point_to_point);
  read_in_switch(section, link);
  read_by_kind(section, link);
  section.finish();
}

}  // namespace trainyard
