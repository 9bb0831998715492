// What a rank does in a pipeline once communication and sharding are written out: compute, sends
// and receives, gathering and freeing of sharded weights, reduction of gradients. The text form is
// PyTorch's: "0F0", "1RECV_F3", "0UNSHARD", "(0F7;7B3)OVERLAP_F_B"; an empty word is an idle slot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

enum class LoweredKind : std::uint8_t {
  kForward,  // as ActionPhase, in its order
  kBackward,
  kBackwardInput,
  kBackwardWeight,
  kRecompute,
  kEarlyRecompute,
  kUnshard,       // all ranks' shards of the stage's weights come together
  kReshard,       // the rank keeps its own shard only
  kReduceGrad,    // of the stage, after its last microbatch
  kSendForward,   // the stage's output
  kRecvForward,   // the stage's input
  kSendBackward,  // the gradient of the stage's input
  kRecvBackward,  // the gradient of the stage's output
  kIdle,          // a slot in which the rank does nothing
};

struct LoweredAction {
  std::int32_t stage = 0;
  LoweredKind kind = LoweredKind::kIdle;
  std::int32_t microbatch = -1;  // -1: of no microbatch
  bool with_next =
      false;  // runs together with the action behind it: F with B, a send with a receive
  friend bool operator==(const LoweredAction&, const LoweredAction&) = default;
};
using LoweredRow = std::vector<LoweredAction>;  // of a rank, in issue order

bool has_microbatch(LoweredKind kind);
bool is_compute(LoweredKind kind);
bool is_send(LoweredKind kind);
bool is_receive(LoweredKind kind);
/// B or I: what the stage before waits for.
bool makes_input_gradient(LoweredKind kind);

std::string to_string(const LoweredAction& action);

/// One action, two that run together, or none (an idle slot); nullopt: not a word.
/// "(0F7;7B3)OVERLAP_F_B", "(0SEND_F3;0RECV_B0)P2P".
std::optional<LoweredRow> parse_word(std::string_view text);

/// The row as words, one for two actions that run together.
std::vector<std::string> to_text(const LoweredRow& row);

/// How many actions the word at `position` has: 2 where they run together, else 1.
std::size_t word_length(const LoweredRow& row, std::size_t position);

/// One more than the largest microbatch in `rows`.
int count_microbatches(const std::vector<LoweredRow>& rows);

std::vector<LoweredRow> lowered_rows(const PipelineSchedule& schedule);

}  // namespace trainyard
