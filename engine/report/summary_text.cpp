// The terminal's form of a summary: what a person reads first.
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/format.h"
#include "engine/base/plain_text.h"
#include "engine/config/microbatch_sizes.h"
#include "engine/report/summary.h"

namespace trainyard {

namespace {

std::string duration(Seconds seconds) {
  if (seconds >= 1) return format("%.3f s", seconds);
  if (seconds >= 1e-3) return format("%.3f ms", seconds * 1e3);
  return format("%.3f us", seconds * 1e6);
}

std::string count(double number) {
  if (number >= 1e12) return format("%.2f T", number / 1e12);
  if (number >= 1e9) return format("%.2f B", number / 1e9);
  if (number >= 1e6) return format("%.1f M", number / 1e6);
  if (number >= 1e4) return format("%.1f k", number / 1e3);
  return format("%.4g", number);
}

double in_gib(Bytes bytes) { return static_cast<double>(bytes) / kGiB; }

std::string headline(const Summary& summary, const Study& study) {
  const ParallelConfig& p = study.parallel;
  std::string text = plain_text(study.model.name) + ", " +
                     count(static_cast<double>(summary.num_parameters.with_head)) + " parameters, on " +
                     std::to_string(summary.num_ranks) + " x " + plain_text(study.cluster.device) + ": tensor " +
                     std::to_string(p.tensor) + ", pipeline " + std::to_string(p.pipeline);
  if (p.virtual_stages > 1) text += " x " + std::to_string(p.virtual_stages) + " stages each";
  text += ", data " + std::to_string(p.data) + "; " + study.schedule.method + ", " +
          std::to_string(study.num_microbatches()) + " microbatches of ";
  const std::vector<std::int64_t> sizes = microbatch_sizes(study.training);
  if (sizes.size() > 1) text += std::to_string(sizes.back()) + " to ";
  text += std::to_string(sizes.front()) + "\n\n";
  return text;
}

std::string lost_to(const Summary& summary) {
  struct Part {
    std::string name;
    Seconds seconds;
  };
  std::vector<Part> parts = {{"compute", summary.time.compute},
                             {"optimizer", summary.time.optimizer},
                             {"bubble (waiting for a peer)", summary.time.bubble},
                             {"host (op not issued yet)", summary.time.host}};
  for (const auto& [kind, seconds] : summary.time.exposed) parts.push_back({"exposed " + kind, seconds});
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.seconds > b.seconds; });
  std::string text = "  where a rank's time goes, mean over ranks\n";
  for (const Part& part : parts) {
    const double share = part.seconds / summary.iteration_time;
    if (share < 5e-5) continue;
    const std::string bar(static_cast<std::size_t>(std::lround(share * 40)), '#');
    text += format("    %-28s %12s %6.2f %%  %s\n", part.name.c_str(), duration(part.seconds).c_str(),
                   share * 100, bar.c_str());
  }
  return text;
}

std::string memory_table(const Summary& summary) {
  std::string text = format("\n  memory per GPU, peak, GiB (of %.2f)\n", in_gib(summary.memory_capacity));
  text += "    pipeline rank   total  params   grads   optim    activ  buffers   headroom  at\n";
  // A long pipeline: the ranks at its ends and the fullest say it all.
  const std::size_t ranks = summary.peak_memory.size();
  std::size_t fullest = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (summary.peak_memory[r].total > summary.peak_memory[fullest].total) fullest = r;
  }
  bool gap = false;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (ranks > 16 && r >= 4 && r + 4 < ranks && r != fullest) {
      if (!gap) text += "    ...\n";
      gap = true;
      continue;
    }
    gap = false;
    const MemoryPeak& m = summary.peak_memory[r];
    text += format("    %13zu %7.2f %7.2f %7.2f %7.2f %8.2f %8.2f %10.2f  %s\n", r, in_gib(m.total),
                   in_gib(m.parameters), in_gib(m.gradients), in_gib(m.optimizer_state),
                   in_gib(m.activations), in_gib(m.buffers), in_gib(summary.memory_headroom[r]),
                   m.instant.c_str());
  }
  Bytes host = 0;
  for (const MemoryPeak& m : summary.peak_memory) host = std::max(host, m.host);
  if (host > 0) text += format("    %.2f GiB of the host's memory for each GPU of the rank that uses most of it\n", in_gib(host));
  return text;
}

