#include "engine/cluster/passed_links.h"

#include <catch2/catch.hpp>

namespace trainyard::passed_links_test {

TEST_CASE("links are numbered as they come, and listed by what they are") {
  PassedLinks links;
  CHECK(links.find(LinkId(7)) == kNoIndex);
  const LinkId far(268'435'455);
  const auto first = links.add(far), second = links.add(LinkId(300)), third = links.add(LinkId(7));
  CHECK(links.add(LinkId(300)) == second);
  CHECK(links.size() == 3);
  CHECK((first.number() == 0 && second.number() == 1 && third.number() == 2));
  CHECK(links[first] == far);
  CHECK(links.find(far) == first);
  CHECK(links.find(LinkId(301)) == kNoIndex);
  CHECK(links.find(LinkId(100'000)) == kNoIndex);
  CHECK(links.ascending() == std::vector{third, second, first});
}

}  // namespace trainyard::passed_links_test
