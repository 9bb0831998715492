// Names -> their numbers in a list that the owner keeps. A look-up reads one line of memory and the
// name that it finds there, where a hash map has a node for each name, a copy of it, and a chain.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard {

/// `name_of`(number) says the name of a number that is in the table.
class NameTable {
 public:
  void reserve(std::size_t names) {
    if (const std::size_t size = std::bit_ceil(2 * names + 16); size > slots_.size()) grow(size);
  }

  /// The number of `name`, and whether it is new: then it is `number` from now on.
  template <typename NameOf>
  std::pair<std::int32_t, bool> insert(std::string_view name, std::int32_t number,
                                       const NameOf& name_of) {
    if (2 * (used_ + 1) > slots_.size()) grow(std::bit_ceil(4 * used_ + 16));
    Slot& slot = slots_[place_of(name, name_of)];
    if (slot.number >= 0) return {slot.number, false};
    slot = {short_hash(name), number};
    ++used_;
    return {number, true};
  }

  /// -1: none.
  template <typename NameOf>
  std::int32_t find(std::string_view name, const NameOf& name_of) const {
    if (slots_.empty()) return -1;
    const std::int32_t number = slots_[place_of(name, name_of)].number;
    return number >= 0 ? number : -1;
  }

  template <typename NameOf>
  void erase(std::string_view name, const NameOf& name_of) {
    if (slots_.empty()) return;
    Slot& slot = slots_[place_of(name, name_of)];
    if (slot.number >= 0) slot.number = kGone;
  }

 private:
  static constexpr std::int32_t kEmpty = -1, kGone = -2;
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t number = kEmpty;
  };

  static std::uint32_t short_hash(std::string_view name) {
    return static_cast<std::uint32_t>(std::hash<std::string_view>{}(name));
  }

  /// Where the name is, or, behind the slots that it might be in, the empty one.
  template <typename NameOf>
  std::size_t place_of(std::string_view name, const NameOf& name_of) const {
    const std::uint32_t hash = short_hash(name);
    std::size_t at = hash & (slots_.size() - 1);
    for (; slots_[at].number != kEmpty; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.hash == hash && slot.number >= 0 && name_of(slot.number) == name) break;
    }
    return at;
  }

  void grow(std::size_t size) {
    std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(size));
    used_ = 0;
    for (const Slot& slot : old) {
      if (slot.number < 0) continue;
      std::size_t at = slot.hash & (size - 1);
      while (slots_[at].number != kEmpty) at = (at + 1) & (size - 1);
      slots_[at] = slot;
      ++used_;
    }
  }

  std::vector<Slot> slots_;  // as many as a power of two, at least twice as many as are used
  std::size_t used_ = 0;     // those of names that are gone among them
};

}  // namespace trainyard
