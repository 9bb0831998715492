#include "real/launch/stop_agreement.h"

#include <algorithm>

#include "engine/base/error.h"

namespace trainyard {

namespace {

constexpr auto kTick = std::chrono::milliseconds(50);  // of looking at this process's own signals
constexpr int kTicksOfStore = 5;                       // between looks into the store

std::string key_of(std::int64_t rank) { return "stop/running/" + std::to_string(rank); }

/// The object is going: what it waited for is of no interest.
struct Over {};

}  // namespace

StopAgreement::StopAgreement(Rendezvous& rendezvous, std::int64_t rank, std::int64_t ranks,
                             std::int64_t step, bool own_signals)
    : rendezvous_(rendezvous),
      rank_(rank),
      ranks_(ranks),
      running_(step) {
  if (own_signals) own_signals_.emplace();
  thread_ = std::thread([this] { run(); });
}

StopAgreement::~StopAgreement() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool StopAgreement::stops_before(std::int64_t step) {
  // Either the thread sees this step, or this sees the signal: both are sequentially consistent.
  running_ = step;
  if (signal_ == 0) return false;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return last_.has_value() || !failure_.empty(); });
  if (!last_) throw BackendError("the ranks cannot agree where to stop: " + failure_);
  return step > *last_;
}

void StopAgreement::run() {
  try {
    for (int tick = 0;; ++tick) {
      {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, kTick, [&] { return over_; })) return;
      }
      const int own = own_signals_ ? own_signals_->first() : 0;
      if (own != 0) rendezvous_.set(kStopAsked, std::to_string(own));
      if (own == 0 && tick % kTicksOfStore != 0) continue;
      if (const auto asked = rendezvous_.try_get(kStopAsked)) {
        signal_ = std::stoi(*asked);
        return agree();
      }
    }
  } catch (const Over&) {
  } catch (const std::exception& error) {
    // Before anybody asked, the store's failure is the main thread's to find.
    const std::lock_guard lock(mutex_);
    failure_ = error.what();
    changed_.notify_all();
  }
}

void StopAgreement::agree() {
  rendezvous_.set(key_of(rank_), std::to_string(running_));
  if (rank_ == 0) {
    std::int64_t last = 0;
    for (std::int64_t rank = 0; rank < ranks_; ++rank)
      last = std::max<std::int64_t>(last, std::stoll(wait_for(key_of(rank))));
    rendezvous_.set("stop/after", std::to_string(last));
  }
  const std::int64_t last = std::stoll(wait_for("stop/after"));
  const std::lock_guard lock(mutex_);
  last_ = last;
  changed_.notify_all();
}

/// Not Rendezvous::get(), which would keep this thread while the run comes to its end.
std::string StopAgreement::wait_for(const std::string& key) {
  for (;;) {
    if (auto value = rendezvous_.try_get(key)) return *value;
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::milliseconds(10), [&] { return over_; })) throw Over{};
  }
}

}  // namespace trainyard
