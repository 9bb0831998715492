#include "engine/schedule/lowered_action.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "engine/base/indexed.h"
#include "engine/base/place_of.h"

namespace trainyard {

namespace {

constexpr IndexedArray<LoweredKind, std::string_view, 14> kWords = {
    "F",       "B",           "I",      "W",      "R",      "R",      "UNSHARD",
    "RESHARD", "REDUCE_GRAD", "SEND_F", "RECV_F", "SEND_B", "RECV_B", ""};
constexpr std::string_view kOverlap = "OVERLAP_F_B";
constexpr std::string_view kExchange = "P2P";

/// The digits at the front of `text`, taken off; nullopt: there is none, or too many.
std::optional<std::int32_t> take_number(std::string_view& text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || text.front() == '-') return std::nullopt;
  text.remove_prefix(length_between(text.data(), end));
  return number;
}

std::optional<LoweredAction> parse_one(std::string_view text) {
  LoweredAction action;
  const auto stage = take_number(text);
  if (!stage) return std::nullopt;
  action.stage = *stage;
  const std::string_view word = text.substr(0, text.find_first_of("0123456789"));
  text.remove_prefix(word.size());
  const auto known = std::find(kWords.begin(), kWords.end(), word);
  if (word.empty() || known == kWords.end()) return std::nullopt;
  action.kind = static_cast<LoweredKind>(known - kWords.begin());
  if (!has_microbatch(action.kind)) {
    return text.empty() ? std::optional(action) : std::nullopt;
  }
  const auto microbatch = take_number(text);
  if (!microbatch) return std::nullopt;
  action.microbatch = *microbatch;
  if (action.kind == LoweredKind::kRecompute && text == "*") {
    action.kind = LoweredKind::kEarlyRecompute;
    return action;
  }
  return text.empty() ? std::optional(action) : std::nullopt;
}

/// Whether `first` and `second` may run together, under which word.
std::string_view pair_word(const LoweredAction& first, const LoweredAction& second) {
  if (first.kind == LoweredKind::kForward && second.kind == LoweredKind::kBackward) return kOverlap;
  if (is_send(first.kind) && is_receive(second.kind)) return kExchange;
  return "";
}

}  // namespace

bool has_microbatch(LoweredKind kind) {
  return is_compute(kind) || is_send(kind) || is_receive(kind);
}
bool is_compute(LoweredKind kind) { return kind <= LoweredKind::kEarlyRecompute; }
bool is_send(LoweredKind kind) {
  return kind == LoweredKind::kSendForward || kind == LoweredKind::kSendBackward;
}
bool is_receive(LoweredKind kind) {
  return kind == LoweredKind::kRecvForward || kind == LoweredKind::kRecvBackward;
}
bool makes_input_gradient(LoweredKind kind) {
  return kind == LoweredKind::kBackward || kind == LoweredKind::kBackwardInput;
}

std::string to_string(const LoweredAction& action) {
  if (action.kind == LoweredKind::kIdle) return "";
  std::string text = std::to_string(action.stage);
  text += kWords[action.kind];
  if (has_microbatch(action.kind)) text += std::to_string(action.microbatch);
  if (action.kind == LoweredKind::kEarlyRecompute) text += '*';
  return text;
}

std::optional<LoweredRow> parse_word(std::string_view text) {
  if (text.empty()) return LoweredRow{};
  if (text.front() != '(') {
    const auto action = parse_one(text);
    return action ? std::optional(LoweredRow{*action}) : std::nullopt;
  }
  const std::size_t middle = text.find(';');
  const std::size_t end = text.find(')');
  if (middle == std::string_view::npos || end == std::string_view::npos || middle > end)
    return std::nullopt;
  auto first = parse_one(text.substr(1, middle - 1));
  const auto second = parse_one(text.substr(middle + 1, end - middle - 1));
  if (!first || !second) return std::nullopt;
  const std::string_view word = pair_word(*first, *second);
  if (word.empty() || text.substr(end + 1) != word) return std::nullopt;
  first->with_next = true;
  return LoweredRow{*first, *second};
}

std::size_t word_length(const LoweredRow& row, std::size_t position) {
  return row[position].with_next && position + 1 < row.size() ? 2 : 1;
}

std::vector<std::string> to_text(const LoweredRow& row) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < row.size(); i += word_length(row, i)) {
    if (word_length(row, i) == 1) {
      words.push_back(to_string(row[i]));
      continue;
    }
    words.push_back("(" + to_string(row[i]) + ";" + to_string(row[i + 1]) + ")");
    words.back() += pair_word(row[i], row[i + 1]);
  }
  return words;
}

int count_microbatches(const std::vector<LoweredRow>& rows) {
  int count = 0;
  for (const LoweredRow& row : rows) {
    for (const LoweredAction& action : row) count = std::max(count, action.microbatch + 1);
  }
  return count;
}

std::vector<LoweredRow> lowered_rows(const PipelineSchedule& schedule) {
  std::vector<LoweredRow> rows;
  for (const std::vector<Action>& actions : schedule.actions) {
    LoweredRow& row = rows.emplace_back();
    for (const Action& action : actions) {
      row.push_back({action.stage, static_cast<LoweredKind>(action.phase), action.microbatch,
                     action.with_next});
    }
  }
  return rows;
}

}  // namespace trainyard
