#include "study/read_link.h"

#include <array>
#include <string>
#include <utility>

#include "engine/base/mistakes.h"
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
    link_section.read_given(key, [&](const YamlNode& node) {
      for (const std::string_view curve : kCurves)
        origins[link_section.key_path(in_curve(curve, key))] = origin_of(node);
    });
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
  const auto duration = [&](std::string_view key, Seconds& value) {
    section.read_given(key, [&](const YamlNode& node) { value = node.as_duration(); });
  };
  duration("startup", curve.startup);
  duration("latency", curve.latency);
  duration("rank_latency", curve.rank_latency);
  section.read_given("half_size", [&](const YamlNode& node) { curve.half_size = node.as_bytes(); });
  section.read_given("efficiency", [&](const YamlNode& node) {
    curve.efficiency = read_efficiency(node, 1);
    curve.efficiency_by_ranks.clear();  // one figure for all groups and sizes
    curve.efficiency_beyond.clear();
    curve.by_ranks.clear();
  });
}

void read_maps(Section& section, LinkCurve& curve) {
  section.read_given("efficiency_by_ranks", [&](const YamlNode& node) {
    curve.efficiency_by_ranks = read_efficiency_by_ranks(node);
    curve.by_ranks.clear();
  });
  section.read_given("efficiency_beyond", [&](const YamlNode& node) {
    curve.efficiency_beyond = read_efficiency_beyond(node);
  });
  section.read_given("by_ranks", [&](const YamlNode& node) { curve.by_ranks = read_groups(node); });
}

/// Where a curve comes from, if it does not come from where its link does.
void read_sources(Section& section, const LinkClass& link, LinkCurve& curve) {
  if ((section.given("source") || section.given("provenance")) && curve.provenance.note.empty()) {
    curve.provenance.kind = link.provenance;
    curve.provenance.note = link.source;
  }
  section.read_given("source", [&](const YamlNode& node) {
    curve.provenance.note = node.as_text();
    if (curve.provenance.note.empty()) node.fail("expected how the figures were found");
  });
  section.draft().attempt([&] { section.word("provenance", curve.provenance.kind); });
  section.read_given("interval", [&](const YamlNode&) {
    curve.provenance.interval = read_factor(*section.node(), "interval", 0, kMostInterval);
  });
  section.read_given("measured", [&](const YamlNode& node) { read_measured_range(node, curve); });
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
  link_section.draft().attempt([&] { read_map(link_section.child(key), link, curve); });
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
    link_section.draft().attempt([&] {
      Section section = kinds.child(kind);
      if (section.node()) read_map(std::move(section), link, link.by_kind[std::string(kind)]);
    });
  }
  kinds.finish();
}

/// `fresh`: of links of which nothing is known yet.
void read_kind(Section& section, bool fresh, LinkClass& link) {
  if (fresh) section.required("kind");
  const std::string kind_before = link.kind;
  section.word("kind", link.kind);
  if (fresh || link.kind == kind_before) return;
  section.required("kind").fail("the preset's links are " + kind_before +
                                ", and so are their curves; write the cluster out to have others");
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
  Mistakes mistakes;
  mistakes.attempt([&] { curve.measured_from = node.at("from").as_bytes(); });
  mistakes.attempt([&] { curve.measured_to = node.at("to").as_bytes(); });
  mistakes.settle();
  if (curve.measured_from < 0 || curve.measured_to < curve.measured_from)
    node.fail("expected from at most to");
  node.finish();
}

std::map<std::int64_t, double> read_efficiency_by_ranks(const YamlNode& node) {
  std::map<std::int64_t, double> efficiencies;
  node.each_entry([&](const std::string& ranks, const YamlNode& entry) {
    const std::int64_t number = read_ranks(ranks, entry);
    efficiencies[number] = read_efficiency(entry, 1);
  });
  return efficiencies;
}

std::map<Bytes, double> read_efficiency_beyond(const YamlNode& node) {
  std::map<Bytes, double> efficiencies;
  node.each_entry([&](const std::string& size, const YamlNode& entry) {
    const Quantity bytes = parse_quantity(size, Dimension::kBytes);
    if (!bytes.problem.empty() || !(bytes.value > 0))
      entry.fail("expected a size as the key, such as 16 MiB");
    efficiencies[static_cast<Bytes>(bytes.value)] = read_efficiency(entry, kMostEfficiencyBeyond);
  });
  return efficiencies;
}

std::map<std::int64_t, LinkCurve::Group> read_groups(const YamlNode& node) {
  std::map<std::int64_t, LinkCurve::Group> groups;
  node.each_entry([&](const std::string& ranks, const YamlNode& entry) {
    LinkCurve::Group& group = groups[read_ranks(ranks, entry)];
    Mistakes mistakes;
    mistakes.attempt([&] {
      const auto startup = entry.find("startup");
      if (!startup) return;
      group.startup = startup->as_duration();
      if (group.startup < 0) startup->fail("expected a duration of at least 0");
    });
    mistakes.attempt(
        [&] { group.efficiency = read_efficiency(entry.at("efficiency"), kMostEfficiencyBeyond); });
    mistakes.attempt([&] {
      if (const auto beyond = entry.find("efficiency_beyond"))
        group.efficiency_beyond = read_efficiency_beyond(*beyond);
    });
    mistakes.attempt([&] { entry.finish(); });
    mistakes.settle();
  });
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
    named.fail("no curves for links of kind " + in_quotes(kind) + " between devices " + device +
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
  StudyDraft& draft = parent.draft();
  const bool fresh = link.kind.empty() || link.kind == "none";
  if (fresh) {
    record_link(parent, key, default_origin());
    link.source = "written in the study";
    link.provenance = "derived";
  }
  draft.attempt([&] { read_kind(section, fresh, link); });
  draft.rule({section.key_path("kind")}, [&] {
    if (fresh && link.kind != "none") section.required("bandwidth");
  });
  section.read_given("bandwidth", [&](const YamlNode& node) {
    link.bandwidth = node.as_bandwidth();
    if (!(link.bandwidth > 0) && link.kind != "none") node.fail("expected more than 0");
  });
  draft.attempt([&] { section.text("name", link.name); });
  draft.attempt([&] { section.text("source", link.source); });
  draft.attempt([&] { section.word("provenance", link.provenance); });
  record_shared_keys(section);
  read_own_curve(section, kCurves[0], link, link.collective);
  read_own_curve(section, kCurves[1], link, link.point_to_point);
  draft.attempt([&] { read_in_switch(section, link); });
  draft.attempt([&] { read_by_kind(section, link); });
  section.finish();
}

}  // namespace trainyard
