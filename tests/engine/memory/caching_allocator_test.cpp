#include "engine/memory/caching_allocator.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace trainyard::caching_allocator_test {
namespace {

constexpr Bytes kMiB = 1 << 20;
constexpr Bytes kLots = Bytes{1} << 50;

TEST_CASE("requests are cut from segments by size") {
  CachingAllocator allocator(kLots);
  allocator.allocate(1, 0);
  CHECK(allocator.allocated() == 512);
  CHECK(allocator.reserved() == 2 * kMiB);  // small ones share a segment of 2 MiB
  allocator.allocate(kMiB, 0);
  CHECK(allocator.reserved() == 2 * kMiB);
  allocator.allocate(kMiB, 0);  // 2 MiB less 1 MiB and 512 bytes are left
  CHECK(allocator.reserved() == 4 * kMiB);
  allocator.allocate(kMiB + 1, 0);
  CHECK(allocator.reserved() == 24 * kMiB);  // from 20 MiB
  allocator.allocate(10 * kMiB - 512, 0);
  CHECK(allocator.reserved() == 24 * kMiB);  // 19 MiB less 512 bytes were left
  allocator.allocate(10 * kMiB, 0);
  CHECK(allocator.reserved() == 34 * kMiB);  // from 10 MiB on a segment of its own
  allocator.allocate(11 * kMiB + 1, 0);
  CHECK(allocator.reserved() == 46 * kMiB);  // in whole 2 MiB
}

TEST_CASE("the smallest block that holds a request serves it, and its rest is free") {
  CachingAllocator allocator(kLots);
  const auto large = allocator.allocate(100 * kMiB, 0);
  const auto small = allocator.allocate(40 * kMiB, 0);
  allocator.free(large);
  allocator.free(small);
  const auto first = allocator.allocate(30 * kMiB, 0);   // of the 40
  const auto second = allocator.allocate(90 * kMiB, 0);  // of the 100: both are there
  CHECK(allocator.reserved() == 140 * kMiB);
  allocator.allocate(12 * kMiB, 0);  // 10 and 10 are left: a new segment
  CHECK(allocator.reserved() == 152 * kMiB);
  allocator.free(first);
  allocator.free(second);
  allocator.allocate(100 * kMiB, 0);  // 90 and 10 were joined again
  CHECK(allocator.reserved() == 152 * kMiB);
}

TEST_CASE("a rest of at most 1 MiB stays with a large block") {
  CachingAllocator allocator(kLots);
  const auto block = allocator.allocate(20 * kMiB, 0);
  allocator.free(block);
  allocator.allocate(19 * kMiB, 0);
  CHECK(allocator.allocated() == 20 * kMiB);
}

TEST_CASE("a stream does not take another's blocks") {
  CachingAllocator allocator(kLots);
  allocator.free(allocator.allocate(64 * kMiB, 0));
  allocator.allocate(64 * kMiB, 1);
  CHECK(allocator.reserved() == 128 * kMiB);
}

TEST_CASE("where the driver has no more, segments in which nothing lives are given back") {
  CachingAllocator allocator(100 * kMiB);
  const auto kept = allocator.allocate(20 * kMiB, 0);
  allocator.free(allocator.allocate(60 * kMiB, 0));
  allocator.allocate(62 * kMiB, 0);
  CHECK(allocator.reserved() == 82 * kMiB);
  CHECK(allocator.most_reserved() == 82 * kMiB);
  allocator.free(kept);
  allocator.allocate(70 * kMiB, 0);  // more than there is: served all the same, and shown
  CHECK(allocator.most_reserved() == 132 * kMiB);
}

TEST_CASE("segments that grow are mapped by pages, from a free block in front of the end on") {
  CachingAllocator allocator(kLots, true);
  allocator.allocate(1, 0);
  CHECK(allocator.reserved() == 2 * kMiB);
  allocator.allocate(15 * kMiB, 0);
  CHECK(allocator.reserved() == 22 * kMiB);
  allocator.allocate(30 * kMiB, 0);  // 5 MiB are left, and 25 take two pages
  CHECK(allocator.reserved() == 62 * kMiB);
  CHECK(allocator.allocated() == 45 * kMiB + 512);  // any rest is of use
  allocator.allocate(15 * kMiB, 0);
  CHECK(allocator.reserved() == 62 * kMiB);
  allocator.allocate(15 * kMiB, 1);
  CHECK(allocator.reserved() == 82 * kMiB);
}

TEST_CASE("a hole between blocks goes before the end of a segment that grows") {
  CachingAllocator allocator(kLots, true);
  const auto first = allocator.allocate(100 * kMiB, 0);
  allocator.allocate(20 * kMiB, 0);
  const auto last = allocator.allocate(40 * kMiB, 0);
  CHECK(allocator.reserved() == 160 * kMiB);
  allocator.free(first);
  allocator.free(last);
  allocator.allocate(40 * kMiB, 0);  // of the 100, though 40 would be free
  CHECK(allocator.reserved() == 160 * kMiB);
  allocator.allocate(100 * kMiB, 0);  // 60 are left in front; 40 at the end and three pages
  CHECK(allocator.reserved() == 220 * kMiB);
}

TEST_CASE("segments that grow give pages back in which nothing lives") {
  CachingAllocator allocator(100 * kMiB, true);
  const auto first = allocator.allocate(30 * kMiB, 0);
  allocator.allocate(10 * kMiB, 0);
  allocator.allocate(60 * kMiB, 1);
  CHECK(allocator.reserved() == 100 * kMiB);
  allocator.free(first);
  allocator.allocate(20 * kMiB, 2);  // the first page of 30 MiB; in the second live 10
  CHECK(allocator.reserved() == 100 * kMiB);
  allocator.allocate(30 * kMiB, 0);  // there again: the page is mapped in front of what is free
  CHECK(allocator.reserved() == 120 * kMiB);
  CHECK(allocator.allocated() == 120 * kMiB);
}

// Blocks in use never overlap segments' sizes: what lives is at most what is reserved, all is free
// again at the end, and a second pass of the same requests reserves nothing more.
TEST_CASE("random requests are served, and the same again from what is there") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    CachingAllocator allocator(kLots, seed % 2 == 1);
    std::vector<Bytes> sizes;
    for (int k = 0; k < 200; ++k) sizes.push_back(Bytes{1} << (random() % 28));
    Bytes after_first = 0;
    for (int pass = 0; pass < 3; ++pass) {
      std::vector<CachingAllocator::BlockId> alive;
      Bytes asked = 0;
      for (const Bytes size : sizes) {
        alive.push_back(allocator.allocate(size, 0));
        asked += size;
        CHECK(allocator.allocated() >= asked);
        CHECK(allocator.allocated() <= allocator.reserved());
      }
      for (const auto block : alive) allocator.free(block);
      CHECK(allocator.allocated() == 0);
      if (pass == 1) after_first = allocator.reserved();
      if (pass == 2) CHECK(allocator.reserved() == after_first);
    }
  }
}

}  // namespace
}  // namespace trainyard::caching_allocator_test
