#include "engine/schedule/schedule_grid.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include "engine/base/format.h"

namespace trainyard {

namespace {

constexpr std::string_view kCut = " ... ";
constexpr IndexedArray<ActionPhase, std::string_view, kNumActionPhases> kColours = {  // [phase]
    "\x1b[34m", "\x1b[32m", "\x1b[36m", "\x1b[33m", "\x1b[35m", "\x1b[35m"};
constexpr std::string_view kNoColour = "\x1b[0m";

/// What stands for an action, or for one and its partner, from one unit of time to another.
struct Cell {
  std::string text;
  std::size_t begin = 0;  // units
  std::size_t length = 0;
  ActionPhase phase = ActionPhase::kForward;
  ActionPhase second = ActionPhase::kForward;  // of a pair, from `second_begin` units on
  std::size_t second_begin = 0;

  ActionPhase phase_at(std::size_t unit) const { return unit < second_begin ? phase : second; }
};

std::string label_of(const Action& action, bool with_stage) {
  const std::string text = to_string(action);
  return with_stage ? text : text.substr(std::to_string(action.stage).size());
}

std::vector<Cell> cells_of(const std::vector<Action>& actions, const std::vector<double>& starts,
                           bool with_stage) {
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    Cell cell{label_of(actions[i], with_stage), static_cast<std::size_t>(starts[i]), 0,
              actions[i].phase, actions[i].phase};
    double length = duration(actions[i], kGridDurations);
    if (actions[i].with_next) {
      cell.second_begin = static_cast<std::size_t>(length);
      ++i;
      cell.second = actions[i].phase;
      cell.text += "+" + label_of(actions[i], with_stage);
      length += duration(actions[i], kGridDurations);
    }
    cell.length = static_cast<std::size_t>(length);
    cells.push_back(std::move(cell));
  }
  return cells;
}

/// Columns of the whole picture that are shown.
struct Window {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The whole, or its beginning and its end.
std::vector<Window> windows(std::size_t total, std::size_t shown, std::size_t unit) {
  if (total <= shown) return {{0, total}};
  const std::size_t half = (shown - std::min(shown, kCut.size())) / 2 / unit * unit;
  return {{0, half}, {total - half, total}};
}

std::string draw(const std::vector<Cell>& cells, const Window& window, std::size_t unit,
                 bool colour) {
  std::string text(window.end - window.begin, ' ');
  constexpr std::uint8_t kNoPhase = 255;
  std::vector<std::uint8_t> phases(text.size(), kNoPhase);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((window.begin + i) % unit == 0) text[i] = '.';
  }
  for (const Cell& cell : cells) {
    const std::size_t begin = cell.begin * unit;
    const std::size_t end = (cell.begin + cell.length) * unit;  // its last column is a space
    for (std::size_t c = std::max(begin, window.begin); c < std::min(end, window.end); ++c) {
      const std::size_t at = c - begin;
      text[c - window.begin] = c + 1 == end ? ' ' : at < cell.text.size() ? cell.text[at] : '-';
      if (c + 1 != end)
        phases[c - window.begin] = static_cast<std::uint8_t>(cell.phase_at(at / unit));
    }
  }
  if (!colour) return text;
  std::string coloured;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::uint8_t before = i == 0 ? kNoPhase : phases[i - 1];
    if (phases[i] != before)
      coloured += phases[i] == kNoPhase ? kNoColour : kColours[static_cast<ActionPhase>(phases[i])];
    coloured += text[i];
  }
  return coloured + (phases.empty() || phases.back() == kNoPhase ? "" : std::string(kNoColour));
}

std::string legend(const PipelineSchedule& schedule, const ScheduleTiming& timing) {
  IndexedArray<ActionPhase, bool, kNumActionPhases> used{};
  for (const auto& actions : schedule.actions) {
    for (const Action& action : actions) used[action.phase] = true;
  }
  constexpr IndexedArray<ActionPhase, std::string_view, kNumActionPhases> kMeanings = {
      "F forward 1",     "B backward 2",  "I input half of a backward 1",
      "W weight half 1", "R recompute 1", "R* before the gradient has come 1"};
  std::string text;
  for (const ActionPhase phase : used.keys()) {
    if (used[phase]) text += (text.empty() ? "" : ", ") + std::string(kMeanings[phase]);
  }
  const double idle = std::accumulate(timing.idle.begin(), timing.idle.end(), 0.0);
  const double all = timing.makespan * schedule.num_ranks();
  return "  units of time: " + text + ", . idle\n" +
         format("  %g units, %.1f %% of them idle; not what the cost model says\n", timing.makespan,
                all > 0 ? 100 * idle / all : 0.0);
}

}  // namespace

std::string schedule_grid(const PipelineSchedule& schedule, const GridStyle& style) {
  const auto timed = time_schedule(schedule, kGridDurations);
  check(std::holds_alternative<ScheduleTiming>(timed), "a schedule that can run");
  const auto& timing = std::get<ScheduleTiming>(timed);

  const bool with_stage = schedule.num_stages > schedule.num_ranks();
  std::vector<std::vector<Cell>> rows;
  std::size_t unit = 2;  // columns of a unit of time
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    rows.push_back(cells_of(schedule.actions[rank], timing.starts[rank], with_stage));
    for (const Cell& cell : rows.back())
      unit = std::max(unit,
                      (cell.text.size() + cell.length) / cell.length);  // rounded up, with a space
  }
  const std::size_t digits = std::to_string(schedule.num_ranks() - 1).size();
  const std::size_t label = digits + std::string_view("  rank   ").size();
  const auto columns = static_cast<std::size_t>(std::max(style.columns, 0));
  const std::size_t room = std::max(label + 4 * unit + kCut.size(), columns) - label;
  const std::vector<Window> shown =
      windows(static_cast<std::size_t>(timing.makespan) * unit, room, unit);

  std::string text;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    std::string line = format("  rank %*zu  ", static_cast<int>(digits), rank);
    for (std::size_t i = 0; i < shown.size(); ++i) {
      if (i > 0) line += kCut;
      line += draw(rows[rank], shown[i], unit, style.colour);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text + legend(schedule, timing);
}

}  // namespace trainyard
