// Where the bodies of a list (stream_list.h) have to end at the latest. The two walks over a list
// may find different bodies; then both are done again, with bodies no longer than the shorter ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainyard {

class BodyLimits {
 public:
  /// A walk over the list begins, the first or the second of a try.
  void begin_walk();
  /// Where a body at this op of a call may end, which by itself may end at `end`. Asked in the
  /// order of the list.
  std::size_t end(std::size_t call, std::size_t op, std::size_t end);
  /// The body there took so many ops; 0: none could be made.
  void note(std::size_t call, std::size_t op, std::uint32_t taken);
  /// Behind the second walk: whether it made the bodies of the first. If not, the limits are now
  /// those of both.
  bool settle();

 private:
  struct Place {
    std::size_t call, op;
    std::uint32_t taken;
    friend bool operator==(const Place&, const Place&) = default;
  };
  static bool is_before(const Place& a, const Place& b);
  static std::vector<Place> merged(const std::vector<Place>& newer,
                                   const std::vector<Place>& older);

  std::vector<Place> limits_;          // ascending (call, op)
  std::size_t next_ = 0;               // of limits_
  std::vector<Place> before_, taken_;  // of the walk before and of this one
};

}  // namespace trainyard
