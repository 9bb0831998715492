// `trainyard compile`: what the Program is, without running it.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/prepare.h"
#include "app/splits_text.h"
#include "engine/base/cut_middle.h"
#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/exec/costs.h"
#include "engine/memory/memory.h"
#include "engine/program/program_outline.h"
#include "engine/program/program_text.h"
#include "engine/recompute/checkpoint_groups.h"
#include "engine/recompute/stage_aware.h"
#include "engine/schedule/schedule_csv.h"
#include "engine/schedule/schedule_grid.h"
#include "report/layer_sharding.h"
#include "report/partition_view.h"
#include "report/summary.h"
#include "report/transfer_summary.h"
#include "study/compile_study.h"
#include "study/study_writer.h"
#include "system/output_folder.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

/// ", recomputes layers 4 to 6" of a stage, where recomputation differs by stage or goes in groups.
std::string recompute_text(const PassLog& log, const RecomputeConfig& recompute,
                           std::size_t stage) {
  using Method = RecomputeConfig::Method;
  if (recompute.method != Method::kStageAware && recompute.method != Method::kGroup) return "";
  const int count = num_recomputed(log.units[stage], log.kept[stage]);
  if (count == 0) return ", recomputes nothing";
  if (recompute.unit == RecomputeConfig::Unit::kSublayer)
    return ", recomputes " + std::to_string(count) + " of " + std::to_string(log.units[stage]) +
           " sublayers";
  const std::int64_t begin = log.first_layer[stage];
  std::string text =
      ", recomputes layer" + std::string(count > 1 ? "s " : " ") + std::to_string(begin);
  if (count > 1) text += " to " + std::to_string(begin + count - 1);
  if (recompute.method == Method::kGroup) text += ", " + strategy_of_group(recompute.group);
  return text;
}

std::string partition_text(const PassLog& log, const Study& study,
                           const std::vector<StageRow>& rows) {
  std::string text = "partition\n";
  for (std::size_t s = 0; s < rows.size(); ++s) {
    text += "  stage " + std::to_string(s) + " on pipeline rank " +
            std::to_string(rows[s].pipeline_rank) + ": " + rows[s].what +
            recompute_text(log, study.recompute, s) + stage_text(rows[s]) + '\n';
  }
  return text;
}

/// All of it with --full; else as wide as the terminal, and 100 columns in a file. In colour on a
/// terminal unless NO_COLOR is set (no-color.org).
GridStyle grid_style(bool full) {
  GridStyle style;
  if (isatty(STDOUT_FILENO) == 0) {
    if (full) style.columns = std::numeric_limits<int>::max();
    return style;
  }
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.columns = size.ws_col;
  if (full) style.columns = std::numeric_limits<int>::max();
  style.colour = std::getenv("NO_COLOR") == nullptr;
  return style;
}

std::string schedule_text(const PassLog& log, const Study& study, bool full) {
  return "schedule " + study.schedule.method + "\n" + schedule_grid(log.schedule, grid_style(full));
}

std::string memory_text(const std::vector<MemoryPeak>& peaks, const Study& study) {
  std::string text = std::string("memory, peak per ") + device_word(study.training.kernels) + "\n";
  for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
    text += "  pipeline rank " + std::to_string(rank) + ": " + bytes_text(peaks[rank].total) +
            " at " + peaks[rank].instant + "\n";
  }
  return text;
}

std::string passes_text(const PassLog& log) {
  std::string text = "passes\n";
  for (const PassLog::Entry& entry : log.entries)
    text += format("  %-14s %12s\n", entry.pass.c_str(), duration_text(entry.wall).c_str());
  return text;
}

constexpr std::size_t kLayerLines = 36;  // all tensors of most layers

/// Sections of a text whose first line is a title: the middle of each is left out, but not its last
/// `notes` lines, nor the line of what was chosen.
class Brief {
 public:
  static constexpr std::size_t kSectionLines = 14;

  explicit Brief(bool full) : full_(full) {}

