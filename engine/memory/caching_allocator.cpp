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
constexpr Bytes kAddresses = kLargeSegment << 32;  // of a segment that grows

Bytes rounded(Bytes bytes, Bytes to) { return std::max((bytes + to - 1) / to * to, to); }

Bytes segment_size(Bytes size) {
  if (size <= kLargestSmall) return kSmallSegment;
  return size < kOwnSegment ? kLargeSegment : rounded(size, kSegmentRounding);
}

Bytes page_size(int pool) { return pool % 2 == 0 ? kSmallSegment : kLargeSegment; }

}  // namespace

CachingAllocator::BlockId CachingAllocator::new_block(const Block& block) {
  if (unused_.empty()) return blocks_.add(block);
  const BlockId id = unused_.back();
  unused_.pop_back();
  blocks_[id] = block;
  return id;
}

void CachingAllocator::reserve(Bytes bytes) {
  reserved_ += bytes;
  most_reserved_ = std::max(most_reserved_, reserved_);
}

/// A block in front of what is not mapped counts as large as it can become, so that holes between
/// blocks in use are taken first.
Bytes CachingAllocator::room(BlockId id) const {
  const BlockId behind = blocks_[id].behind;
  return blocks_[id].size + (is_unmapped(behind) ? blocks_[behind].size : 0);
}

CachingAllocator::BlockId CachingAllocator::take_free(Bytes size, int pool) {
  FreeBlocks& free = free_[pool];
  auto fit = free.lower_bound({size, kNoIndex});
  if (fit == free.end()) return kNoIndex;
  for (auto next = std::next(fit); expandable_ && next != free.end(); fit = next++) {
    if (room(next->second) >= room(fit->second)) break;
  }
  const BlockId id = fit->second;
  free.erase(fit);
  return id;
}

CachingAllocator::BlockId CachingAllocator::new_segment(Bytes size, int pool) {
  const Bytes segment = segment_size(size);
  if (reserved_ + segment > capacity_) give_back_segments();
  reserve(segment);
  Block block;
  block.size = segment;
  block.pool = pool;
  return new_block(block);
}

/// Leaves `size` of a block, and returns the rest as another, like it.
CachingAllocator::BlockId CachingAllocator::cut(BlockId id, Bytes size) {
  Block rest = blocks_[id];
  rest.size -= size;
  rest.at += size;
  rest.before = id;
  const BlockId left = new_block(rest);
  blocks_[id].size = size;
  blocks_[id].behind = left;
  if (rest.behind != kNoIndex) blocks_[rest.behind].before = left;
  return left;
}

CachingAllocator::BlockId CachingAllocator::allocate(Bytes bytes, int stream) {
  const Bytes size = rounded(bytes, kRounding);
  const bool small = size <= kLargestSmall;
  const int pool = 2 * stream + (small ? 0 : 1);
  BlockId id = take_free(size, pool);
  if (id == kNoIndex) id = expandable_ ? grow(size, pool) : new_segment(size, pool);
  const Bytes rest = blocks_[id].size - size;
  if (small || expandable_ ? rest >= kRounding : rest > kLargestSmall) {
    const BlockId left = cut(id, size);
    blocks_[left].free = true;
    free_[pool].insert({rest, left});
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
    if (!is_free(neighbour)) return false;
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

// --- segments that grow ---

/// Where `size` has room at the lowest address that is not mapped, and how much is to be mapped
/// there.
std::pair<CachingAllocator::BlockId, Bytes> CachingAllocator::find_room(Bytes size, int pool) {
  auto& unmapped = unmapped_[pool];
  if (unmapped.empty()) {
    Block all;
    all.size = kAddresses;
    all.pool = pool;
    all.mapped = false;
    unmapped.emplace(0, new_block(all));
  }
  for (const auto& [at, first] : unmapped) {
    const BlockId before = blocks_[first].before;
    const BlockId from = is_free(before) ? before : first;
    Bytes room = 0, missing = 0;
    for (BlockId id = from; room < size && (is_free(id) || is_unmapped(id));
         id = blocks_[id].behind) {
      const Bytes part = std::min(blocks_[id].size, size - room);
      room += part;
      if (!blocks_[id].mapped) missing += rounded(part, page_size(pool));
    }
    if (room >= size) return {from, missing};
  }
  bug("a range of addresses ends");
}

CachingAllocator::BlockId CachingAllocator::grow(Bytes size, int pool) {
  auto [id, missing] = find_room(size, pool);
  if (reserved_ + missing > capacity_) {
    give_back_pages();
    id = find_room(size, pool).first;
  }
  if (is_unmapped(id)) id = map(id, size);
  while (blocks_[id].size < size) id = map(blocks_[id].behind, size - blocks_[id].size);
  free_[pool].erase({blocks_[id].size, id});
  return id;
}

/// Maps pages at the beginning of what is not mapped; the free block that they are part of.
CachingAllocator::BlockId CachingAllocator::map(BlockId id, Bytes size) {
  const int pool = blocks_[id].pool;
  const Bytes mapped = std::min(rounded(size, page_size(pool)), blocks_[id].size);
  unmapped_[pool].erase(blocks_[id].at);
  if (mapped < blocks_[id].size) {
    const BlockId rest = cut(id, mapped);
    unmapped_[pool].emplace(blocks_[rest].at, rest);
  }
  blocks_[id].mapped = true;
  allocated_ += mapped;
  reserve(mapped);
  const BlockId before = blocks_[id].before;
  free(id);
  return is_free(before) ? before : id;
}

void CachingAllocator::unmap(BlockId id) {
  auto& unmapped = unmapped_[blocks_[id].pool];
  reserved_ -= blocks_[id].size;
  blocks_[id].free = blocks_[id].mapped = false;
  if (const BlockId behind = blocks_[id].behind; is_unmapped(behind)) {
    unmapped.erase(blocks_[behind].at);
    join(id, behind);
  }
  if (const BlockId before = blocks_[id].before; is_unmapped(before)) {
    join(before, id);
  } else {
    unmapped.emplace(blocks_[id].at, id);
  }
}

void CachingAllocator::give_back_pages() {
  for (auto& [pool, free] : free_) {
    const Bytes page = page_size(pool);
    for (const auto& [size, id] : FreeBlocks(free)) {
      const Bytes begin = blocks_[id].at, end = begin + size;
      const Bytes first = (begin + page - 1) / page * page, last = end / page * page;
      if (first >= last) continue;
      free.erase({size, id});
      BlockId pages = id;
      if (first > begin) {
        pages = cut(id, first - begin);
        free.insert({blocks_[id].size, id});
      }
      if (last < end) {
        const BlockId rest = cut(pages, last - first);
        free.insert({blocks_[rest].size, rest});
      }
      unmap(pages);
    }
  }
}

// --- the others ---

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
