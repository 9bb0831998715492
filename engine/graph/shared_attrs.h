// The attributes of an op of a graph. Most ops have few, equal to those of many others, and every
// pass copies ops: copies share them until one is told something else.
#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "engine/graph/op_attrs.h"

namespace trainyard {

/// A value like OpAttrs, of the size of a pointer; one that says nothing owns nothing. Threads may
/// have copies of one, each its own.
class SharedAttrs {
 public:
  SharedAttrs() = default;
  SharedAttrs(const OpAttrs& attrs);  // NOLINT: as good as they

  const OpAttrs& operator*() const { return shared_ ? shared_->attrs : kNothingSaid; }
  const OpAttrs* operator->() const { return &**this; }
  operator const OpAttrs&() const { return **this; }  // NOLINT: as good as they

  /// Copies keep what they have.
  template <typename T>
  void set(T OpAttrs::*attribute, const std::type_identity_t<T>& value) {
    if ((**this).*attribute == value) return;
    own().*attribute = value;
    if (shared_->attrs == kNothingSaid) shared_.reset();
  }

  friend bool operator==(const SharedAttrs& a, const SharedAttrs& b) {
    return a.shared_ == b.shared_ || *a == *b;
  }

 private:
  struct Shared : boost::intrusive_ref_counter<Shared, boost::thread_safe_counter> {
    explicit Shared(const OpAttrs& of) : attrs(of) {}
    OpAttrs attrs;
  };
  static constexpr OpAttrs kNothingSaid{};

  /// What no copy shares.
  OpAttrs& own();

  boost::intrusive_ptr<Shared> shared_;
};

/// Attributes for ops that are told theirs one by one: those that are equal to one of the last few
/// share them.
class RecentAttrs {
 public:
  SharedAttrs share(const OpAttrs& attrs);

 private:
  static constexpr std::size_t kKept = 8;
  std::vector<SharedAttrs> kept_;
  std::size_t oldest_ = 0;
};

}  // namespace trainyard