  void add(const std::string& section, std::size_t notes = 0, std::size_t most = kSectionLines) {
    if (full_) {
      text_ += section + "\n";
      return;
    }
    std::vector<std::string> lines = lines_of(section);
    const auto begin = lines.begin() + 1, end = lines.end() - static_cast<std::ptrdiff_t>(notes);
    const auto chosen = std::find_if(
        begin, end, [](const std::string& line) { return line.starts_with(kChosenMark); });
    const std::vector<std::string> all(begin, end);
    std::vector<std::string> out = chosen == end
                                       ? cut_middle(all, most, "  ", kHint)
                                       : cut_around(all, chosen - begin, most, "  ", kHint);
    out.insert(out.begin(), lines.front());
    out.insert(out.end(), end, lines.end());
    text_ += joined(out) + "\n";
  }

  void add_program(const Program& program) {
    text_ += full_ ? to_text(program) : program_outline(to_text(program), kColumns, kHint);
  }

  const std::string& text() const { return text_; }

 private:
  static constexpr std::size_t kColumns = 160;
  static constexpr const char* kHint = "; --full prints all";
  bool full_;
  std::string text_;
};

}  // namespace

int run_compile(const StudyOptions& options) {
  std::optional<OutputFolder> folder;
  if (!options.out.empty())
    folder.emplace(options.out, WrittenBy{"compile", options.study}, options.overwrite);
  const Prepared prepared = prepare(options.study, options.sets);
  print_warnings(prepared.study.warnings);
  PassLog log;
  const auto compiled =
      compile(prepared.model, prepared.study, prepared.software, log, {.verify = options.verify});
  if (const auto* reason = std::get_if<Infeasible>(&compiled)) {
    return report_infeasible(options, plan_error(prepared.study, *reason));
  }
  const auto& program = std::get<Program>(compiled);
  const std::string digest = program_digest(program);
  const auto peaks =
      memory_peaks(program, fixed_memory(prepared.software, prepared.study.training.precision));
  const std::optional<TransferSummary> transfers = summarise_transfers(program, prepared.study);
  SourceLog sources;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, sources);
  const PartitionView partition = partition_view(program, costs, log, prepared.study);
  if (folder) {
    folder->write("study.resolved.yaml", folder->marked_yaml(resolved_study_text(prepared.study)));
    folder->write("schedule.csv", schedule_csv(log.schedule));
    folder->write("program.txt", [&](const auto& sink) { write_text(program, true, sink); });
    folder->commit();
  }
  if (options.json) {
    nlohmann::ordered_json out;
    out["program_digest"] = digest;
    out["num_ranks"] = program.mesh.num_ranks();
    out["first_layer"] = log.first_layer;
    if (std::any_of(log.begins_at.begin(), log.begins_at.end(),
                    [](const std::string& at) { return !at.empty(); }))
      out["begins_at"] = log.begins_at;
    out["kept"] = log.kept;
    add_json(partition, out);
    out["schedule"] = nlohmann::ordered_json::array();
    for (const auto& actions : log.schedule.actions) {
      auto& row = out["schedule"].emplace_back(nlohmann::ordered_json::array());
      for (const Action& action : actions) row.push_back(to_string(action));
    }
    out["peak_memory_bytes"] = nlohmann::ordered_json::array();
    for (const MemoryPeak& peak : peaks) out["peak_memory_bytes"].push_back(peak.total);
    out["layer_sharding"] = layer_sharding_json(layer_sharding(program, prepared.model));
    if (transfers) out["pipeline_transfers"] = transfers_json(*transfers);
    print_answer(out.dump(2) + "\n");
    return kDone;
  }
  Brief answer(options.full);
  answer.add(partition_text(log, prepared.study, partition.stages));
  if (!partition.planned.empty()) answer.add("planned\n" + joined(partition.planned));
  answer.add(schedule_text(log, prepared.study, options.full), kGridNotes);
  answer.add(memory_text(peaks, prepared.study));
  if (transfers) answer.add(transfers_text(*transfers));
  answer.add(layer_sharding_text(layer_sharding(program, prepared.model)), 0, kLayerLines);
  answer.add(passes_text(log));
  answer.add("digest " + digest + "\n");
  answer.add_program(program);
  std::fwrite(answer.text().data(), 1, answer.text().size(), stdout);
  return kDone;
}

}  // namespace trainyard
