// The terminal's form of a run against its simulation.
#include <algorithm>
#include <cmath>

#include "engine/base/format.h"
#include "engine/config/user_text.h"
#include "engine/program/program_words.h"
#include "engine/validate/error_stats.h"
#include "engine/validate/run_comparison.h"

namespace trainyard {

namespace {

constexpr std::size_t kKindsShown = 40;
constexpr std::size_t kRanksShown = 16;
constexpr std::size_t kStreamsShown = 32;
constexpr std::size_t kLinksShown = 24;
constexpr double kMilli = 1e-3;

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
      "  90 %% interval of the profile: %.3f to %.3f ms; of %zu kernels (by form and shape) %zu were measured "
      "inside theirs\n",
      c.interval->low / kMilli, c.interval->high / kMilli, stated, inside);
}

std::string headline(const RunComparison& c) {
  std::string text =
      printable(c.run) +
      format(": %lld ranks on %s, %lld cores, %lld threads per rank; program %.12s\n\n",
             static_cast<long long>(c.num_ranks), c.device.c_str(), static_cast<long long>(c.cores),
             static_cast<long long>(c.threads_per_rank), c.program_digest.c_str());
  text += format(
      "  step time   predicted %.3f ms   measured %.3f ms (median of %zu; %.3f to %.3f)   error "
      "%s\n",
      c.predicted / kMilli, c.measured / kMilli, c.num_steps, c.measured_low / kMilli,
      c.measured_high / kMilli, error_text(c.predicted, c.measured).c_str());
  if (c.interval) text += interval_lines(c);
  text += format("  simulated with every measured time: %.3f ms\n\n", c.with_measured / kMilli);
  for (const std::string& warning : c.warnings) text += "  warning: " + warning + "\n";
  return c.warnings.empty() ? text : text + "\n";
}

std::string explanation(const RunComparison& c) {
  const Seconds difference = c.measured - c.predicted;
  std::string text = format("what explains the difference, %+.3f ms measured over predicted\n",
                            difference / kMilli);
  Seconds rest = c.with_measured - c.predicted;
  std::size_t shown = 0;
  for (const KindComparison& kind : c.kinds) {
    rest -= kind.effect;
    if (shown == 5 || std::abs(kind.effect) < 0.01 * std::abs(difference)) continue;
    ++shown;
    text += format("  %+10.3f ms  ", kind.effect / kMilli) + kind.kind +
            (kind.kind == "host" ? " (between instructions, frees)" : "") + "\n";
  }
  text += format("  %+10.3f ms  what kinds of ops do only together\n", rest / kMilli);
  text += format(
      "  %+10.3f ms  no instruction's own time: between ranks, microbatches and steps that "
      "differ\n\n",
      (c.measured - c.with_measured) / kMilli);
  return text;
}

std::string kinds_table(const RunComparison& c) {
  std::string text =
      "by kind of op, ms per step and rank; effect: on the simulated step, of this kind's measured "
      "times\n";
  text += format("  %-26s %8s %11s %11s %9s %11s\n", "kind", "count", "predicted", "measured",
                 "error", "effect");
  for (std::size_t i = 0; i < std::min(c.kinds.size(), kKindsShown); ++i) {
    const KindComparison& kind = c.kinds[i];
    text += format("  %-26s %8.4g %11.3f %11.3f %9s %+11.3f\n", kind.kind.c_str(), kind.count,
                   kind.predicted / kMilli, kind.measured / kMilli,
                   error_text(kind.predicted, kind.measured).c_str(), kind.effect / kMilli);
  }
  return text + more(kKindsShown, c.kinds.size()) + "\n";
}

std::string ranks_table(const RunComparison& c) {
  std::string text = "by rank, ms: predicted / measured (of the step nearest to the median)\n";
  text += format("  %6s %21s %21s %21s %21s %21s\n", "rank", "compute", "optimizer",
                 "exposed comm.", "host", "waiting");
  const auto pair = [](Seconds predicted, Seconds measured) {
    return format(" %10.3f /%9.3f", predicted / kMilli, measured / kMilli);
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
  std::string text = "by stream, ms in which one of its ops runs\n";
  text += format("  %6s  %-8s %11s %11s %9s\n", "rank", "stream", "predicted", "measured", "error");
  for (std::size_t i = 0; i < std::min(c.streams.size(), kStreamsShown); ++i) {
    const StreamComparison& stream = c.streams[i];
    text += format(
        "  %6lld  %-8s %11.3f %11.3f %9s\n", static_cast<long long>(stream.rank),
        std::string(program_words::kStreams[static_cast<std::size_t>(stream.stream)]).c_str(),
        stream.predicted / kMilli, stream.measured / kMilli,
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
      "by link: ranks that communicate, ms per step from when the last of them is ready\n";
  text += format("  %-22s %-18s %6s %9s %11s %11s %9s %9s\n", "kind", "ranks", "count", "MB",
                 "predicted", "measured", "error", "GB/s");
  for (std::size_t i = 0; i < std::min(c.links.size(), kLinksShown); ++i) {
    const LinkComparison& link = c.links[i];
    text += format("  %-22s %-18s %6.4g %9.3f %11.3f %11.3f %9s %9.3f\n", link.kind.c_str(),
                   ranks_text(link).c_str(), link.count, link.bytes / 1e6, link.predicted / kMilli,
                   link.measured / kMilli, error_text(link.predicted, link.measured).c_str(),
                   link.measured > 0 ? link.bytes / link.measured / 1e9 : 0.0);
  }
  return text + more(kLinksShown, c.links.size());
}

}  // namespace

std::string run_comparison_text(const RunComparison& comparison) {
  return headline(comparison) + explanation(comparison) + kinds_table(comparison) +
         ranks_table(comparison) + streams_table(comparison) + links_table(comparison);
}

}  // namespace trainyard
