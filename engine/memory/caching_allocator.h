// PyTorch's caching allocator of device memory (c10/cuda/CUDACachingAllocator.cpp, 1.8 to 2.11,
// with its default settings): what it takes from the driver to serve a sequence of requests.
//
// Requests are rounded to 512 bytes. Up to 1 MiB they are cut from segments of 2 MiB, below 10 MiB
// from segments of 20 MiB, larger ones have segments of their own, in whole 2 MiB. A stream uses
// its own segments. The smallest free block that holds a request serves it, and is split where the
// rest is of use: 512 bytes in a small segment, more than 1 MiB in a large one. Neighbours that are
// free are one block. Where the driver has no more, segments in which nothing lives are given back.
//
// With its setting expandable_segments a stream has one segment of either kind, a range of
// addresses without an end, of which whole pages of 2 and 20 MiB are mapped as they are needed:
// what no free block holds goes to the lowest addresses that are free or not mapped, a free block
// in front of those included. Every rest is of use, and pages in which nothing lives can be given
// back.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/base/units.h"

namespace trainyard {

class CachingAllocator {
 public:
  struct Block {
    Bytes size = 0;
    Index<Block> before, behind;  // neighbours in the segment
    int pool = 0;
    bool free = false;
    bool mapped = true;
    Bytes at = 0;  // where it begins in the segment
  };
  using BlockId = Index<Block>;

  /// `capacity`: bytes that the driver has; beyond it requests are served all the same, and
  /// most_reserved() tells.
  explicit CachingAllocator(Bytes capacity, bool expandable = false)
      : capacity_(capacity),
        expandable_(expandable) {}

  /// A block of at least `bytes`, used by the kernels of `stream`.
  BlockId allocate(Bytes bytes, int stream);
  void free(BlockId block);

  Bytes reserved() const { return reserved_; }
  Bytes most_reserved() const { return most_reserved_; }
  Bytes allocated() const { return allocated_; }  // as rounded

 private:
  using FreeBlocks = std::set<std::pair<Bytes, BlockId>>;

  BlockId new_block(const Block& block);
  void reserve(Bytes bytes);
  BlockId take_free(Bytes size, int pool);
  BlockId new_segment(Bytes size, int pool);
  BlockId cut(BlockId id, Bytes size);
  void join(BlockId into, BlockId next);
  void give_back_segments();

  // Segments that grow:
  bool is_unmapped(BlockId id) const { return id != kNoIndex && !blocks_[id].mapped; }
  bool is_free(BlockId id) const { return id != kNoIndex && blocks_[id].free; }
  Bytes room(BlockId id) const;
  std::pair<BlockId, Bytes> find_room(Bytes size, int pool);
  BlockId grow(Bytes size, int pool);
  BlockId map(BlockId id, Bytes size);
  void unmap(BlockId id);
  void give_back_pages();

  Bytes capacity_;
  bool expandable_;
  Bytes reserved_ = 0, most_reserved_ = 0, allocated_ = 0;
  Indexed<BlockId, Block> blocks_;
  std::vector<BlockId> unused_;     // entries of blocks_
  std::map<int, FreeBlocks> free_;  // by pool: a stream's small segments, or its large ones
  std::map<int, std::map<Bytes, BlockId>> unmapped_;  // by pool and address
};

}  // namespace trainyard
