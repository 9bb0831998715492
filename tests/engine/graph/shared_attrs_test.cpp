// Attributes of ops: what copies share, and when they stop to.
#include "engine/graph/shared_attrs.h"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace trainyard::shared_attrs_test {

namespace {

OpAttrs of_heads(std::int32_t heads) {
  OpAttrs attrs;
  attrs.heads = heads;
  return attrs;
}

/// Whether they are one object.
bool share(const SharedAttrs& a, const SharedAttrs& b) { return &*a == &*b; }

}  // namespace

TEST_CASE("attributes that nobody has told anything are the default ones") {
  const SharedAttrs attrs;
  CHECK(*attrs == OpAttrs{});
  CHECK(attrs->groups == 1);
  CHECK(share(attrs, OpAttrs{}));
}

TEST_CASE("copies of attributes share them until one is told something else") {
  const SharedAttrs first = of_heads(4);
  SharedAttrs second = first;
  CHECK(share(first, second));

  second.set(&OpAttrs::heads, 4);  // as it is
  CHECK(share(first, second));

  second.set(&OpAttrs::causal, true);
  CHECK_FALSE(first->causal);
  CHECK(second->causal);
  CHECK(second->heads == 4);
  CHECK_FALSE(first == second);

  second.set(&OpAttrs::causal, false);
  CHECK(first == second);  // equal, though each has its own
}

TEST_CASE("attributes that are set back to the default ones are those") {
  SharedAttrs attrs = of_heads(4);
  attrs.set(&OpAttrs::heads, 0);
  CHECK(share(attrs, {}));
}

TEST_CASE("attributes outlive the copies that they were taken from") {
  SharedAttrs kept;
  {
    SharedAttrs gone = of_heads(4);
    kept = gone;
    gone.set(&OpAttrs::heads, 8);
  }
  CHECK(kept->heads == 4);
}

TEST_CASE("ops that are told the same in a row share it") {
  RecentAttrs recent;
  const SharedAttrs first = recent.share(of_heads(1));
  CHECK(share(recent.share({}), {}));
  CHECK(share(recent.share(of_heads(1)), first));
  // It knows the last few; all are what was said.
  for (std::int32_t heads = 2; heads < 100; ++heads)
    CHECK(recent.share(of_heads(heads))->heads == heads);
  CHECK(share(recent.share(of_heads(99)), recent.share(of_heads(99))));
  CHECK(recent.share(of_heads(1)) == first);
  CHECK_FALSE(share(recent.share(of_heads(1)), first));
}

TEST_CASE("threads change copies of one op's attributes, each its own") {
  const SharedAttrs common = of_heads(7);
  std::vector<std::int64_t> sums(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    threads.emplace_back([&, i] {
      for (std::int64_t round = 0; round < 10'000; ++round) {
        SharedAttrs own = common;
        own.set(&OpAttrs::begin, round);
        sums[i] += own->begin + common->heads;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // 0 + 1 + ... + 9,999, and 7 in each round
  for (const std::int64_t sum : sums) CHECK(sum == 49'995'000 + 70'000);
  CHECK(common->begin == 0);
}

}  // namespace trainyard::shared_attrs_test
