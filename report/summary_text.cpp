// The terminal's form of a summary: what a person reads first.
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/format.h"
#include "engine/base/plain_text.h"
#include "engine/base/readable.h"
#include "engine/plan/microbatch_sizes.h"
#include "report/summary.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

/// By its name; where it has none, by its size.
std::string model_words(const ModelConfig& model) {
  if (model.name != ModelConfig{}.name) return model.name;
  const std::string family(to_string(model.family));
  if (has_named_depths(model.family)) return family + " " + std::to_string(model.depth);
  return family + " of " + plural(num_layers(model), "layer") + ", hidden " +
         std::to_string(model.hidden);
}

std::string headline(const Summary& summary, const Study& study) {
  const ParallelConfig& p = study.parallel;
  std::string text = plain_text(model_words(study.model)) + ", " +
                     count_text(static_cast<double>(summary.num_parameters.with_head)) +
                     " parameters, on " + std::to_string(summary.num_ranks) + " x " +
                     plain_text(study.cluster.device) + ": tensor " + std::to_string(p.tensor) +
                     ", pipeline " + std::to_string(p.pipeline);
  if (p.virtual_stages > 1) text += " x " + std::to_string(p.virtual_stages) + " stages each";
  if (!study.partition.on.empty()) {
    text += ", stages on ranks";
    for (const std::int32_t rank : study.partition.on) text += " " + std::to_string(rank);
  }
  text += p.replicas.empty() ? ", data " + std::to_string(p.data) : ", replicas";
  for (const int replicas : p.replicas) text += " " + std::to_string(replicas);
  if (p.context.degree > 1) {
    text += ", context " + std::to_string(p.context.degree) + " (" +
            std::string(kContextMethodWords[p.context.method]) + ")";
  }
  text += "; " + study.schedule.method + ", " +
          plural(study.num_microbatches(), "microbatch", "microbatches") + " of ";
  const std::vector<std::int64_t> sizes = microbatch_sizes(study.training);
  if (sizes.size() > 1) text += std::to_string(sizes.back()) + " to ";
  text += std::to_string(sizes.front()) + "\n\n";
  return text;
}

/// Two counts of one step: neither bounds the other, so each says what it counts.
std::string speed_lines(const Summary& summary, const Study& study) {
  const std::string per = format("per %s", device_word(study.training.kernels));
  const Family family = study.model.family;
  const bool attends =
      !is_convolutional(family) && family != Family::kNcf && family != Family::kMamba2;
  return format("  %-16s %s of the model%s, MFU %.1f %%\n", per.c_str(),
                flop_rate_text(summary.tflops_per_gpu * 1e12).c_str(),
                attends ? " (attention as the full square)" : "", summary.mfu * 100) +
         format("  %-16s %s executed (recomputation in%s)\n", "",
                flop_rate_text(summary.hardware_tflops_per_gpu * 1e12).c_str(),
                attends ? ", without what flash attention masks" : "");
}

std::string cost_line(const StepCost& cost, const Study& study) {
  return format(
      "  cost             %.4g per step, %.4g per million tokens (%s at %.10g an hour each)\n",
      cost.per_step, cost.per_million_tokens,
      plural(cost.devices, device_word(study.training.kernels)).c_str(), cost.price);
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
  for (const auto& [kind, seconds] : summary.time.exposed)
    parts.push_back({"exposed " + kind, seconds});
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.seconds > b.seconds; });
  std::string text = "  where a rank's time goes, mean over ranks\n";
  for (const Part& part : parts) {
    const double share = part.seconds / summary.iteration_time;
    if (share < 5e-5) continue;
    const std::string bar(std::lround(share * 40), '#');
    text += format("    %-28s %12s %6.2f %%  %s\n", part.name.c_str(),
                   duration_text(part.seconds).c_str(), share * 100, bar.c_str());
  }
  return text;
}

/// The unit in which no kind of memory that any rank has prints as 0.00 on all of them.
Unit memory_unit(const Summary& summary) {
  double smallest = kGiB;
  for (const auto part :
       {&MemoryPeak::parameters, &MemoryPeak::gradients, &MemoryPeak::optimizer_state,
        &MemoryPeak::activations, &MemoryPeak::buffers}) {
    Bytes most = 0;
    for (const MemoryPeak& peak : summary.peak_memory) most = std::max(most, peak.*part);
    if (most > 0) smallest = std::min(smallest, static_cast<double>(most));
  }
  return bytes_unit(smallest);
}

