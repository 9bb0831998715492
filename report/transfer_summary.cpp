#include "report/transfer_summary.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/passes/pool_slots.h"
#include "engine/passes/transfer_routes.h"

namespace trainyard {

namespace {

class TransferCounter {
 public:
  TransferCounter(const Program& program, PipelineLinks links, Bytes buffer)
      : program_(program),
        links_(std::move(links)),
        buffer_(buffer),
        fit_(buffer_slots(program)),
        largest_sent_(program.body.size()),
        largest_received_(program.body.size()) {}

  TransferSummary run() {
    for (std::size_t rank = 0; rank < program_.body.size(); ++rank) {
      alive_.clear();
      for (const Call& call : program_.body[rank].calls) {
        if (call.mb[0] < 0) continue;  // norms on their way along the pipeline
        for (const ProgramOp& op : program_.segments[call.segment].ops) {
          see(op, static_cast<std::int32_t>(rank));
        }
      }
    }
    TransferSummary out;
    for (auto& [ends, boundary] : boundaries_) {
      boundary.from = ends.first;
      boundary.to = ends.second;
      if (boundary.by_host > 0) boundary.reason = reason(boundary);
      out.boundaries.push_back(boundary);
    }
    for (const auto& [pool, buffer] : buffers_) out.buffers.push_back(buffer);
    std::stable_sort(out.buffers.begin(), out.buffers.end(), [](const auto& a, const auto& b) {
      return std::pair(a.rank, !a.receives) < std::pair(b.rank, !b.receives);
    });
    return out;
  }

 private:
  const Value& value(const Operand& operand) const { return program_.values[operand.value]; }
  const Pool& pool(PoolId id) const { return program_.pools[id]; }

  void see(const ProgramOp& op, std::int32_t rank) {
    if (op.kind == OpKind::kFree) {
      for (const Operand& read : op.reads) {
        if (value(read).pool != kNoIndex) --alive_[value(read).pool];
      }
      return;
    }
    // What the norm's stream carries is a sum on its way (post_validation.h).
    if (op.kind == OpKind::kRecv && op.stream != StreamId::kNorm) count(op, rank);
    if (op.kind == OpKind::kSend && op.stream != StreamId::kNorm) {
      Bytes& largest = largest_sent_[rank];
      largest = std::max(largest, size_in_bytes(value(op.reads[0])));
    }
    if (op.writes.size() != 1 || value(op.writes[0]).pool == kNoIndex) return;
    const PoolId into = value(op.writes[0]).pool;
    const int now = ++alive_[into];
    if (pool(into).buffer == 0) return;
    TransferSummary::Buffer& buffer = buffers_[into];
    buffer.rank = rank;
    buffer.receives = op.kind == OpKind::kRecv;
    buffer.bytes = pool(into).buffer;
    buffer.slots = fit_.at(into);
    buffer.slot_bytes = slot_bytes(into);
    buffer.used = std::max(buffer.used, now);
  }

  void count(const ProgramOp& op, std::int32_t rank) {
    const std::int32_t ranks = num_pipeline_ranks(program_.mesh);
    const std::int32_t offset = program_.transfers[op.transfer].offset;
    TransferSummary::Boundary& boundary =
        boundaries_[{((rank + offset) % ranks + ranks) % ranks, rank}];
    const Value& received = value(op.writes[0]);
    ++(received.space == Space::kHost ? boundary.by_host : boundary.direct);
    Bytes& largest = largest_received_[rank];
    largest = std::max(largest, size_in_bytes(received));
  }

  Bytes slot_bytes(PoolId id) const {
    Bytes bytes = 0;
    for (const Value& v : program_.values) {
      if (v.pool == id) bytes = std::max(bytes, size_in_bytes(v));
    }
    return bytes;
  }

  std::string reason(const TransferSummary::Boundary& boundary) const {
    const PipelineLink& link = links_.between(boundary.from, boundary.to);
    if (!link.obstacle.empty()) return link.obstacle;
    const Bytes sent = largest_sent_[boundary.from];
    const Bytes received = largest_received_[boundary.to];
    // The sender has a buffer only where the network is between.
    if (link.between_nodes && sent > buffer_) return too_small(boundary.from, "sends", sent);
    if (received > buffer_) return too_small(boundary.to, "receives", received);
    return "the buffer is full";
  }

  /// Slots are as large as the largest tensor: there is none.
  std::string too_small(std::int32_t rank, const char* does, Bytes largest) const {
    return format(
        "the buffer of %lld bytes is smaller than the largest tensor that pipeline rank %d %s, "
        "%lld bytes",
        static_cast<long long>(buffer_), rank, does, static_cast<long long>(largest));
  }

  const Program& program_;
  PipelineLinks links_;
  Bytes buffer_;  // of each use
  std::map<PoolId, std::int64_t> fit_;
  Numbered<Bytes> largest_sent_, largest_received_;  // [pipeline rank]
  std::map<std::pair<std::int32_t, std::int32_t>, TransferSummary::Boundary> boundaries_;
  std::map<PoolId, TransferSummary::Buffer> buffers_;
  std::map<PoolId, int> alive_;  // of the list being looked at
};

}  // namespace

std::optional<TransferSummary> summarise_transfers(const Program& program, const Study& study) {
  PipelineLinks links = pipeline_links(study.cluster, study);
  if (links.empty()) return std::nullopt;
  return TransferCounter(program, std::move(links), study.parallel.d2d_buffer).run();
}

std::string transfers_text(const TransferSummary& transfers) {
  std::string text = "  pipeline transfers of a step\n";
  for (const TransferSummary::Boundary& boundary : transfers.boundaries) {
    text +=
        format("    rank %d to %d: %lld direct, %lld by the host", boundary.from, boundary.to,
               static_cast<long long>(boundary.direct), static_cast<long long>(boundary.by_host));
    text += (boundary.reason.empty() ? "" : ": " + boundary.reason) + "\n";
  }
  for (const TransferSummary::Buffer& buffer : transfers.buffers) {
    text += format("    rank %d %s a buffer of %s: %s of %s, %d in use at most\n", buffer.rank,
                   buffer.receives ? "receives into" : "sends from",
                   bytes_text(buffer.bytes).c_str(), plural(buffer.slots, "slot").c_str(),
                   bytes_text(buffer.slot_bytes).c_str(), buffer.used);
  }
  return text;
}

nlohmann::ordered_json transfers_json(const TransferSummary& transfers) {
  nlohmann::ordered_json out;
  out["boundaries"] = nlohmann::ordered_json::array();
  for (const TransferSummary::Boundary& b : transfers.boundaries) {
    out["boundaries"].push_back({{"from", b.from},
                                 {"to", b.to},
                                 {"direct", b.direct},
                                 {"by_host", b.by_host},
                                 {"reason", b.reason}});
  }
  out["buffers"] = nlohmann::ordered_json::array();
  for (const TransferSummary::Buffer& b : transfers.buffers) {
    out["buffers"].push_back({{"rank", b.rank},
                              {"use", b.receives ? "receive" : "send"},
                              {"bytes", b.bytes},
                              {"slots", b.slots},
                              {"slot_bytes", b.slot_bytes},
                              {"used", b.used}});
  }
  return out;
}

}  // namespace trainyard
