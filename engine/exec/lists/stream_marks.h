// The marks of a list (stream_list.h) while it is made: ends of items, or of ops in them, that
// somebody waits for are numbered in the order in which that is found.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/exec/lists/issue_state.h"
#include "engine/exec/lists/stream_list.h"

namespace trainyard {

class StreamMarks {
 public:
  /// Points count items through two passes; those of the first pass, `per_pass` items, are of the
  /// step before.
  void begin(ItemNumber per_pass);
  bool is_of_step_before(const StreamPoint& point) const { return point.at() < per_pass_; }

  MarkRef mark(const StreamPoint& point);

  /// Gives every item of the list its marks, ascending op. The marks of the host's delays, numbered
  /// from 0 so far, come behind those of ends.
  void settle(StreamList& list) const;

 private:
  struct Inner {
    std::uint32_t op, mark;
    std::int32_t next;  // index into inner_; -1: none
  };
  std::uint32_t& inner_mark(ItemNumber item, std::uint32_t op);

  ItemNumber per_pass_ = 0;
  std::uint32_t num_marks_ = 0;
  Indexed<ItemNumber, std::uint32_t> of_end_;  // [item]: of its end; kNoMark: nobody waits for it
  Indexed<std::int32_t, Inner> inner_;         // of ends of ops
  Indexed<ItemNumber, std::int32_t>
      first_inner_;  // [item]: the first of its marks in inner_; -1: none
};

}  // namespace trainyard
