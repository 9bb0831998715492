#include "report/timeline_blob.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "engine/program/program_words.h"
#include "report/memory_points.h"
#include "report/timeline_pattern.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kUnknown = TimelinePatterns::kUnknown;

/// `count` of `total` indices, evenly spaced, the first and the last among them.
std::vector<std::size_t> evenly(std::size_t count, std::size_t total) {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < count; ++i)
    chosen.push_back(count == 1 ? 0 : i * (total - 1) / (count - 1));
  return chosen;
}

class TimelineEncoder {
 public:
  TimelineEncoder(const Timeline& timeline, const TimelineLimits& limits)
      : timeline_(timeline),
        limits_(limits) {}

  Json make() {
    choose_ranks();
    sort_ops();
    choose_calls();
    find_patterns();
    Json out;
    out["unit_s"] = kTimelineUnit;
    out["end"] = in_timeline_units(timeline_.end());
    out["names"] = timeline_.names;
    out["modules"] = used_modules();
    out["segments"] = used_segments();
    out["groups"] = Json::array();
    for (const TimelineGroup& g : timeline_.groups) out["groups"].push_back({g.name, g.axes});
    out["axes"] = timeline_.axes;
    out["streams"] = program_words::kStreams;
    out["patterns"] = Json::array();
    for (const TimelinePattern& pattern : patterns_.all())
      out["patterns"].push_back(to_json(pattern));
    out["ranks"] = Json::array();
    std::set<std::int32_t> seen;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      out["ranks"].push_back(rank_json(r, seen.insert(ranks_[r].from->pipeline_rank).second));
    }
    out["left_out"] = {{"ranks", timeline_.ranks.size() - ranks_.size()},
                       {"calls", calls_left_out_},
                       {"calls_without_ops", calls_without_ops_},
                       {"memory_points", memory_points_left_out_}};
    return out;
  }

 private:
  struct Rank {
    const TimelineRank* from = nullptr;
    std::vector<std::uint32_t> ops;  // indices into from->ops, call by call
    std::vector<std::size_t> first;  // [call]: its first in `ops`, and one past the last
    std::vector<std::size_t> kept;   // calls
    std::vector<std::size_t>
        pair;  // [kept]: the place there of the call that it runs with, or kUnknown
    std::vector<std::size_t> pattern;  // [kept]
  };

  void choose_ranks() {
    std::size_t calls = 0;
    for (const TimelineRank& rank : timeline_.ranks) calls += rank.calls.size();
    const std::size_t total = timeline_.ranks.size();
    std::size_t count = total;
    if (calls > limits_.max_calls) {
      // Rather the ends of a few ranks' steps than the whole of one.
      const auto share = static_cast<double>(limits_.max_calls) / static_cast<double>(calls);
      count = std::clamp(static_cast<std::size_t>(share * static_cast<double>(total)),
                         std::min<std::size_t>(total, 8), total);
    }
    for (const std::size_t i : some_of_ranks(count))
      ranks_.push_back({&timeline_.ranks[i], {}, {}, {}, {}, {}});
  }

  /// The first rank of as many pipeline ranks as may be, then others; ascending.
  std::vector<std::size_t> some_of_ranks(std::size_t count) const {
    std::vector<std::size_t> first, others, chosen;
    std::set<std::int32_t> seen;
    for (std::size_t i = 0; i < timeline_.ranks.size(); ++i) {
      (seen.insert(timeline_.ranks[i].pipeline_rank).second ? first : others).push_back(i);
    }
    const std::size_t firsts = std::min(count, first.size());
    for (const std::size_t i : evenly(firsts, first.size())) chosen.push_back(first[i]);
    for (const std::size_t i : evenly(count - firsts, others.size())) chosen.push_back(others[i]);
    std::sort(chosen.begin(), chosen.end());
    return chosen;
  }

  /// Groups ops by call and orders them by start: calls inside others stand between their ops.
  void sort_ops() {
    for (Rank& rank : ranks_) {
      const auto& ops = rank.from->ops;
      rank.ops.resize(ops.size());
      for (std::uint32_t i = 0; i < rank.ops.size(); ++i) rank.ops[i] = i;
      std::stable_sort(rank.ops.begin(), rank.ops.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::pair(ops[a].call, ops[a].start) < std::pair(ops[b].call, ops[b].start);
      });
      rank.first.assign(rank.from->calls.size() + 1, 0);
      for (const TimelineOp& op : ops) ++rank.first[op.call + 1];
      for (std::size_t c = 1; c < rank.first.size(); ++c) rank.first[c] += rank.first[c - 1];
    }
  }

  const TimelineOp& op(const Rank& rank, std::size_t at) const {
    return rank.from->ops[rank.ops[at]];
  }
  Ticks start(const Rank& rank, std::size_t call) const { return op(rank, rank.first[call]).start; }

  void choose_calls() {
    const std::size_t most =
        std::max<std::size_t>(2, limits_.max_calls / std::max<std::size_t>(1, ranks_.size()));
    for (Rank& rank : ranks_) {
      for (std::size_t c = 0; c + 1 < rank.first.size(); ++c) rank.kept.push_back(c);
      std::stable_sort(rank.kept.begin(), rank.kept.end(), [&](std::size_t a, std::size_t b) {
        return start(rank, a) < start(rank, b);
      });
      // Ranks have about as many calls each; the ranks were chosen so that all of them fit.
      if (ranks_.size() > 8 || rank.kept.size() <= most) continue;
      calls_left_out_ += rank.kept.size() - most;
      rank.kept.erase(rank.kept.begin() + static_cast<std::ptrdiff_t>(most / 2),
                      rank.kept.end() - static_cast<std::ptrdiff_t>(most - most / 2));
    }
  }

  TimelinePattern pattern_of(const Rank& rank, std::size_t call) const {
    TimelinePattern pattern;
    pattern.segment = rank.from->calls[call].segment;
    const Ticks begin = start(rank, call);
    for (std::size_t at = rank.first[call]; at < rank.first[call + 1]; ++at) {
      const TimelineOp& o = op(rank, at);
      PatternOp p;
      p.name = static_cast<std::int32_t>(o.name);
      p.stream = static_cast<std::int32_t>(o.stream);
      p.group = o.group;
      p.module = static_cast<std::int32_t>(o.module);
      p.start = in_timeline_units(o.start - begin);
      p.duration = in_timeline_units(o.end - o.start);
      p.wait = pattern.ops.empty() ? 0 : in_timeline_units(o.start - o.ready);
      p.host = o.issued == o.ready ? 1 : 0;
      pattern.ops.push_back(p);
    }
    return pattern;
  }

  /// Those of a call and of the one that it runs with, which are shown with their ops or without,
  /// both.
  struct Together {
    std::vector<std::size_t> places;  // in Rank::kept, by start
    std::vector<TimelinePattern> patterns;
    std::size_t new_ops = 0;  // that the page does not have yet
  };

  Together together(const Rank& rank, std::size_t place) {
    Together out;
    out.places = {place};
    if (rank.pair[place] != kUnknown) out.places.push_back(rank.pair[place]);
    for (const std::size_t at : out.places) {
      TimelinePattern pattern = pattern_of(rank, rank.kept[at]);
      if (pattern.ops.size() > 1 && patterns_.find(pattern) == kUnknown)
        out.new_ops += pattern.ops.size();
      out.patterns.push_back(std::move(pattern));
    }
    return out;
  }

  /// The earlier of a pair gets the boxes of both: one for each would lie over the other.
  void leave_out_ops(const Rank& rank, Together& of) {
    TimelinePattern whole = of.patterns[0];
    for (std::size_t i = 1; i < of.patterns.size(); ++i) {
      const Ticks later =
          start(rank, rank.kept[of.places[i]]) - start(rank, rank.kept[of.places[0]]);
      for (PatternOp op : of.patterns[i].ops) {
        op.start += in_timeline_units(later);
        whole.ops.push_back(op);
      }
      of.patterns[i].ops.clear();
    }
    of.patterns[0] = without_ops(whole);
    calls_without_ops_ += of.patterns.size();
  }

  /// All ranks' first calls, then all ranks' second ones: where ops have to be left out, they are
  /// of the same part of the step on all ranks.
  void find_patterns() {
    std::size_t most = 0;
    for (Rank& rank : ranks_) {
      most = std::max(most, rank.kept.size());
      rank.pattern.assign(rank.kept.size(), kUnknown);
      find_pairs(rank);
    }
    for (std::size_t i = 0; i < most; ++i) {
      for (Rank& rank : ranks_) {
        if (i >= rank.kept.size() || rank.pattern[i] != kUnknown) continue;
        Together calls = together(rank, i);
        if (calls.new_ops > 0 && patterns_.num_ops() + calls.new_ops > limits_.max_pattern_ops)
          leave_out_ops(rank, calls);
        for (std::size_t c = 0; c < calls.places.size(); ++c)
          rank.pattern[calls.places[c]] = patterns_.number(std::move(calls.patterns[c]));
      }
    }
  }

  /// Pairs of those that are kept.
  static void find_pairs(Rank& rank) {
    Numbered<std::size_t> place(rank.from->calls.size(), kUnknown);
    for (std::size_t i = 0; i < rank.kept.size(); ++i) place[rank.kept[i]] = i;
    for (const std::size_t call : rank.kept) {
      const std::int32_t with = rank.from->calls[call].with;
      rank.pair.push_back(with < 0 ? kUnknown : place[with]);
    }
  }

  /// Modules and segments are numbered anew: those of what is left out are none of the page's.
  Json used_modules() {
    Numbered<std::int32_t> number(timeline_.modules.size(), -1);
    Json out = Json::array();
    for (TimelinePattern& pattern : patterns_.all()) {
      for (PatternOp& op : pattern.ops) {
        if (op.name == kUnnamedOp) continue;
        std::int32_t& n = number[op.module];
        if (n < 0) {
          n = static_cast<std::int32_t>(out.size());
          out.push_back(timeline_.modules[op.module]);
        }
        op.module = n;
      }
    }
    return out;
  }

  Json used_segments() {
    segment_number_.assign(timeline_.segments.size(), -1);
    Json out = Json::array();
    for (const Rank& rank : ranks_) {
      for (const std::size_t call : rank.kept) {
        const std::uint32_t segment = rank.from->calls[call].segment;
        if (segment_number_[segment] >= 0) continue;
        segment_number_[segment] = static_cast<std::int32_t>(out.size());
        const TimelineSegment& s = timeline_.segments[segment];
        out.push_back({s.name, s.stage, std::string(1, s.phase)});
      }
    }
    return out;
  }

  Json rank_json(std::size_t r, bool with_memory) {
    const Rank& rank = ranks_[r];
    const TimelineRank& from = *rank.from;
    Json out = {{"rank", from.rank},
                {"stands_for", from.multiplicity},
                {"pipeline_rank", from.pipeline_rank},
                {"at", from.at}};
    Json calls = Json::array();
    std::int64_t before = 0;
    for (std::size_t i = 0; i < rank.kept.size(); ++i) {
      const TimelineCall& call = from.calls[rank.kept[i]];
      const TimelineOp& first = op(rank, rank.first[rank.kept[i]]);
      const std::int64_t begin = in_timeline_units(first.start);
      for (const std::int64_t number :
           {std::int64_t{segment_number_[call.segment]}, std::int64_t{call.mb}, begin - before,
            static_cast<std::int64_t>(rank.pattern[i]),
            in_timeline_units(first.start - first.ready)}) {
        calls.push_back(number);
      }
      before = begin;
    }
    out["calls"] = std::move(calls);
    Json pairs = Json::array();
    for (std::size_t i = 0; i < rank.pair.size(); ++i) {
      if (rank.pair[i] == kUnknown || rank.pair[i] < i) continue;
      pairs.push_back(i);
      pairs.push_back(rank.pair[i]);
    }
    if (!pairs.empty()) out["pairs"] = std::move(pairs);
    if (rank.kept.size() < from.calls.size()) {
      const std::size_t half = (rank.kept.size()) / 2;
      out["left_out"] = {in_timeline_units(start(rank, rank.kept[half - 1])),
                         in_timeline_units(start(rank, rank.kept[half])),
                         from.calls.size() - rank.kept.size()};
    }
    if (with_memory) out["memory"] = memory_json(from);
    return out;
  }

  Json memory_json(const TimelineRank& rank) {
    std::set<std::int32_t> pipeline_ranks;
    for (const Rank& other : ranks_) pipeline_ranks.insert(other.from->pipeline_rank);
    const std::size_t most =
        std::max<std::size_t>(2, limits_.max_memory_points / pipeline_ranks.size());
    const std::vector<MemoryPoint> kept = thinned(rank.memory, most, timeline_.end());
    memory_points_left_out_ += static_cast<std::uint64_t>(
        rank.memory_left_out + std::ssize(rank.memory) - std::ssize(kept));
    Json out = Json::array();
    MemoryPoint before;
    const auto add = [&](const MemoryPoint& point) {
      out.push_back(in_timeline_units(point.at) - in_timeline_units(before.at));
      for (const MemoryClass of : point.bytes.keys())
        out.push_back(point.bytes[of] - before.bytes[of]);
      before = point;
    };
    for (const MemoryPoint& point : kept) add(point);
    return out;
  }

  const Timeline& timeline_;
  const TimelineLimits& limits_;
  std::vector<Rank> ranks_;
  TimelinePatterns patterns_;
  std::vector<std::int32_t> segment_number_;  // on the page; -1: not there
  std::size_t calls_left_out_ = 0, calls_without_ops_ = 0;
  std::uint64_t memory_points_left_out_ = 0;
};

}  // namespace

Json timeline_blob(const Timeline& timeline, const TimelineLimits& limits) {
  return TimelineEncoder(timeline, limits).make();
}

}  // namespace trainyard
