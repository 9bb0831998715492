// Names written in another way, and names missed by a little.
#include "engine/base/near_names.h"

#include <catch2/catch.hpp>

namespace trainyard::near_names_test {

namespace {
using Names = std::vector<std::string>;
}

TEST_CASE("case, '-' and '_' make no other name") {
  CHECK(same_name("1F1B", "1f1b"));
  CHECK(same_name("DualPipeV", "dualpipe-v"));
  CHECK(same_name("zb_h1", "zb-h1"));
  CHECK_FALSE(same_name("zb-1p", "zb-2p"));
  CHECK_FALSE(same_name("gpt3-1.3b", "gpt3-13b"));
}

TEST_CASE("a name is the one that is spelt so, else the only one that is the same") {
  const Names known = {"tree", "double-tree", "a_b", "a-b"};
  CHECK(known_name("Double_Tree", known) == "double-tree");
  CHECK(known_name("a-b", known) == "a-b");
  CHECK(known_name("AB", known).empty());  // which of the two?
  CHECK(known_name("three", known).empty());
}

TEST_CASE("at most three near names, those that begin alike first") {
  const Names known = {"gpipe", "1f1b", "zb-h1", "zb-1p", "zb-2p", "zb-v", "dualpipe-v"};
  CHECK(nearest_names("dualpipe", known) == Names{"dualpipe-v"});
  // zbp: one character is missing in zb1p and zb2p, one is another in zbv; zbh1 differs in two of
  // four.
  CHECK(nearest_names("zb-p", known) == Names{"zb-1p", "zb-2p", "zb-v"});
  CHECK(nearest_names("1f1b", known).front() == "1f1b");
  CHECK(nearest_names("gpiep", known) == Names{"gpipe"});  // two exchanged
  CHECK(nearest_names("zbx1", known).front() == "zb-h1");
  CHECK(nearest_names("fastest", known).empty());
  CHECK(nearest_names("", known).empty());
  CHECK(nearest_names(std::string(100'000, 'x'), known).empty());
  const Names hosts = {"dgx-b200", "dgx-h100", "dgx-a100-40g", "dgx-a100-80g", "selene"};
  CHECK(did_you_mean("dgx-a100", hosts) ==
        " (did you mean dgx-a100-40g, dgx-a100-80g or dgx-h100?)");
  CHECK(did_you_mean("selena", hosts) == " (did you mean selene?)");
  CHECK(did_you_mean("frontier", hosts).empty());
}

}  // namespace trainyard::near_names_test
