// The terminal's form of a run against its simulation.
#include <algorithm>
#include <cmath>

#include "calibrate/validate/error_stats.h"
#include "calibrate/validate/run_comparison.h"
#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/base/user_text.h"
#include "engine/program/program_words.h"

namespace trainyard {

namespace {

constexpr std::size_t kKindsShown = 40;
constexpr std::size_t kRanksShown = 16;
constexpr std::size_t kStreamsShown = 32;
constexpr std::size_t kLinksShown = 24;

/// "  +12.3 %"; of what was not measured, or takes no time at all, nothing.
std::string error_text(Seconds predicted, Seconds measured) {
  if (!(measured > 0)) return format("%9s", "-");
  const double percent = error_percent(predicted, measured);
  if (std::abs(percent) >= 10000) return format("%9s", percent > 0 ? "> 100 x" : "-");
  return format("%+7.1f %%", percent);
}

std::string more(std::size_t shown, std::size_t all) {
  return all > shown ? format("  ... and %zu more in --json\n", all - shown) : "";
}

std::string interval_lines(const RunComparison& c) {
  std::size_t stated = 0, inside = 0;
  for (const OpComparison& op : c.ops) {
    stated += op.interval > 0;
    inside += op.interval > 0 && op.inside();
  }
  return format(
      "  90 %% interval of the profile: %s to %s; of %zu kernels (by form and shape) %zu were "
      "measured inside theirs\n",
      duration_text(c.interval->low).c_str(), duration_text(c.interval->high).c_str(), stated,
      inside);
}

std::string headline(const RunComparison& c) {
  std::string text = printable(c.run) + format(": %s on %s, %s, %s per rank; program %.12s\n\n",
                                               plural(c.num_ranks, "rank").c_str(),
                                               c.device.c_str(), plural(c.cores, "core").c_str(),
                                               plural(c.threads_per_rank, "thread").c_str(),
                                               c.program_digest.c_str());
  text += format("  step time   predicted %s   measured %s (median of %zu; %s to %s)   error %s\n",
                 duration_text(c.predicted).c_str(), duration_text(c.measured).c_str(), c.num_steps,
                 duration_text(c.measured_low).c_str(), duration_text(c.measured_high).c_str(),
                 error_text(c.predicted, c.measured).c_str());
  if (c.interval) text += interval_lines(c);
  text += "  simulated with every measured time: " + duration_text(c.with_measured) + "\n\n";
  for (const std::string& warning : c.warnings) text += "  warning: " + warning + "\n";
  return c.warnings.empty() ? text : text + "\n";
}

std::string explanation(const RunComparison& c) {
  const Seconds difference = c.measured - c.predicted;
  std::string text = "what explains the difference, " + signed_duration_text(difference) +
                     " measured over predicted\n";
  const auto line = [&](Seconds effect) {
    return format("  %14s  ", signed_duration_text(effect).c_str());
  };
  Seconds rest = c.with_measured - c.predicted;
  std::size_t shown = 0;
  for (const KindComparison& kind : c.kinds) {
    rest -= kind.effect;
    if (shown == 5 || std::abs(kind.effect) < 0.01 * std::abs(difference)) continue;
    ++shown;
    text += line(kind.effect) + kind.kind +
            (kind.kind == "host" ? " (between instructions, frees)" : "") + "\n";
  }
  text += line(rest) + "what kinds of ops do only together\n";
  return text + line(c.measured - c.with_measured) +
         "no instruction's own time: between ranks, microbatches and steps that differ\n\n";
}

std::string kinds_table(const RunComparison& c) {
  std::string text =
      "by kind of op, per step and rank; effect: on the simulated step, of this kind's measured "
      "times\n";
  text += format("  %-26s %8s %12s %12s %9s %13s\n", "kind", "count", "predicted", "measured",
                 "error", "effect");
  for (std::size_t i = 0; i < std::min(c.kinds.size(), kKindsShown); ++i) {
    const KindComparison& kind = c.kinds[i];
    text += format("  %-26s %8.4g %12s %12s %9s %13s\n", kind.kind.c_str(), kind.count,
                   duration_text(kind.predicted).c_str(), duration_text(kind.measured).c_str(),
                   error_text(kind.predicted, kind.measured).c_str(),
                   signed_duration_text(kind.effect).c_str());
  }
  return text + more(kKindsShown, c.kinds.size()) + "\n";
}

std::string ranks_table(const RunComparison& c) {
  Seconds longest = 0;
  for (const RankComparison& rank : c.ranks)
    longest = std::max({longest, rank.predicted.total(), rank.measured.total()});
  const Unit unit = duration_unit(longest);
  std::string text = "by rank, " + std::string(unit.name) +
                     ": predicted / measured (of the step nearest to the median)\n";
  text += format("  %6s %21s %21s %21s %21s %21s\n", "rank", "compute", "optimizer",
                 "exposed comm.", "host", "waiting");
  const auto pair = [&](Seconds predicted, Seconds measured) {
    return format(" %10.3f /%9.3f", predicted / unit.size, measured / unit.size);
  };
  for (std::size_t i = 0; i < std::min(c.ranks.size(), kRanksShown); ++i) {
    const RankComparison& rank = c.ranks[i];
    const TimeClasses &p = rank.predicted, &m = rank.measured;
    text += format("  %6lld", static_cast<long long>(rank.rank)) + pair(p.compute, m.compute) +
            pair(p.optimizer, m.optimizer) + pair(p.exposed_total(), m.exposed_total()) +
            pair(p.host, m.host) + pair(p.bubble, m.bubble) + "\n";
  }
  return text + more(kRanksShown, c.ranks.size()) + "\n";
}

std::string streams_table(const RunComparison& c) {
  std::string text = "by stream, time in which one of its ops runs\n";
  text += format("  %6s  %-8s %12s %12s %9s\n", "rank", "stream", "predicted", "measured", "error");
  for (std::size_t i = 0; i < std::min(c.streams.size(), kStreamsShown); ++i) {
    const StreamComparison& stream = c.streams[i];
    text += format("  %6lld  %-8s %12s %12s %9s\n", static_cast<long long>(stream.rank),
                   std::string(program_words::kStreams[stream.stream]).c_str(),
                   duration_text(stream.predicted).c_str(), duration_text(stream.measured).c_str(),
                   error_text(stream.predicted, stream.measured).c_str());
  }
  return text + more(kStreamsShown, c.streams.size()) + "\n";
}

std::string ranks_text(const LinkComparison& link) {
  std::string text;
  const bool transfer = link.kind.starts_with("send:");
  for (std::size_t i = 0; i < link.ranks.size() && i < 8; ++i) {
    text += (i == 0 ? "" : transfer ? " to " : " ") + std::to_string(link.ranks[i]);
  }
  return link.ranks.size() > 8 ? text + " ..." : text;
}

std::string links_table(const RunComparison& c) {
  if (c.links.empty()) return "";
  std::string text =
      "by link: ranks that communicate, per step from when the last of them is ready\n";
  text += format("  %-22s %-18s %6s %10s %12s %12s %9s %11s\n", "kind", "ranks", "count", "bytes",
                 "predicted", "measured", "error", "rate");
  for (std::size_t i = 0; i < std::min(c.links.size(), kLinksShown); ++i) {
    const LinkComparison& link = c.links[i];
    text += format("  %-22s %-18s %6.4g %10s %12s %12s %9s %11s\n", link.kind.c_str(),
                   ranks_text(link).c_str(), link.count, bytes_text(link.bytes).c_str(),
                   duration_text(link.predicted).c_str(), duration_text(link.measured).c_str(),
                   error_text(link.predicted, link.measured).c_str(),
                   link.measured > 0 ? byte_rate_text(link.bytes / link.measured).c_str() : "-");
  }
  return text + more(kLinksShown, c.links.size());
}

}  // namespace

std::string run_comparison_text(const RunComparison& comparison) {
  return headline(comparison) + explanation(comparison) + kinds_table(comparison) +
         ranks_table(comparison) + streams_table(comparison) + links_table(comparison);
}

}  // namespace trainyard
