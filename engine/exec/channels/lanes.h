// What a Program communicates, apart from who and where: its lanes, and the messages on each.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/graph/kernel_work.h"
#include "engine/program/program.h"

namespace trainyard {

using LaneId = Index<struct Lane, std::int16_t>;
using MessageId = Index<struct Message>;

/// Sets of lanes.
inline constexpr std::size_t kMostLanes = 256;
using LaneSet = std::bitset<kMostLanes>;
inline LaneSet lane_bit(LaneId lane) { return LaneSet().set(lane.number()); }

/// A kind of communication: one Group, or one Transfer as its sender sees it, on one stream. Copies
/// between a device and its host, or the host and its drives, are transfers of offset 0, which no
/// other has.
struct Lane {
  GroupId group = kNoIndex;  // kNoIndex: a transfer
  AxisId axis = kNoAxis;     // transfers between ranks: along this axis
  std::int32_t offset = 0;  // transfers: to the coordinate so much higher, cyclically; in [0, size)
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs = {};  // Transfer::pairs of the sender
  StreamId stream = StreamId::kMain;
  bool by_host = false;  // transfers: from the memory of one host into that of another
  bool is_copy() const {
    return stream == StreamId::kD2h || stream == StreamId::kH2d || to_drives() || from_drives();
  }
  bool to_drives() const { return stream == StreamId::kNvmeOut; }
  bool from_drives() const { return stream == StreamId::kNvmeIn; }
  friend bool operator==(const Lane&, const Lane&) = default;
};

/// A product that reads what a collective of the tensor group gathers, the first to do so, or makes
/// what it reduces: they can go in pieces beside each other.
struct ProductBeside {
  KernelWork work;
  std::int64_t ranks = 1;  // of the group
};
using ProductId = Index<ProductBeside>;

/// What is sent over a lane.
struct Message {
  LaneId lane = kNoIndex;
  OpKind kind = OpKind::kSend;   // a collective, kSend or kCopy
  Bytes bytes = 0;               // as message_bytes()
  ProductId product = kNoIndex;  // collectives: the one beside it
  friend bool operator==(const Message&, const Message&) = default;
};

/// Lanes and messages of a Program; one pass over its segments.
struct Lanes {
  Indexed<LaneId, Lane> lanes;
  Indexed<MessageId, Message> messages;
  Indexed<ProductId, ProductBeside> products;
  Indexed<SegmentId, std::vector<MessageId>>
      of_op;  // [op]; kNoIndex: sends nothing, or within a group of one
};
Lanes find_lanes(const Program& program);

}  // namespace trainyard
