#include "real/launch/heartbeats.h"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string key_of(std::int64_t rank) { return "heartbeat/" + std::to_string(rank); }

}  // namespace

std::vector<Heartbeat> read_heartbeats(Rendezvous& rendezvous, std::int64_t ranks) {
  std::vector<Heartbeat> heartbeats;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    Heartbeat heartbeat;
    heartbeat.rank = rank;
    if (const auto text = rendezvous.try_get(key_of(rank))) {
      std::istringstream in(*text);
      in >> heartbeat.sent_s >> heartbeat.changed_s;
      in.get();
      std::getline(in, heartbeat.where);
    }
    heartbeats.push_back(std::move(heartbeat));
  }
  // Ranks without heartbeats come before those that wait for them.
  constexpr double kMissed = 2;
  double newest = 0;
  for (const Heartbeat& heartbeat : heartbeats) newest = std::max(newest, heartbeat.sent_s);
  std::stable_sort(
      heartbeats.begin(), heartbeats.end(), [&](const Heartbeat& a, const Heartbeat& b) {
        const bool a_silent = newest - a.sent_s > kMissed, b_silent = newest - b.sent_s > kMissed;
        return a_silent != b_silent ? a_silent : a.changed_s < b.changed_s;
      });
  return heartbeats;
}

std::string name_culprit(const std::vector<Heartbeat>& heartbeats) {
  check(!heartbeats.empty(), "a run has ranks");
  const Heartbeat& oldest = heartbeats.front();
  const std::string rank = "rank " + std::to_string(oldest.rank);
  if (oldest.changed_s == 0) return rank + ", which has not begun its first step";
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.0f", seconds_now() - oldest.changed_s);
  return rank + ", for " + seconds + " s at " + oldest.where;
}

void PeerWatch::look() {
  // Heartbeats come far more often; a machine that is busy may hold some up.
  constexpr auto kSilence = std::chrono::milliseconds(3500);
  const auto now = std::chrono::steady_clock::now();
  const bool anew = now - looked_ > kSilence;
  looked_ = now;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    std::string heartbeat =
        rendezvous_.try_get(key_of(static_cast<std::int64_t>(rank))).value_or("");
    if (anew || heartbeat != peer.heartbeat) peer = {std::move(heartbeat), now};
    if (now - peer.changed < kSilence) continue;
    std::istringstream in(peer.heartbeat);
    double sent = 0, changed = 0;
    std::string where;
    in >> sent >> changed >> std::ws;
    std::getline(in, where);
    throw PeerLost("rank " + std::to_string(rank) +
                   " has not been heard of for 3.5 s; last to move: rank " + std::to_string(rank) +
                   ", at " + (where.empty() ? "its start" : where));
  }
}

std::string describe(const Program& program, const RankPlan& plan, const Whereabouts& whereabouts) {
  const std::int32_t call = whereabouts.call, index = whereabouts.op;
  const SegmentId segment_id(whereabouts.segment.load());
  std::string text = "step " + std::to_string(whereabouts.step + 1);
  if (segment_id == kNoIndex || call < 0) return text + ", before its first op";
  const Segment& segment = program.segments[segment_id];
  const Microbatch mb = plan.calls().begin()[call].mb[0];
  text += ", " + segment.name + (segment.slots == 0 || mb < 0 ? "" : std::to_string(mb));
  if (index < 0 || index >= std::ssize(segment.ops)) return text;
  const ProgramOp& op = segment.ops.begin()[index];
  text += " op " + std::to_string(index) + " " + op_name(op.kind, op.part);
  const std::string& module = program.modules[op.module];
  return module.empty() ? text : text + " of " + module;
}

HeartbeatSender::HeartbeatSender(Rendezvous& rendezvous, std::int64_t rank, const Program& program,
                                 const RankPlan& plan, const Whereabouts& whereabouts,
                                 std::chrono::duration<double> timeout,
                                 std::function<void()> on_hang)
    : rendezvous_(rendezvous),
      rank_(rank),
      program_(program),
      plan_(plan),
      whereabouts_(whereabouts),
      timeout_(timeout),
      on_hang_(std::move(on_hang)),
      thread_([this] { run(); }) {}

HeartbeatSender::~HeartbeatSender() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_changed_.notify_all();
  thread_.join();
}

void HeartbeatSender::send() {
  const std::array<std::int64_t, 4> place = {whereabouts_.step, whereabouts_.call,
                                             whereabouts_.segment, whereabouts_.op};
  const double now = seconds_now();
  if (place != place_) {
    place_ = place;
    changed_s_ = now;
  }
  char times[64];
  std::snprintf(times, sizeof times, "%.3f %.3f ", now, changed_s_);
  rendezvous_.set(key_of(rank_), times + describe(program_, plan_, whereabouts_));
}

void HeartbeatSender::run() {
  // So that where a rank was last seen is at most a second old, on its way to the store and from
  // there, too.
  constexpr auto kInterval = std::chrono::milliseconds(400);
  for (;;) {
    try {
      send();
    } catch (const BackendError&) {
      // Whoever keeps the store has gone; the main thread finds out by itself.
    }
    // A rank that waits for its first step (others load, or compile kernels) is not timed.
    if (place_[0] >= 0 && seconds_now() - changed_s_ > timeout_.count()) {
      on_hang_();
      return;
    }
    std::unique_lock lock(mutex_);
    if (stop_changed_.wait_for(lock, kInterval, [&] { return stopping_; })) return;
  }
}

}  // namespace trainyard
