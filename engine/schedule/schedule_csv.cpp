#include "engine/schedule/schedule_csv.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/mapped_file.h"
#include "engine/schedule/lowered_action.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

namespace {

constexpr std::size_t kMostActions = std::size_t{1} << 23U;  // of a Program's step
constexpr std::size_t kLongestCell = 60;                     // in messages

/// The table with the place of each action; the place behind a rank's last is that of its line's
/// end.
struct Table {
  Numbered<std::vector<Action>> actions;       // [rank][position]
  std::vector<std::vector<SourcePos>> places;  // [rank][position], one more
  std::string file;

  [[noreturn]] void fail(std::size_t rank, std::size_t position, const std::string& problem) const {
    throw ConfigError(places[rank][position], "", problem);
  }
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// A message's form of what the user wrote.
std::string shown(std::string_view cell) {
  std::string text(cell.substr(0, kLongestCell));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return "'" + text + (cell.size() > kLongestCell ? "..." : "") + "'";
}

LoweredRow read_cell(std::string_view cell, const SourcePos& pos) {
  const auto word = parse_word(cell);
  if (!word) {
    throw ConfigError(
        pos, "",
        "expected an action such as 0F0, 1B3, 2I0, 2W0, 3R1 or (0F7;7B3)OVERLAP_F_B, got " +
            shown(cell));
  }
  for (const LoweredAction& action : *word) {
    if (!is_compute(action.kind)) {
      throw ConfigError(pos, "",
                        to_string(action) +
                            " is no compute; sends, receives, UNSHARD, RESHARD and "
                            "REDUCE_GRAD are put in by compile: leave them out");
    }
  }
  return *word;
}

void read_line(std::string_view line, int number, Table& table) {
  auto& actions = table.actions.emplace_back();
  auto& places = table.places.emplace_back();
  std::size_t begin = 0;
  while (begin <= line.size()) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    const std::string_view raw = line.substr(begin, end - begin);
    const std::size_t blanks = raw.size() - std::min(raw.size(), raw.find_first_not_of(" \t"));
    const auto column = static_cast<int>(begin + (blanks == 0 ? 0 : raw.size() - blanks)) + 1;
    const SourcePos pos{table.file, number, column};
    for (const LoweredAction& action : read_cell(trimmed(raw), pos)) {
      actions.push_back({action.stage, static_cast<ActionPhase>(action.kind), action.microbatch,
                         action.with_next});
      places.push_back(pos);
    }
    begin = end + 1;
  }
  places.push_back({table.file, number, static_cast<int>(line.size()) + 1});
}

Table read_table(std::string_view text, const std::string& file) {
  Table table;
  table.file = file;
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  text = text.substr(0, end == std::string_view::npos ? 0 : end + 1);
  std::size_t total = 0;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    read_line(text.substr(0, length), number, table);
    total += table.actions.back().size();
    if (total > kMostActions) {
      throw ConfigError({file, number, 1}, "",
                        "more than " + std::to_string(kMostActions) + " actions");
    }
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  if (total == 0)
    throw ConfigError({file, 1, 1}, "", "expected a line of actions for each rank, got nothing");
  return table;
}

/// Stages and microbatches by their numbers. Each of them has a forward, so there are as many
/// actions.
void count(const Table& table, PipelineSchedule& schedule) {
  std::int64_t stages = 0;
  std::int64_t microbatches = 0;
  std::size_t actions = 0;
  for (const auto& row : table.actions) {
    actions += row.size();
    for (const Action& action : row) {
      stages = std::max(stages, std::int64_t{action.stage} + 1);
      microbatches = std::max(microbatches, std::int64_t{action.microbatch} + 1);
    }
  }
  if (stages * microbatches > static_cast<std::int64_t>(actions)) {
    throw ConfigError({table.file, 1, 1}, "",
                      std::to_string(stages) + " stages and " + std::to_string(microbatches) +
                          " microbatches by their numbers, but only " + std::to_string(actions) +
                          " actions");
  }
  schedule.num_stages = static_cast<int>(stages);
  schedule.num_microbatches = static_cast<int>(microbatches);
}

/// Whether stages go in a V, by where the first action lies that could tell.
bool goes_in_a_v(const Table& table, const PipelineSchedule& schedule) {
  const int ranks = schedule.num_ranks();
  if (ranks == 1 || schedule.num_stages != 2 * ranks) return false;
  for (std::size_t rank = 0; rank < table.actions.size(); ++rank) {
    for (const Action& action : table.actions[rank]) {
      const bool loop = action.stage % ranks == static_cast<int>(rank);
      if (!loop) return action.stage >= ranks;
    }
  }
  return false;
}

}  // namespace

PipelineSchedule parse_schedule_csv(std::string_view text, const std::string& file,
                                    const StageRanks& on) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // as spreadsheets write it
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const Table table = read_table(text, file);
  PipelineSchedule schedule{0, 0, table.actions};
  count(table, schedule);
  if (std::ssize(on) == schedule.num_stages) {
    schedule.on = on;
  } else if (goes_in_a_v(table, schedule)) {
    schedule.on = in_a_v(schedule.num_ranks());
  }
  if (const auto fault = find_fault(schedule))
    table.fail(fault->rank, fault->position, fault->reason);
  return schedule;
}

PipelineSchedule load_schedule_csv(const std::string& path, const StageRanks& on) {
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  return parse_schedule_csv({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, on);
}

std::string schedule_csv(const PipelineSchedule& schedule) {
  std::string text;
  for (const auto& actions : schedule.actions) {
    std::string line;
    for (const std::string& word : to_text(actions)) line += (line.empty() ? "" : ",") + word;
    text += line + "\n";
  }
  return text;
}

}  // namespace trainyard
