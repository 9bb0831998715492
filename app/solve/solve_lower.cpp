// solve: problem `lower`, passes over rows of actions.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "app/solve/problem_keys.h"
#include "app/solve/solve.h"
#include "engine/base/user_text.h"
#include "engine/schedule/exchange_order.h"
#include "engine/schedule/lowering_passes.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostStages = 4096;
constexpr std::int64_t kMostMicrobatches = 100'000;
constexpr std::size_t kMostPlaces = 20'000'000;  // stages x microbatches

LoweredRow read_row(const YamlNode& node) {
  LoweredRow row;
  for (const YamlNode& item : node.items()) {
    const std::string text = item.is_null() ? "" : item.as_string();
    const auto word = parse_word(text);
    if (!word) {
      item.fail("expected an action such as 0F0, 2RECV_B3, 1UNSHARD or (0F7;7B3)OVERLAP_F_B, got " +
                in_quotes(text));
    }
    row.insert(row.end(), word->begin(), word->end());
    if (word->empty()) row.push_back({});
    for (const LoweredAction& action : *word) {
      if (action.stage >= kMostStages || action.microbatch >= kMostMicrobatches) {
        item.fail("expected a stage below " + std::to_string(kMostStages) +
                  " and a microbatch below " + std::to_string(kMostMicrobatches) + ", got " +
                  in_quotes(text));
      }
    }
  }
  return row;
}

/// One list per rank, or the list of a single rank.
std::vector<LoweredRow> read_rows(const YamlNode& node) {
  const std::vector<YamlNode> items = node.items();
  if (items.empty()) node.fail("expected a list of actions for each rank");
  if (!items.front().is_sequence()) return {read_row(node)};
  std::vector<LoweredRow> rows;
  for (const YamlNode& item : items) rows.push_back(read_row(item));
  return rows;
}

/// As written; else stages go round the ranks.
StagePlacement read_placement(const YamlNode& problem, const std::vector<LoweredRow>& rows) {
  StagePlacement placement;
  const auto ranks = static_cast<std::int64_t>(rows.size());
  if (const auto node = given(problem, "stage_to_rank")) {
    for (const YamlNode& item : node->items())
      placement.rank_of.push_back(static_cast<int>(item.as_integer(0, ranks - 1)));
    return placement;
  }
  int stages = 0;
  for (const LoweredRow& row : rows) {
    for (const LoweredAction& action : row) stages = std::max(stages, action.stage + 1);
  }
  for (int stage = 0; stage < stages; ++stage)
    placement.rank_of.push_back(static_cast<int>(stage % ranks));
  return placement;
}

/// What of the same stage and microbatch can only run behind such an action.
std::vector<LoweredKind> needing(LoweredKind kind) {
  using enum LoweredKind;
  if (kind == kForward)
    return {kRecompute, kEarlyRecompute, kBackward, kBackwardInput, kBackwardWeight};
  if (kind == kBackwardInput) return {kBackwardWeight};
  return {};
}

/// Refuses stages that are not there or on another rank, actions that are there twice, and those in
/// front of what they need.
void check_rows(const YamlNode& node, const std::vector<LoweredRow>& rows,
                const StagePlacement& placement) {
  if (placement.rank_of.size() * static_cast<std::size_t>(std::max(1, count_microbatches(rows))) >
      kMostPlaces) {
    node.fail("stages x microbatches are more than " + std::to_string(kMostPlaces));
  }
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    std::set<std::string> seen;
    for (const LoweredAction& action : rows[rank]) {
      if (action.kind == LoweredKind::kIdle) continue;
      const std::string text = to_string(action);
      if (action.stage >= placement.num_stages())
        node.fail(text + " is of a stage that stage_to_rank does not have");
      const int place = placement.rank_of[action.stage];
      if (place != static_cast<int>(rank)) {
        node.fail(text + " is on rank " + std::to_string(rank) + ", its stage on rank " +
                  std::to_string(place));
      }
      for (const LoweredKind later : needing(action.kind)) {
        const std::string reader = to_string(LoweredAction{action.stage, later, action.microbatch});
        if (seen.contains(reader))
          node.fail(reader + " stands in front of " + text + ", which it needs");
      }
      if (has_microbatch(action.kind) && !seen.insert(text).second)
        node.fail(text + " appears twice");
    }
  }
}

std::vector<LoweredRow> send_and_receive(const YamlNode& pass, const std::vector<LoweredRow>& rows,
                                         const StagePlacement& placement, bool merged) {
  for (const LoweredRow& row : rows) {
    for (const LoweredAction& action : row) {
      if (is_send(action.kind) || is_receive(action.kind))
        pass.fail(to_string(action) + " is there already");
    }
  }
  auto made = merged ? add_exchanges(rows, placement) : add_send_recv(rows, placement);
  if (const auto* reason = std::get_if<Infeasible>(&made)) pass.fail(reason->reason);
  return std::move(std::get<std::vector<LoweredRow>>(made));
}

}  // namespace

Json solve_lower(const YamlNode& problem) {
  const YamlNode of_rows = at_either(problem, "actions", "compute");
  std::vector<LoweredRow> rows = read_rows(of_rows);
  const StagePlacement placement = read_placement(problem, rows);
  check_rows(of_rows, rows, placement);
  const int microbatches = count_microbatches(rows);
  if (const auto node = given(problem, "microbatches")) {
    if (node->as_integer(1, kMostMicrobatches) != microbatches)
      node->fail("the actions name " + std::to_string(microbatches) + " microbatches; " +
                 std::to_string(microbatches) + " is right");
  }
  int max_active = 3;  // PyTorch's: one forward, one backward, one on its way
  if (const auto node = given(problem, "max_active_stages"))
    max_active = static_cast<int>(node->as_integer(1, kMostStages));
  const auto merge = given(problem, "merge_p2p");
  const bool merged = merge && merge->as_bool();

  bool sends = false;
  for (const YamlNode& pass : problem.at("passes").items()) {
    const std::string name = pass.as_string();
    if (name == "add_send_recv") {
      rows = send_and_receive(pass, rows, placement, merged);
      sends = true;
    } else if (name == "add_unshard" || name == "add_reduce_grad" || name == "merge_backward") {
      for (LoweredRow& row : rows) {
        row = name == "add_unshard"       ? add_unshard(row, max_active)
              : name == "add_reduce_grad" ? add_reduce_grad(row, microbatches)
                                          : merge_backward(row);
      }
    } else {
      pass.fail("expected add_unshard, add_reduce_grad, merge_backward or add_send_recv, got " +
                in_quotes(name));
    }
  }
  if (merged && !sends) merge->fail("merges what pass add_send_recv puts in; add it to passes");
  for (LoweredRow& row : rows) row = without_idle(row);
  const auto steps = count_steps(rows, placement);
  if (const auto* reason = std::get_if<Infeasible>(&steps)) of_rows.fail(reason->reason);

  Json texts = Json::array();
  for (const LoweredRow& row : rows) texts.push_back(to_text(row));
  return {{"rows", texts},
          {"simulated_steps", std::get<std::int64_t>(steps)},
          {"buffers", buffers_per_stage(rows, placement.num_stages())}};
}

}  // namespace trainyard
