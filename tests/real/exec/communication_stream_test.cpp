// The thread that carries a rank's communication: first in, first out, after what it waits for, and
// errors reach whoever waits.
#include "real/exec/communication_stream.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace trainyard::communication_stream_test {

TEST_CASE("work of a stream runs in the order in which it was given") {
  std::vector<int> order;
  {
    CommunicationStream stream("test");
    for (int i = 0; i < 100; ++i) stream.enqueue({}, [&order, i] { order.push_back(i); });
  }
  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("work waits for work of other streams") {
  // Two streams hand a number back and forth; each adds one after the other has.
  CommunicationStream a("a"), b("b");
  int number = 0;  // guarded by the order alone
  CompletionPtr last;
  for (int i = 0; i < 200; ++i) {
    std::vector<CompletionPtr> after;
    if (last) after.push_back(last);
    last = (i % 2 == 0 ? a : b).enqueue(std::move(after), [&number, i] {
      if (number == i) ++number;
    });
  }
  last->wait();
  CHECK(number == 200);
  CHECK(last->done());
  CHECK(last->end() >= last->start());
}

TEST_CASE("what work throws, its waiters get, and so do those behind it") {
  CommunicationStream stream("test");
  std::atomic<bool> ran = false;
  const CompletionPtr failed = stream.enqueue({}, [] { throw std::runtime_error("no peer"); });
  const CompletionPtr behind = stream.enqueue({}, [&] { ran = true; });
  CHECK_THROWS_WITH(failed->wait(), "no peer");
  CHECK_THROWS_WITH(behind->wait(), "no peer");
  CHECK_FALSE(ran);
  CommunicationStream other("other");
  CHECK_THROWS_WITH(other.enqueue({failed}, [&] { ran = true; })->wait(), "no peer");
  CHECK_FALSE(ran);
}

}  // namespace trainyard::communication_stream_test
