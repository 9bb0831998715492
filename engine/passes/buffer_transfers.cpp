#include "engine/passes/buffer_transfers.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

class TransferBufferer {
 public:
  TransferBufferer(ProgramDraft& draft, Bytes buffer)
      : draft_(draft),
        program_(draft.program),
        buffer_(buffer) {}

  void run() {
    for (auto& stages : draft_.stages) {
      for (std::int32_t stage = 0; stage < draft_.num_stages; ++stage) {
        rewrite(stages[stage].sends_forward, stage, true);
        rewrite(stages[stage].sends_backward, stage, false);
      }
    }
    // What lay in a slot that was received into lies in the arena now.
    for (Value& value : program_.values) {
      if (value.alias) value.pool = program_.values[value.alias->in].pool;
    }
  }

 private:
  /// One tensor on its way: the ops that moved it, and what names its segments.
  struct Sent {
    ProgramOp send, receive;
    bool frees = false;  // the sent tensor: nobody else touches it later
    std::int32_t from = 0, to = 0;
    bool forward = true;
    std::string part, size;  // of several tensors ".b"; "@2seq"
  };

  std::int32_t rank_of(std::int32_t stage) const { return draft_.forms[stage].rank; }
  Value& value(ValueId id) { return program_.values[id]; }
  Segment& segment(SegmentId id) { return program_.segments[id]; }

  void rewrite(std::vector<StageTransfer>& transfers, std::int32_t from, bool forward) {
    for (const StageTransfer& plain : std::exchange(transfers, {})) {
      for (Sent& sent : tensors(plain.direct, from, plain.to, forward))
        transfers.push_back(ways(sent));
      check(spare_.empty(), "the ways of a transfer are more segments than it was");
    }
  }

  /// Leaves the segments of the plain transfer as spare ones.
  std::vector<Sent> tensors(const WaySegments& plain, std::int32_t from, std::int32_t to,
                            bool forward) {
    const std::string& text = segment(plain.send).name;
    const std::string size = text.find('@') == std::string::npos ? "" : text.substr(text.find('@'));
    Operands freed;
    if (plain.free != kNoIndex) freed = segment(plain.free).ops.front().reads;
    std::vector<Sent> out;
    for (std::size_t i = segment(plain.send).ops.size(); i-- > 0;) {
      Sent sent{segment(plain.send).ops[i],
                segment(plain.receive).ops[i],
                false,
                from,
                to,
                forward,
                "",
                size};
      if (i > 0) sent.part = std::string(".") + static_cast<char>('a' + i);
      check(i < 26, "a stage sends few tensors");
      // The last one sent of tensors that share a storage frees it.
      const Operand storage{storage_root(program_, sent.send.reads[0].value), 0};
      const auto found = std::find(freed.begin(), freed.end(), storage);
      sent.frees = found != freed.end();
      if (sent.frees) freed.erase(found);
      out.push_back(std::move(sent));
    }
    std::reverse(out.begin(), out.end());
    for (const SegmentId id : {plain.free, plain.receive, plain.send}) {
      if (id != kNoIndex) spare_.push_back(id);
    }
    return out;
  }

  StageTransfer ways(const Sent& sent) {
    const ValueId received = sent.receive.writes[0].value;
    check(!value(received).alias && value(received).pool != kNoIndex,
          "a stage receives into a slot");
    const PoolId of_host = value(received).pool;
    value(received).pool = kNoIndex;
    value(received).memory = MemoryClass::kActivation;
    StageTransfer out;
    const PipelineLink& between = draft_.links.between(rank_of(sent.from), rank_of(sent.to));
    if (between.obstacle.empty()) out.direct = direct(sent, between.between_nodes);
    out.by_host = by_host(sent, of_host);
    out.to = sent.to;
    return out;
  }

  WaySegments direct(const Sent& sent, bool between_nodes) {
    WaySegments way;
    const Operand from = sent.send.reads[0], to = sent.receive.writes[0];
    const Operand storage{storage_root(program_, from.value), 0};
    ProgramOp send = sent.send, receive = sent.receive;
    Operands freed;
    if (between_nodes) {
      const Operand slot = twin(from, ".sent", buffer_of(rank_of(sent.from), "send_buffer@"));
      std::vector<ProgramOp> put = {copy(OpKind::kDeviceCopy, StreamId::kMain, from, slot)};
      if (sent.frees) put.push_back(free_of({storage}));
      way.put = add(sent, sent.from, "PUT", "", std::move(put));
      send.reads = {slot};
      freed.push_back(slot);
    } else if (sent.frees) {
      freed.push_back(storage);
    }
    way.send = add(sent, sent.from, "SEND", "", {send});
    const Operand slot = twin(to, ".received", buffer_of(rank_of(sent.to), "receive_buffer@"));
    receive.writes = {slot};
    way.receive = add(sent, sent.to, "RECV", "", {receive});
    way.take = add(sent, sent.to, "TAKE", "",
                   {copy(OpKind::kDeviceCopy, StreamId::kMain, slot, to), free_of({slot})});
    if (!freed.empty()) way.free = add(sent, sent.from, "FREE", "", {free_of(freed)});
    return way;
  }