std::string link_table(const Summary& summary) {
  if (summary.links.empty()) return "";
  std::string text = "\n  busiest links                          busy  shared by several  GB per step\n";
  // The busiest, and the one that several messages wanted at once for the longest time.
  std::vector<const LinkLoad*> rows;
  for (std::size_t i = 0; i < std::min<std::size_t>(4, summary.links.size()); ++i) rows.push_back(&summary.links[i]);
  const auto most_shared = std::max_element(summary.links.begin(), summary.links.end(),
                                            [](const LinkLoad& a, const LinkLoad& b) { return a.shared < b.shared; });
  if (most_shared - summary.links.begin() >= 4 && most_shared->shared > 0) rows.push_back(&*most_shared);
  for (const LinkLoad* row : rows) {
    const LinkLoad& link = *row;
    std::string name = plain_text(link.name);
    if (link.multiplicity > 1) name += " (" + std::to_string(link.multiplicity) + " alike)";
    text += format("    %-34s %6.2f %%  %17s %12.3f\n", name.c_str(), link.busy_fraction * 100,
                   duration(link.shared).c_str(), link.bytes / 1e9);
  }
  return text;
}

std::string interval_line(const TimeInterval& interval) {
  return format("  90 %% interval    %s to %s, from the profile's uncertainty\n", duration(interval.low).c_str(),
                duration(interval.high).c_str());
}

std::string measure_next(const TimeInterval& interval) {
  if (interval.next.empty()) return "";
  std::string text = "\n  what leaves it uncertain: measure these next\n";
  for (const Contribution& one : interval.next) {
    text += format("    %12s %6.1f %%  %s\n", duration(std::abs(one.effect)).c_str(), one.share * 100,
                   plain_text(one.entry).c_str());
  }
  return text;
}

std::string source_lines(const Summary& summary) {
  int measured = 0, fitted = 0, datasheet = 0, derived = 0;
  for (const SourceEntry& entry : summary.sources) {
    measured += entry.kind == "measured";
    fitted += entry.kind == "fitted";
    datasheet += entry.kind == "datasheet";
    derived += entry.kind == "derived";
  }
  return format("\n  rests on %d measured, %d fitted, %d datasheet, %d derived profile entries (--json names them)\n",
                measured, fitted, datasheet, derived);
}

}  // namespace

std::string summary_text(const Summary& summary, const Study& study, Seconds wall) {
  std::string text = headline(summary, study);
  text += format("  step time        %s   %s samples/s, %s tokens/s\n",
                 duration(summary.iteration_time).c_str(), count(summary.samples_per_s).c_str(),
                 count(summary.tokens_per_s).c_str());
  if (summary.interval) text += interval_line(*summary.interval);
  text += format("  per GPU          %.1f TFLOP/s of the model, MFU %.1f %%; %.1f TFLOP/s executed\n",
                 summary.tflops_per_gpu, summary.mfu * 100, summary.hardware_tflops_per_gpu);
  text += format("  bubble           %.2f %%, exposed communication %.2f %%\n\n",
                 summary.bubble_fraction * 100, summary.exposed_communication_fraction * 100);
  text += lost_to(summary);
  text += memory_table(summary);
  if (summary.transfers) text += "\n" + transfers_text(*summary.transfers);
  text += link_table(summary);
  if (summary.interval) text += measure_next(*summary.interval);
  text += source_lines(summary);
  text += "  program          " + summary.program_digest.substr(0, 16) + "\n";
  text += format("  answered in      %s, %s ops timed\n", duration(wall).c_str(),
                 count(static_cast<double>(summary.num_events)).c_str());
  return text;
}

}  // namespace trainyard
