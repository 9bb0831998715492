#include "engine/config/read_link.h"

#include "engine/config/quantity.h"
#include "engine/config/study_words.h"

namespace trainyard {

namespace {

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
  }
}

void read_own_curve(Section& link_section, std::string_view key, LinkCurve& curve) {
  read_curve(link_section, curve);
  Section section = link_section.child(key);
  read_curve(section, curve);
  section.finish();
}

}  // namespace

void read_link(Section& parent, std::string_view key, LinkClass& link) {
  Section section = parent.child(key);
  if (!section.node()) return;
  const bool fresh = link.kind.empty() || link.kind == "none";
  if (fresh) section.required("kind");
  section.text("kind", link.kind);
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
  read_own_curve(section, "collective", link.collective);
  read_own_curve(section, "point_to_point", link.point_to_point);
  section.finish();
}

}  // namespace trainyard
