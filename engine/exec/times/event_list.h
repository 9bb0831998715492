// What happened in one step on one stream of a rank, in issue order, until it is settled
// (idle_time.h). Ranks have tens of thousands of events a step, and thousands of ranks theirs at
// once: they lie in blocks, which go from step to step and from rank to rank.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/units.h"

namespace trainyard {

/// What GapClassifier is told, once everything issued before is known.
struct TimedEvent {
  std::uint32_t item;
  std::int16_t kind;  // communication; -1: a gap of the main stream
  bool first;         // on stream tp or host, which have an instant before all others
  Seconds begin, end, issued;
};

using EventBlock = std::array<TimedEvent, 64>;
using EventBlocks = std::vector<std::unique_ptr<EventBlock>>;

class EventList {
 public:
  bool empty() const { return blocks_.empty(); }

  void push_back(const TimedEvent& event, EventBlocks& unused) {
    if (next_ == end_) add_block(unused);
    *next_++ = event;
  }

  /// Gives its blocks to `unused`.
  void clear(EventBlocks& unused) {
    for (auto& block : blocks_) unused.push_back(std::move(block));
    blocks_.clear();
    next_ = end_ = nullptr;
  }

  /// Goes through the list.
  class Reader {
   public:
    explicit Reader(const EventList& list) : list_(&list), block_(list.blocks_.begin()) { enter(); }
    const TimedEvent& event() const { return *at_; }
    /// False: that was the last.
    bool advance() {
      if (++at_ != end_) return true;
      if (++block_ == list_->blocks_.end()) return false;
      enter();
      return true;
    }

   private:
    void enter() {
      if (block_ == list_->blocks_.end()) return;
      at_ = (*block_)->data();
      end_ = block_ + 1 == list_->blocks_.end() ? list_->next_ : at_ + (*block_)->size();
    }

    const EventList* list_;
    EventBlocks::const_iterator block_;
    const TimedEvent* at_ = nullptr;
    const TimedEvent* end_ = nullptr;
  };

 private:
  void add_block(EventBlocks& unused) {
    if (unused.empty()) {
      blocks_.push_back(std::unique_ptr<EventBlock>(new EventBlock));  // without values
    } else {
      blocks_.push_back(std::move(unused.back()));
      unused.pop_back();
    }
    next_ = blocks_.back()->data();
    end_ = next_ + blocks_.back()->size();
  }

  EventBlocks blocks_;
  TimedEvent* next_ = nullptr;
  TimedEvent* end_ = nullptr;
};

}  // namespace trainyard