std::string memory_table(const Summary& summary, const Study& study) {
  const Unit unit = memory_unit(summary);
  const auto in_unit = [&](Bytes bytes) { return static_cast<double>(bytes) / unit.size; };
  std::string text =
      format("\n  memory per %s, peak, %s (of %.2f)\n", device_word(study.training.kernels),
             std::string(unit.name).c_str(), in_unit(summary.memory_capacity));
  text +=
      "    pipeline rank    total   params    grads    optim    activ  buffers   headroom  at\n";
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
    text += format("    %13zu %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %10.2f  %s\n", r,
                   in_unit(m.total), in_unit(m.parameters), in_unit(m.gradients),
                   in_unit(m.optimizer_state), in_unit(m.activations), in_unit(m.buffers),
                   in_unit(summary.memory_headroom[r]), m.instant.c_str());
  }
  const MemoryPeak& most = summary.peak_memory[fullest];
  if (most.gathered_parameters > 0) {
    text += format(
        "    of the params of pipeline rank %zu %.2f %s are gathered, of which %.2f ahead of their "
        "use; %.2f are its shard\n",
        fullest, in_unit(most.gathered_parameters), std::string(unit.name).c_str(),
        in_unit(most.prefetched_parameters), in_unit(most.parameters - most.gathered_parameters));
  }
  if (summary.may_fit) {
    text += format(
        "    may fit: the total of pipeline rank %zu is within %.1f %% of what there is, and "
        "totals are known to be off by that\n",
        fullest, summary.memory_error * 100);
  }
  Bytes host = 0, nvme = 0, cached = 0;
  for (const MemoryPeak& m : summary.peak_memory) {
    host = std::max(host, m.host);
    nvme = std::max(nvme, m.nvme);
    cached = std::max(cached, cached_within(m, summary.memory_capacity));
  }
  if (cached > 0) {
    text += format(
        "    the allocator keeps up to %s more in use while there is room: the driver shows them, "
        "the plan does not need them\n",
        bytes_text(cached).c_str());
  }
  if (host > 0) {
    text += format("    %s of the host's memory for each %s of the rank that uses most of it\n",
                   bytes_text(host).c_str(), device_word(study.training.kernels));
  }
  if (nvme > 0) {
    text +=
        format("    %s of the node's NVMe drives for each %s of the rank that uses most of them\n",
               bytes_text(nvme).c_str(), device_word(study.training.kernels));
  }
  return text;
}

std::string link_table(const Summary& summary) {
  if (summary.links.empty()) return "";
  // The busiest, and the one that several messages wanted at once for the longest time.
  std::vector<const LinkLoad*> rows;
  for (std::size_t i = 0; i < std::min<std::size_t>(4, summary.links.size()); ++i)
    rows.push_back(&summary.links[i]);
  const auto most_shared =
      std::max_element(summary.links.begin(), summary.links.end(),
                       [](const LinkLoad& a, const LinkLoad& b) { return a.shared < b.shared; });
  if (most_shared - summary.links.begin() >= 4 && most_shared->shared > 0)
    rows.push_back(&*most_shared);
  std::vector<std::string> names;
  std::size_t width = 34;
  for (const LinkLoad* link : rows) {
    names.push_back(plain_text(link->name));
    if (link->multiplicity > 1)
      names.back() += " (" + std::to_string(link->multiplicity) + " alike)";
    width = std::max(width, names.back().size());
  }
  std::string text = format("\n  %-*s %8s  %17s  %14s\n", static_cast<int>(width + 2),
                            "busiest links", "busy", "shared by several", "bytes per step");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const LinkLoad& link = *rows[i];
    text += format("    %-*s %6.2f %%  %17s  %14s\n", static_cast<int>(width), names[i].c_str(),
                   link.busy_fraction * 100, duration_text(link.shared).c_str(),
                   bytes_text(link.bytes).c_str());
  }
  return text;
}

std::string interval_line(const TimeInterval& interval) {
  return format("  90 %% interval    %s to %s, from the profile's uncertainty\n",
                duration_text(interval.low).c_str(), duration_text(interval.high).c_str());
}

std::string measure_next(const TimeInterval& interval) {
  if (interval.next.empty()) return "";
  std::string text = "\n  what leaves it uncertain: measure these next\n";
  for (const Contribution& one : interval.next) {
    text += format("    %12s %6.1f %%  %s\n", duration_text(std::abs(one.effect)).c_str(),
                   one.share * 100, plain_text(one.entry).c_str());
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
  return format(
      "\n  rests on %d measured, %d fitted, %d datasheet, %d derived profile entries (--json names "
      "them)\n",
      measured, fitted, datasheet, derived);
}

}  // namespace

const char* device_word(KernelSet kernels) { return kernels == KernelSet::kCpu ? "device" : "GPU"; }

std::string summary_text(const Summary& summary, const Study& study, Seconds wall) {
  std::string text = headline(summary, study);
  text +=
      format("  step time        %s   %s samples/s", duration_text(summary.iteration_time).c_str(),
             count_text(summary.samples_per_s).c_str());
  if (speed_unit(study.model.family) == "tokens/s" || tokens_per_sample(study.model) > 1)
    text += ", " + count_text(summary.tokens_per_s) + " tokens/s";
  text += "\n";
  if (summary.interval) text += interval_line(*summary.interval);
  text += speed_lines(summary, study);
  if (summary.cost) text += cost_line(*summary.cost, study);
  text += format("  bubble           %.2f %%, exposed communication %.2f %%\n\n",
                 summary.bubble_fraction * 100, summary.exposed_communication_fraction * 100);
  text += lost_to(summary);
  text += memory_table(summary, study);
  if (summary.transfers) text += "\n" + transfers_text(*summary.transfers);
  text += link_table(summary);
  if (summary.interval) text += measure_next(*summary.interval);
  text += source_lines(summary);
  if (summary.resembles) text += "  " + resemblance_text(*summary.resembles) + "\n";
  text += "  program          " + summary.program_digest.substr(0, 16) + "\n";
  text += format("  answered in      %s, %s ops timed\n", duration_text(wall).c_str(),
                 count_text(static_cast<double>(summary.num_events)).c_str());
  return text;
}

}  // namespace trainyard
