// Numbers that index one kind of thing, each a type of its own, and the lists that take no other
// number: a ValueId finds a value and nothing else.
//
// A list is indexed by an Index, by an enum (one entry per word), or by a signed number. Bounds are
// asserted in debug builds.
#pragma once

#include <array>
#include <cassert>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

namespace trainyard {

/// What an Index is that names nothing.
struct NoIndex {};
inline constexpr NoIndex kNoIndex;

/// The number of a `Tag`, -1 for none, as large as `Rep`.
template <typename Tag, std::signed_integral Rep = std::int32_t>
class Index {
 public:
  constexpr Index() = default;
  constexpr Index(NoIndex) {}  // NOLINT: kNoIndex stands for one of every type
  template <std::integral Number>
  constexpr explicit Index(Number number) : number_(static_cast<Rep>(number)) {}

  constexpr Rep number() const { return number_; }
  constexpr Index& operator++() {
    ++number_;
    return *this;
  }
  /// So many further, or before.
  template <std::integral Number>
  friend constexpr Index operator+(Index index, Number steps) {
    return Index(index.number_ + static_cast<Rep>(steps));
  }
  template <std::integral Number>
  friend constexpr Index operator-(Index index, Number steps) {
    return Index(index.number_ - static_cast<Rep>(steps));
  }
  friend constexpr Rep operator-(Index to, Index from) {
    return static_cast<Rep>(to.number_ - from.number_);
  }
  friend constexpr bool operator==(Index, Index) = default;
  friend constexpr std::strong_ordering operator<=>(Index, Index) = default;

 private:
  Rep number_ = -1;
};

/// Where the entry of `key` lies in a list; beyond all lists where there is none.
template <typename Key>
constexpr std::size_t position(Key key) {
  if constexpr (std::is_class_v<Key>) {
    return static_cast<std::size_t>(key.number());
  } else {
    return static_cast<std::size_t>(key);
  }
}

/// The keys from `first` to before `end`, ascending.
template <typename Key>
class Keys {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Key;
    using difference_type = std::ptrdiff_t;
    using pointer = const Key*;
    using reference = Key;
    constexpr Iterator() = default;
    constexpr explicit Iterator(Key at) : at_(at) {}
    constexpr Key operator*() const { return at_; }
    constexpr Iterator& operator++() {
      at_ = Key(position(at_) + 1);
      return *this;
    }
    constexpr Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    friend constexpr bool operator==(Iterator, Iterator) = default;

   private:
    Key at_{};
  };
  constexpr Keys(Key first, Key end) : first_(first), end_(end) {}
  constexpr Iterator begin() const { return Iterator(first_); }
  constexpr Iterator end() const { return Iterator(end_); }

 private:
  Key first_, end_;
};

/// A vector whose entries are found by a Key.
template <typename Key, typename T>
class Indexed : public std::vector<T> {
  using Entries = std::vector<T>;

 public:
  Indexed() = default;
  Indexed(std::initializer_list<T> entries) : Entries(entries) {}
  explicit Indexed(Entries entries) : Entries(std::move(entries)) {}
  template <std::integral Count>
  explicit Indexed(Count count) : Entries(position(count)) {}
  template <std::integral Count>
  Indexed(Count count, const T& entry) : Entries(position(count), entry) {}
  template <std::input_iterator Iterator>
  Indexed(Iterator first, Iterator end) : Entries(first, end) {}

  typename Entries::reference operator[](Key key) {
    assert(has(key));
    return Entries::operator[](position(key));
  }
  typename Entries::const_reference operator[](Key key) const {
    assert(has(key));
    return Entries::operator[](position(key));
  }
  bool has(Key key) const { return position(key) < this->size(); }
  Key next() const { return Key(this->size()); }  // of the entry that is added next
  Keys<Key> keys() const { return {Key(0), next()}; }
  /// Adds an entry at the end, and says which it is.
  Key add(T entry) {
    const Key key = next();
    this->push_back(std::move(entry));
    return key;
  }

  template <std::integral Count>
  void resize(Count count) {
    Entries::resize(position(count));
  }
  template <std::integral Count>
  void resize(Count count, const T& entry) {
    Entries::resize(position(count), entry);
  }
  template <std::integral Count>
  void reserve(Count count) {
    Entries::reserve(position(count));
  }
  template <std::integral Count>
  void assign(Count count, const T& entry) {
    Entries::assign(position(count), entry);
  }
};

/// By what is counted with as well: ranks, stages, microbatches.
template <typename T>
using Numbered = Indexed<std::int64_t, T>;

/// An array whose entries are found by a Key.
template <typename Key, typename T, std::size_t kSize>
struct IndexedArray : std::array<T, kSize> {
  static constexpr Keys<Key> keys() { return {Key(0), Key(kSize)}; }
  constexpr T& operator[](Key key) {
    assert(position(key) < kSize);
    return std::array<T, kSize>::operator[](position(key));
  }
  constexpr const T& operator[](Key key) const {
    assert(position(key) < kSize);
    return std::array<T, kSize>::operator[](position(key));
  }
  friend bool operator==(const IndexedArray&, const IndexedArray&) = default;
};

}  // namespace trainyard

template <typename Tag, typename Rep>
struct std::hash<trainyard::Index<Tag, Rep>> {
  std::size_t operator()(trainyard::Index<Tag, Rep> index) const {
    return std::hash<Rep>()(index.number());
  }
};
