#include "engine/schedule/exchange_order.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>

#include "engine/schedule/action_log.h"

namespace trainyard {

namespace {

struct RankState {
  std::size_t next = 0;             // position of its next word of compute
  std::deque<LoweredAction> sends;  // of what it has just run: it waits until they are received
  std::deque<LoweredAction> put_off;
  LoweredRow out;
};

class ExchangeOrder {
 public:
  ExchangeOrder(const std::vector<LoweredRow>& rows, const StagePlacement& placement)
      : rows_(rows),
        placement_(placement),
        log_(placement, count_microbatches(rows)),
        ranks_(rows.size()) {}

  std::variant<std::vector<LoweredRow>, Infeasible> run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (bool exchanged = true; exchanged;) {
        exchanged = false;
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) exchanged |= exchange(rank);
        progress |= exchanged;
      }
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) progress |= compute(rank);
      if (!progress) progress = put_a_send_off();
    }
    return result();
  }

 private:
  std::size_t rank_of(int stage) const {
    return static_cast<std::size_t>(placement_.rank_of[stage]);
  }
  /// Stage at the other end of a send or receive.
  static int other_stage(const LoweredAction& action) {
    const bool up =
        action.kind == LoweredKind::kSendForward || action.kind == LoweredKind::kRecvBackward;
    return action.stage + (up ? 1 : -1);
  }
  static LoweredAction other_end(const LoweredAction& receive) {
    const bool forward = receive.kind == LoweredKind::kRecvForward;
    return {other_stage(receive), forward ? LoweredKind::kSendForward : LoweredKind::kSendBackward,
            receive.microbatch};
  }

  /// What the rank's next word has to receive before it runs.
  std::optional<LoweredAction> wanted(std::size_t rank) const {
    const LoweredRow& row = rows_[rank];
    const std::size_t next = ranks_[rank].next;
    if (next == row.size()) return std::nullopt;
    for (std::size_t i = 0; i < word_length(row, next); ++i) {
      const auto cause = log_.waits_for(row[next + i]);
      if (cause && is_receive(cause->kind)) return cause;
    }
    return std::nullopt;
  }
  /// The receive that the rank is at; none while it is at a send.
  std::optional<LoweredAction> receives(std::size_t rank) const {
    return ranks_[rank].sends.empty() ? wanted(rank) : std::nullopt;
  }
  bool may_compute(std::size_t rank) const {
    const LoweredRow& row = rows_[rank];
    const std::size_t next = ranks_[rank].next;
    if (next == row.size() || !ranks_[rank].sends.empty()) return false;
    for (std::size_t i = 0; i < word_length(row, next); ++i) {
      if (log_.waits_for(row[next + i])) return false;
    }
    return true;
  }

  void issue(std::size_t rank, const LoweredAction& action) {
    ranks_[rank].out.push_back(action);
    log_.add(action);
  }

  /// The next message that `rank` takes part in as the receiver, or the two of it and another rank.
  bool exchange(std::size_t rank) {
    if (!ranks_[rank].sends.empty()) return swap_with(rank);
    const auto receive = receives(rank);
    if (!receive) return false;
    const LoweredAction send = other_end(*receive);
    RankState& sender = ranks_[rank_of(send.stage)];
    const auto late = std::find(sender.put_off.begin(), sender.put_off.end(), send);
    if (late != sender.put_off.end()) {
      sender.put_off.erase(late);
    } else if (!sender.sends.empty() && sender.sends.front() == send) {
      sender.sends.pop_front();
    } else {
      return false;
    }
    issue(rank_of(send.stage), send);
    issue(rank, *receive);
    return true;
  }

  /// Both are at a send to each other, and then want to receive just that.
  bool swap_with(std::size_t rank) {
    const LoweredAction send = ranks_[rank].sends.front();
    const std::size_t other = rank_of(other_stage(send));
    if (!receives_what_is_sent_back(rank) || !receives_what_is_sent_back(other)) return false;
    const LoweredAction back = ranks_[other].sends.front();
    if (rank_of(other_stage(back)) != rank) return false;
    for (const std::size_t each : {rank, other}) {
      const LoweredAction receive = *wanted(each);
      LoweredAction first = ranks_[each].sends.front();
      first.with_next = true;
      ranks_[each].out.push_back(first);
      ranks_[each].out.push_back(receive);
      ranks_[each].sends.pop_front();
    }
    log_.add(send);
    log_.add(back);
    for (const std::size_t each : {rank, other}) log_.add(ranks_[each].out.back());
    return true;
  }

  /// The rank is at its last send, and then wants what the rank it sends to is sending.
  bool receives_what_is_sent_back(std::size_t rank) const {
    const RankState& state = ranks_[rank];
    if (state.sends.size() != 1) return false;
    const auto receive = wanted(rank);
    if (!receive) return false;
    const RankState& other = ranks_[rank_of(other_stage(state.sends.front()))];
    return !other.sends.empty() && other.sends.front() == other_end(*receive);
  }

  bool compute(std::size_t rank) {
    if (!may_compute(rank)) return false;
    const LoweredRow& row = rows_[rank];
    RankState& state = ranks_[rank];
    const std::size_t end = state.next + word_length(row, state.next);
    for (; state.next < end; ++state.next) {
      issue(rank, row[state.next]);
      if (const auto message = message_of(row[state.next], placement_))
        state.sends.push_back(message->send);
    }
    return true;
  }

  /// The rank that `rank` waits for; nullopt: none, it is at its end or at compute.
  std::optional<std::size_t> waits_for(std::size_t rank) const {
    if (!ranks_[rank].sends.empty()) return rank_of(other_stage(ranks_[rank].sends.front()));
    if (const auto receive = wanted(rank)) return rank_of(other_stage(*receive));
    return std::nullopt;
  }

  /// Puts off the send of one of the ranks that wait for each other in a circle.
  bool put_a_send_off() {
    for (std::size_t first = 0; first < ranks_.size(); ++first) {
      std::vector<std::size_t> path = {first};
      std::vector<std::size_t>::iterator again = path.end();
      for (auto next = waits_for(first); next; next = waits_for(*next)) {
        again = std::find(path.begin(), path.end(), *next);
        if (again != path.end()) break;
        path.push_back(*next);
        again = path.end();
      }
      if (again == path.end()) continue;
      const std::vector<std::size_t> circle(again, path.end());
      if (const auto chosen = who_puts_off(circle)) {
        RankState& state = ranks_[*chosen];
        state.put_off.push_back(state.sends.front());
        state.sends.pop_front();
        return true;
      }
    }
    return false;
  }

  std::optional<std::size_t> who_puts_off(const std::vector<std::size_t>& circle) const {
    std::optional<std::size_t> chosen;
    bool chosen_answers = true;
    for (const std::size_t rank : circle) {
      if (ranks_[rank].sends.empty()) continue;
      const bool answers = receives_what_is_sent_back(rank);
      const bool better =
          !chosen || (chosen_answers && !answers) || (chosen_answers == answers && rank < *chosen);
      if (!better) continue;
      chosen = rank;
      chosen_answers = answers;
    }
    return chosen;
  }

  std::variant<std::vector<LoweredRow>, Infeasible> result() {
    std::vector<std::size_t> next;
    for (const RankState& state : ranks_) next.push_back(state.next);
    if (const std::string stuck = stuck_ranks(rows_, next, log_); !stuck.empty())
      return Infeasible{stuck};
    std::vector<LoweredRow> out;
    for (RankState& state : ranks_) out.push_back(std::move(state.out));
    return out;
  }

  const std::vector<LoweredRow>& rows_;
  const StagePlacement& placement_;
  ActionLog log_;
  std::vector<RankState> ranks_;
};

}  // namespace

std::variant<std::vector<LoweredRow>, Infeasible> add_exchanges(const std::vector<LoweredRow>& rows,
                                                                const StagePlacement& placement) {
  return ExchangeOrder(rows, placement).run();
}

}  // namespace trainyard
