// Sends and receives for blocking calls: Merak's command stream, and a run of every schedule in
// which both ends of a message wait for each other.
#include "engine/schedule/exchange_order.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "engine/schedule/early_recompute.h"
#include "tests/support/golden.h"

namespace trainyard::exchange_order_test {

namespace {

std::vector<LoweredRow> exchanges(const PipelineSchedule& schedule) {
  auto made = add_exchanges(lowered_rows(schedule), placement_of(schedule));
  if (const auto* reason = std::get_if<Infeasible>(&made)) FAIL(reason->reason);
  return std::get<std::vector<LoweredRow>>(made);
}

/// The names of the commands in a line of Merak's, each printed as a string: `'ForwardPass(...)'`.
std::vector<std::string> called(const std::string& line) {
  std::vector<std::string> names;
  for (std::size_t quote = line.find('\''); quote != std::string::npos;
       quote = line.find('\'', quote + 1)) {
    const std::size_t begin = quote + 1;
    const std::size_t paren = line.find('(', begin);
    const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
    if (paren == std::string::npos || paren == begin) continue;
    if (std::all_of(&line[begin], &line[paren], is_letter)) {
      names.push_back(line.substr(begin, paren - begin));
    }
  }
  return names;
}

/// Merak's commands of each stage as words. Those of one kind go through the microbatches in order,
/// so the k-th is of microbatch k; a recompute early or with the backward is beside it.
std::vector<std::vector<std::string>> merak_commands() {
  const std::map<std::string, std::string> words = {
      {"ForwardPass", "sF"},
      {"PreCheckpointForwardPass", "sF"},
      {"BackwardPass", "sB"},
      {"SendActivation", "sSEND_F"},
      {"RecvActivation", "sRECV_F"},
      {"SendGrad", "sSEND_B"},
      {"RecvGrad", "sRECV_B"},
      {"RecomputeRecvGrad", "sR* sRECV_B"},
      {"SendActivationRecvGrad", "(sSEND_F;sRECV_B)P2P"},
      {"SendGradRecvActivation", "(sSEND_B;sRECV_F)P2P"}};
  std::vector<std::vector<std::string>> stages;
  std::map<std::string, int> count;
  std::ifstream file = golden_file("merak_scp_s4_m5_commands.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("stage")) {
      stages.emplace_back();
      count.clear();
      continue;
    }
    for (const std::string& name : called(line)) {
      const auto known = words.find(name);
      if (known == words.end()) continue;  // loading, the optimizer, switches of checkpointing
      std::string text = known->second;
      for (const std::string kind : {"SEND_F", "RECV_F", "SEND_B", "RECV_B", "F", "B", "R*"}) {
        const std::string placeholder = "s" + kind;
        const std::size_t at = text.find(placeholder);
        if (at == std::string::npos) continue;
        std::string number = std::to_string(stages.size() - 1);
        // R* goes with the gradient received behind it.
        if (kind == "R*") {
          number += "R" + std::to_string(count["RECV_B"] - 1) + "*";
        } else {
          number += kind + std::to_string(count[kind]++);
        }
        text.replace(at, placeholder.size(), number);
      }
      std::istringstream split(text);
      for (std::string word; split >> word;) stages.back().push_back(word);
    }
  }
  return stages;
}

/// Both ends of a message wait for each other; the two of a pair go at once. Whether all ends.
bool runs_blocking(const std::vector<LoweredRow>& rows, const StagePlacement& placement) {
  std::vector<std::size_t> next(rows.size());
  const auto words_at = [&](std::size_t rank) {
    const std::size_t at = next[rank];
    if (at == rows[rank].size()) return LoweredRow{};
    return LoweredRow(
        rows[rank].begin() + static_cast<std::ptrdiff_t>(at),
        rows[rank].begin() + static_cast<std::ptrdiff_t>(at + word_length(rows[rank], at)));
  };
  const auto receive_of = [](const LoweredAction& send) {
    const bool forward = send.kind == LoweredKind::kSendForward;
    return LoweredAction{send.stage + (forward ? 1 : -1),
                         forward ? LoweredKind::kRecvForward : LoweredKind::kRecvBackward,
                         send.microbatch};
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t rank = 0; rank < rows.size(); ++rank) {
      const LoweredRow word = words_at(rank);
      if (word.empty()) continue;
      if (is_compute(word[0].kind)) {
        next[rank] += word.size();
        progress = true;
        continue;
      }
      if (!is_send(word[0].kind)) continue;
      const LoweredAction expected = receive_of(word[0]);
      const auto other =
          static_cast<std::size_t>(placement.rank_of[static_cast<std::size_t>(expected.stage)]);
      const LoweredRow answer = words_at(other);
      if (answer.size() != word.size() || answer.back() != expected) continue;
      if (word.size() == 2 && word[1] != receive_of(answer[0])) continue;
      next[rank] += word.size();
      next[other] += answer.size();
      progress = true;
    }
  }
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    if (next[rank] != rows[rank].size()) return false;
  }
  return true;
}

