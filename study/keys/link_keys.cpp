// The keys of `cluster.intra:` and `cluster.inter:`, and of a curve of such links.
#include "study/profile_reader.h"
#include "study/read_link.h"
#include "study/study_keys.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

constexpr std::string_view kRanks = "^[0-9]{1,6}$";
constexpr std::string_view kSize =
    R"(^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)? *[A-Za-z]+$)";

EntriesForm efficiency_beyond() {
  return {"size", kSize, number_above(0, kMostEfficiencyBeyond), "beyond"};
}

/// What a link may say of all its curves, and a curve of itself.
KeyTable shared_curve_keys() {
  return {{"startup", {QuantityForm{"10 us"}}, "once per call"},
          {"latency", {QuantityForm{"5 us"}}, "per step of the algorithm"},
          {"half_size", {QuantityForm{"1 MiB"}}, "message size of half the bandwidth"},
          {"efficiency", {number_above(0, 1)}, "reached share of the bandwidth"},
          {"rank_latency", {QuantityForm{"2 us"}}, "between nodes: of a ring's step inside a node"},
          {"efficiency_by_ranks",
           {EntriesForm{"ranks", kRanks, number_above(0, 1), "by_ranks"}},
           "efficiency of a group of so many ranks; {2: 0.64, 8: 0.75}"},
          {"efficiency_beyond",
           {efficiency_beyond()},
           "message size: efficiency of the bytes beyond it; {16 MiB: 0.7}"},
          {"by_ranks",
           {EntriesForm{"ranks", kRanks, MapForm{rank_group_keys, "", {"efficiency"}}, "groups"}},
           "ranks of a group: its start-up and efficiencies"}};
}

}  // namespace

const KeyTable& rank_group_keys() {
  static const KeyTable keys = {
      {"startup", {QuantityForm{"10 us"}}, "once per call"},
      {"efficiency", {number_above(0, kMostEfficiencyBeyond)}, "reached share of the bandwidth"},
      {"efficiency_beyond", {efficiency_beyond()}, "of the bytes beyond such sizes"}};
  return keys;
}

const KeyTable& measured_keys() {
  static const KeyTable keys = {{"from", {QuantityForm{"1 KiB"}}, "least"},
                                {"to", {QuantityForm{"1 GiB"}}, "most"}};
  return keys;
}

const KeyTable& curve_keys() {
  static const KeyTable keys = [] {
    KeyTable made = shared_curve_keys();
    made.push_back(
        {"source", {TextForm{}}, "where this curve comes from, if not from where its link does"});
    made.push_back(
        {"provenance", {WordForm{kProvenanceWords, {}, "kind of source"}}, "kind of source"});
    made.push_back(
        {"interval", {number_above(0, kMostInterval)}, "half of its 90 % interval, over its time"});
    made.push_back({"measured",
                    {MapForm{measured_keys, "", {"from", "to"}}},
                    "sizes of messages that were measured"});
    return made;
  }();
  return keys;
}

const KeyTable& by_kind_keys() {
  static const KeyTable keys = [] {
    KeyTable made;
    for (const std::string_view kind : kCollectives) {
      made.push_back({kind,
                      {MapForm{curve_keys, "", {}, "curve"}},
                      "start-up and efficiencies of its messages"});
    }
    return made;
  }();
  return keys;
}

const KeyTable& link_keys() {
  static const KeyTable keys = [] {
    KeyTable made = {
        {"kind", {WordForm{kLinkWords}}, "kind of link"},
        {"bandwidth",
         {QuantityForm{"300 GB/s"}},
         "one direction; per device inside a node, per node between nodes"},
        {"collective", {MapForm{curve_keys, "", {}, "curve"}}, "curve of collectives"},
        {"point_to_point", {MapForm{curve_keys, "", {}, "curve"}}, "curve of sends"},
        {"in_switch",
         {MapForm{curve_keys, "", {}, "curve"}},
         "curve of all-reduces that the switches add up"},
        {"by_kind", {MapForm{by_kind_keys}}, "collectives with a curve of their own, in a node"},
        {"name", {TextForm{}}, "what reports call these links"},
        {"source", {TextForm{}}, "where the figures come from"},
        {"provenance", {WordForm{kProvenanceWords, {}, "kind of source"}}, "kind of source"}};
    for (const StudyKey& key : shared_curve_keys()) made.push_back(key);
    return made;
  }();
  return keys;
}

}  // namespace trainyard
