// The links of a cluster that something passes, numbered without gaps: what is kept of each of them
// costs as much as there are of them, however many the cluster has.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/cluster/network.h"

namespace trainyard {

using PassedLinkId = Index<struct PassedLink>;

class PassedLinks {
 public:
  /// The number of a link; that after all others, where it is new.
  PassedLinkId add(LinkId link);
  /// kNoIndex: nothing passes it.
  PassedLinkId find(LinkId link) const;

  std::size_t size() const { return links_.size(); }
  Keys<PassedLinkId> keys() const { return links_.keys(); }  // in the order in which they came
  LinkId operator[](PassedLinkId id) const { return links_[id]; }
  std::vector<PassedLinkId> ascending() const;  // by their links

 private:
  // A page has the numbers of kPage neighbouring links; pages without any are left out.
  static constexpr std::int32_t kPage = 256;
  using Page = IndexedArray<std::int32_t, PassedLinkId, kPage>;

  Indexed<std::int32_t, std::int32_t> page_of_;  // [link / kPage], -1: none
  Indexed<std::int32_t, Page> pages_;
  Indexed<PassedLinkId, LinkId> links_;
};

}  // namespace trainyard
