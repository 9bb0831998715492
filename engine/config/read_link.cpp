#include "engine/config/read_link.h"

#include <array>
#include <string>

#include "engine/config/quantity.h"
#include "engine/config/study_origin.h"
#include "engine/config/study_words.h"

namespace trainyard {

namespace {

constexpr std::array<std::string_view, 5> kCurveKeys = {"startup", "latency", "efficiency",
                                                        "half_size", "efficiency_by_ranks"};
constexpr std::array<std::string_view, 2> kCurves = {"collective", "point_to_point"};

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

void read_curve(Section& section, LinkCurve& curve) {
  if (const auto node = section.given("startup")) curve.startup = node->as_duration();
  if (const auto node = section.given("latency")) curve.latency = node->as_duration();
  if (const auto node = section.given("half_size")) curve.half_size = node->as_bytes();
  if (const auto node = section.given("efficiency")) {
    curve.efficiency = node->as_number();
    if (!(curve.efficiency > 0) || curve.efficiency > 1) {
      node->fail("expected a share of the bandwidth, more than 0 and at most 1, got " +
                 number_text(curve.efficiency));
    }
    curve.efficiency_by_ranks.clear();  // one figure for all groups
  }
}

void read_by_ranks(Section& section, LinkCurve& curve) {
  if (const auto node = section.given("efficiency_by_ranks")) {
    curve.efficiency_by_ranks = read_efficiency_by_ranks(*node);
  }
}

void read_own_curve(Section& link_section, std::string_view key, LinkCurve& curve) {
  read_curve(link_section, curve);
  read_by_ranks(link_section, curve);
  Section section = link_section.child(key);
  read_curve(section, curve);
  read_by_ranks(section, curve);
  section.finish();
}

}  // namespace

void record_link(Section& parent, std::string_view key, const Origin& origin) {
  auto& origins = parent.study().origins;
  const std::string link = parent.key_path(key) + ".";
  for (const char* value : {"kind", "bandwidth", "name", "source", "provenance"}) {
    origins[link + value] = origin;
  }
  for (const std::string_view curve : kCurves) {
    for (const std::string_view value : kCurveKeys) origins[link + in_curve(curve, value)] = origin;
  }
}

std::map<std::int64_t, double> read_efficiency_by_ranks(const YamlNode& node) {
  std::map<std::int64_t, double> efficiencies;
  for (const std::string& ranks : node.keys()) {
    const YamlNode entry = node.at(ranks);
    const bool number = !ranks.empty() && ranks.size() < 7 &&
                        ranks.find_first_not_of("0123456789") == std::string::npos;
    if (!number) entry.fail("expected a number of ranks as the key");
    const double efficiency = entry.as_number();
    if (!(efficiency > 0) || efficiency > 1) {
      entry.fail("expected a share of the bandwidth, more than 0 and at most 1, got " +
                 number_text(efficiency));
    }
    efficiencies[std::stoll(ranks)] = efficiency;
  }
  return efficiencies;
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
  section.word("kind", link.kind, kLinkWords);
  if (!fresh && link.kind != kind_before) {
    section.required("kind").fail("the preset's links are " + kind_before +
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
  section.word("provenance", link.provenance, kProvenanceWords);
  record_shared_keys(section);
  read_own_curve(section, kCurves[0], link.collective);
  read_own_curve(section, kCurves[1], link.point_to_point);
  section.finish();
}

}  // namespace trainyard