  WaySegments by_host(const Sent& sent, PoolId pool) {
    WaySegments way;
    const Operand from = sent.send.reads[0], to = sent.receive.writes[0];
    Pool& of_receiver = program_.pools[pool];
    of_receiver.space = Space::kHost;
    const std::string tensor = of_receiver.name.substr(of_receiver.name.find('.'));
    of_receiver.name = "receive_host" + tensor;
    const Operand out = twin(from, ".sent.host", host_pool("send_host" + tensor));
    const Operand in = twin(to, ".received.host", pool);
    ProgramOp send = sent.send, receive = sent.receive;
    send.reads = {out};
    receive.writes = {in};
    way.send = add(sent, sent.from, "SEND", ".host",
                   {copy(OpKind::kCopy, StreamId::kD2h, from, out), send});
    way.receive =
        add(sent, sent.to, "RECV", ".host", {receive, copy(OpKind::kCopy, StreamId::kH2d, in, to)});
    Operands freed = {out};
    if (sent.frees) freed.push_back({storage_root(program_, from.value), 0});
    way.free = add(sent, sent.from, "FREE", ".host", {free_of(freed)});
    way.release = add(sent, sent.to, "DONE", ".host", {free_of({in})});
    return way;
  }

  /// A value of the same form in a slot of `pool`.
  Operand twin(const Operand& of, const std::string& suffix, PoolId pool) {
    Value twin = value(of.value);
    twin.name += suffix;
    twin.scope = Scope::kMicrobatch;
    twin.alias.reset();
    twin.pool = pool;
    twin.space = program_.pools[pool].space;
    twin.memory = MemoryClass::kBuffer;
    program_.values.push_back(std::move(twin));
    return {ValueId(program_.values.size() - 1), 0};
  }

  PoolId pool(const std::string& name, Space space, Bytes buffer) {
    const auto [known, fresh] = pools_.try_emplace(name, PoolId(program_.pools.size()));
    if (fresh) program_.pools.push_back({name, 0, space, buffer});
    return known->second;
  }
  PoolId buffer_of(std::int32_t rank, const std::string& name) {
    return pool(name + std::to_string(rank), Space::kDevice, buffer_);
  }
  /// Microbatches of all sizes share pools.
  PoolId host_pool(const std::string& name) { return pool(name, Space::kHost, 0); }

  static ProgramOp copy(OpKind kind, StreamId stream, const Operand& from, const Operand& to) {
    ProgramOp op;
    op.kind = kind;
    op.stream = stream;
    op.reads = {from};
    op.writes = {to};
    return op;
  }
  static ProgramOp free_of(Operands storages) {
    ProgramOp op;
    op.kind = OpKind::kFree;
    op.reads = std::move(storages);
    return op;
  }

  SegmentId add(const Sent& sent, std::int32_t stage, const std::string& what,
                const std::string& way, std::vector<ProgramOp> ops) {
    Segment made;
    made.name = std::to_string(stage) + what + (sent.forward ? "_F" : "_B");
    // Those to and from a stage beside it need not say which.
    if (sent.to - sent.from != (sent.forward ? 1 : -1))
      made.name += "." + std::to_string(stage == sent.from ? sent.to : sent.from);
    made.name += sent.part + way + sent.size;
    made.stage = stage;
    made.phase = Phase::kCommunicate;
    made.ops = std::move(ops);
    for (ProgramOp& op : made.ops) {
      if (op.kind != OpKind::kFree) op.module = sent.send.module;
    }
    if (spare_.empty()) {
      program_.segments.push_back(std::move(made));
      return SegmentId(program_.segments.size() - 1);
    }
    const SegmentId id = spare_.back();
    spare_.pop_back();
    segment(id) = std::move(made);
    return id;
  }

  ProgramDraft& draft_;
  Program& program_;
  Bytes buffer_;
  std::map<std::string, PoolId> pools_;  // made here
  std::vector<SegmentId> spare_;         // of the plain transfer being rewritten
};

}  // namespace

void buffer_transfers(ProgramDraft& draft, PipelineLinks links, Bytes buffer) {
  draft.links = std::move(links);
  TransferBufferer(draft, buffer).run();
}

}  // namespace trainyard
