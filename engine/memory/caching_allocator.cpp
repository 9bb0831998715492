#include "engine/memory/caching_allocator.h"

#include <algorithm>

#include "engine/base/error.h"

namespace trainyard {

namespace {

constexpr Bytes kMiB = 1 << 20;
constexpr Bytes kRounding = 512;
constexpr Bytes kLargestSmall = kMiB;
constexpr Bytes kSmallSegment = 2 * kMiB;
constexpr Bytes kLargeSegment = 20 * kMiB;
constexpr Bytes kOwnSegment = 10 * kMiB;  // requests from here on have a segment each
constexpr Bytes kSegmentRounding = 2 * kMiB;

Bytes rounded(Bytes bytes, Bytes to) { return std::max((bytes + to - 1) / to * to, to); }

Bytes segment_size(Bytes size) {
  if (size <= kLargestSmall) return kSmallSegment;
  return size < kOwnSegment ? kLargeSegment : rounded(size, kSegmentRounding);
}

}  // namespace

CachingAllocator::BlockId CachingAllocator::new_block(const Block& block) {
  if (unused_.empty()) return blocks_.add(block);
  const BlockId id = unused_.back();
  unused_.pop_back();
  blocks_[id] = block;
  return id;
}

CachingAllocator::BlockId CachingAllocator::allocate(Bytes bytes, int stream) {
  const Bytes size = rounded(bytes, kRounding);
  const bool small = size <= kLargestSmall;
  const int pool = 2 * stream + (small ? 0 : 1);
  FreeBlocks& free = free_[pool];
  BlockId id;
  if (const auto fit = free.lower_bound({size, kNoIndex}); fit != free.end()) {
    id = fit->second;
    free.erase(fit);
  } else {
    const Bytes segment = segment_size(size);
    if (reserved_ + segment > capacity_) give_back_segments();
    reserved_ += segment;
    most_reserved_ = std::max(most_reserved_, reserved_);
    id = new_block({segment, kNoIndex, kNoIndex, pool, false});
  }
  const Bytes rest = blocks_[id].size - size;
  if (small ? rest >= kRounding : rest > kLargestSmall) {
    const BlockId behind = blocks_[id].behind;
    const BlockId left = new_block({rest, id, behind, pool, true});
    blocks_[id].size = size;
    blocks_[id].behind = left;
    if (behind != kNoIndex) blocks_[behind].before = left;
    free.insert({rest, left});
  }
  blocks_[id].free = false;
  allocated_ += blocks_[id].size;
  return id;
}

void CachingAllocator::join(BlockId into, BlockId next) {
  blocks_[into].size += blocks_[next].size;
  const BlockId behind = blocks_[into].behind = blocks_[next].behind;
  if (behind != kNoIndex) blocks_[behind].before = into;
  unused_.push_back(next);
}

void CachingAllocator::free(BlockId id) {
  check(!blocks_[id].free, "a block is freed once");
  allocated_ -= blocks_[id].size;
  FreeBlocks& free = free_[blocks_[id].pool];
  const auto take = [&](BlockId neighbour) {
    if (neighbour == kNoIndex || !blocks_[neighbour].free) return false;
    free.erase({blocks_[neighbour].size, neighbour});
    return true;
  };
  if (const BlockId behind = blocks_[id].behind; take(behind)) join(id, behind);
  if (const BlockId before = blocks_[id].before; take(before)) {
    join(before, id);
    id = before;
  }
  blocks_[id].free = true;
  free.insert({blocks_[id].size, id});
}

void CachingAllocator::give_back_segments() {
  for (auto& [pool, free] : free_) {
    std::erase_if(free, [&](const auto& entry) {
      const Block& block = blocks_[entry.second];
      if (block.before != kNoIndex || block.behind != kNoIndex) return false;
      reserved_ -= block.size;
      unused_.push_back(entry.second);
      return true;
    });
  }
}

}  // namespace trainyard
