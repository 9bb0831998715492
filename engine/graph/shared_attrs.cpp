#include "engine/graph/shared_attrs.h"

#include <algorithm>

namespace trainyard {

SharedAttrs::SharedAttrs(const OpAttrs& attrs)
    : shared_(attrs == kNothingSaid ? nullptr : new Shared(attrs)) {}

OpAttrs& SharedAttrs::own() {
  if (!shared_ || shared_->use_count() > 1) shared_ = new Shared(**this);
  return shared_->attrs;
}

SharedAttrs RecentAttrs::share(const OpAttrs& attrs) {
  const auto known = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const SharedAttrs& one) { return *one == attrs; });
  if (known != kept_.end()) return *known;
  if (kept_.size() < kKept) return kept_.emplace_back(attrs);
  oldest_ = (oldest_ + 1) % kKept;
  return kept_[oldest_] = attrs;
}

}  // namespace trainyard