/// Its compute in its order, and every message once at both ends.
void check_complete(const PipelineSchedule& schedule, const std::vector<LoweredRow>& rows) {
  const StagePlacement placement = placement_of(schedule);
  const std::vector<LoweredRow> compute = lowered_rows(schedule);
  std::size_t messages = 0;
  std::size_t ends = 0;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    LoweredRow rest = rows[rank];
    std::erase_if(rest, [](const LoweredAction& a) { return !is_compute(a.kind); });
    CHECK(rest == compute[rank]);
    ends += rows[rank].size() - rest.size();
    for (const LoweredAction& action : compute[rank])
      messages += message_of(action, placement) ? 1 : 0;
  }
  CHECK(ends == 2 * messages);
}

}  // namespace

TEST_CASE("the shifted critical path has Merak's order of sends, receives and merged pairs") {
  // tests/golden/merak_scp_s4_m5_commands.txt: HPDL-Group/Merak, Merak/core/pipeline/schedule.py
  // @1593043, executed with 4 stages and 5 microbatches. Recompute inside a backward is no command.
  const auto expected = merak_commands();
  const auto rows = exchanges(shifted_critical_path(4, 5));
  REQUIRE(expected.size() == 4);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    std::vector<std::string> words = to_text(rows[stage]);
    std::erase_if(words, [](const std::string& word) {
      return word.find('R') != std::string::npos && word.find("RECV") == std::string::npos &&
             word.back() != '*';
    });
    CHECK(words == expected[stage]);
  }
}

TEST_CASE("no schedule locks up when both ends of a message wait for each other") {
  struct Kind {
    const char* name;
    int stages_per_rank;
  };
  const Kind kind = GENERATE(Kind{"gpipe", 1}, Kind{"1f1b", 1}, Kind{"interleaved", 2},
                             Kind{"interleaved", 3}, Kind{"zb-h1", 1}, Kind{"interleaved-zb1p", 2},
                             Kind{"zb-v", 2}, Kind{"dualpipe-v", 2}, Kind{"pre-recompute", 1},
                             Kind{"last-no-recompute", 1}, Kind{"scp", 1});
  const int ranks = GENERATE(2, 3, 4, 7);
  const int microbatches = ranks * GENERATE(2, 3, 5);
  CAPTURE(kind.name, kind.stages_per_rank, ranks, microbatches);
  const auto schedule = schedule_named(kind.name, ranks, kind.stages_per_rank, microbatches);
  const auto rows = exchanges(schedule);
  check_complete(schedule, rows);
  CHECK(runs_blocking(rows, placement_of(schedule)));
}

TEST_CASE("1F1B sends and receives as Megatron does, merged in its steady state") {
  // Narayanan et al.: after the warm-up, send_forward_recv_backward and send_backward_recv_forward.
  const auto rows = exchanges(one_f_one_b(2, 3));
  CHECK(to_text(rows[0]) ==
        std::vector<std::string>{"0F0", "0SEND_F0", "0F1", "(0SEND_F1;0RECV_B0)P2P", "0B0", "0F2",
                                 "(0SEND_F2;0RECV_B1)P2P", "0B1", "0RECV_B2", "0B2"});
  CHECK(to_text(rows[1]) ==
        std::vector<std::string>{"1RECV_F0", "1F0", "1B0", "(1SEND_B0;1RECV_F1)P2P", "1F1", "1B1",
                                 "(1SEND_B1;1RECV_F2)P2P", "1F2", "1B2", "1SEND_B2"});
}

TEST_CASE("rows that cannot run are refused with who is stuck") {
  PipelineSchedule schedule = one_f_one_b(2, 1);
  std::swap(schedule.actions[0][0], schedule.actions[0][1]);
  const auto made = add_exchanges(lowered_rows(schedule), placement_of(schedule));
  REQUIRE(std::holds_alternative<Infeasible>(made));
  CHECK(std::get<Infeasible>(made).reason ==
        "rank 0 step 0: 0B0 waits for 0RECV_B0; rank 1 step 0: 1F0 waits for 1RECV_F0");
}

}  // namespace trainyard::exchange_order_test
