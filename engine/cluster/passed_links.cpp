#include "engine/cluster/passed_links.h"

namespace trainyard {

PassedLinkId PassedLinks::add(LinkId link) {
  const std::int32_t at = link.number() / kPage;
  if (!page_of_.has(at)) page_of_.resize(at + 1, -1);
  std::int32_t& page = page_of_[at];
  if (page < 0) page = pages_.add({});
  PassedLinkId& id = pages_[page][link.number() % kPage];
  if (id == kNoIndex) id = links_.add(link);
  return id;
}

PassedLinkId PassedLinks::find(LinkId link) const {
  const std::int32_t at = link.number() / kPage;
  if (!page_of_.has(at) || page_of_[at] < 0) return kNoIndex;
  return pages_[page_of_[at]][link.number() % kPage];
}

std::vector<PassedLinkId> PassedLinks::ascending() const {
  std::vector<PassedLinkId> out;
  out.reserve(links_.size());
  for (const std::int32_t page : page_of_) {
    if (page < 0) continue;
    for (const PassedLinkId id : pages_[page]) {
      if (id != kNoIndex) out.push_back(id);
    }
  }
  return out;
}

}  // namespace trainyard
