#include "engine/exec/channels/lanes.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/exec/op_work.h"
#include "engine/graph/op_table.h"
#include "engine/program/no_ops.h"
#include "engine/program/rank_places.h"

namespace trainyard {

namespace {

/// Which products make rows and read them, segment by segment; one in 8 bits reads also what its
/// operand is cast from. Those of weights' gradients sum over rows, and are none of these.
class ProductsOfRows {
 public:
  explicit ProductsOfRows(const Program& program)
      : program_(program),
        makers_(program.values.size()),
        readers_(program.values.size()) {}

  void look_at(SegmentId s) {
    segment_ = s;
    const auto& ops = program_.segments[s].ops;
    for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
      const ProgramOp* product = nullptr;
      if (op->kind == OpKind::kQuantize)
        product = found(op->writes[0], readers_);
      else if (op_info(op->kind).kernel == KernelClass::kMatmul &&
               op->part != OpPart::kWeightGrad) {
        product = &*op;
        makers_[op->writes[0].value] = {s, product};
      }
      if (product != nullptr) readers_[op->reads[0].value] = {s, product};
    }
  }

  /// The one of what a collective gathers or reduces along another dim than the last; null: none.
  const ProgramOp* beside(const ProgramOp& collective) const {
    const bool gathers = collective.kind == OpKind::kAllGather;
    if (!gathers && collective.kind != OpKind::kReduceScatter) return nullptr;
    const Operand& whole = gathers ? collective.writes[0] : collective.reads[0];
    const int dim = program_.attrs[collective.attrs].dim;
    if (dim < 0 || dim + 1 >= std::ssize(program_.values[whole.value].dims)) return nullptr;
    return found(whole, gathers ? readers_ : makers_);
  }

 private:
  struct Product {
    SegmentId segment = kNoIndex;
    const ProgramOp* op = nullptr;
  };
  using OfValues = Indexed<ValueId, Product>;  // in which segment last

  const ProgramOp* found(const Operand& operand, const OfValues& of) const {
    const Product& product = of[operand.value];
    return product.segment == segment_ ? product.op : nullptr;
  }

  const Program& program_;
  SegmentId segment_ = kNoIndex;
  OfValues makers_, readers_;
};

bool alike(const ProductBeside& a, const ProductBeside& b) {
  const auto key = [](const ProductBeside& it) {
    const KernelWork& work = it.work;
    return std::tuple(work.part, work.dtype, work.m, work.n, work.k, work.bytes, it.ranks);
  };
  return key(a) == key(b);
}

}  // namespace

Lanes find_lanes(const Program& program) {
  Lanes out;
  out.of_op.resize(program.segments.size());
  const auto pipeline_ranks = pipeline_ranks_of_segments(program);
  const auto index_in = []<typename Id, typename Entry>(Indexed<Id, Entry>& list,
                                                        const Entry& entry) {
    const auto it = std::find(list.begin(), list.end(), entry);
    return it != list.end() ? Id(it - list.begin()) : list.add(entry);
  };
  ProductsOfRows products(program);
  std::optional<OpWork> work_of;  // made where a product is asked for
  const auto product_in = [&](const ProgramOp& op, std::int64_t ranks) {
    if (!work_of) work_of.emplace(program);
    const ProductBeside product{(*work_of)(op), ranks};
    const auto same = [&](const ProductBeside& other) { return alike(product, other); };
    const auto it = std::find_if(out.products.begin(), out.products.end(), same);
    return it != out.products.end() ? ProductId(it - out.products.begin())
                                    : out.products.add(product);
  };
  for (const SegmentId s : program.segments.keys()) {
    products.look_at(s);
    auto& of_op = out.of_op[s];
    of_op.reserve(program.segments[s].ops.size());
    for (const ProgramOp& op : program.segments[s].ops) {
      if (!moves_data(op.kind) || has_no_peers(program, op, pipeline_ranks[s])) {
        of_op.push_back(kNoIndex);
        continue;
      }
      Lane lane;
      lane.stream = transfer_stream(op.stream);
      if (is_transfer(op.kind)) {
        const Transfer& own = program.transfers[op.transfer];
        Transfer transfer = op.kind == OpKind::kSend ? own : reversed(own);
        const std::int32_t size = program.mesh.size(transfer.axis);
        lane.axis = transfer.axis;
        lane.offset = (transfer.offset % size + size) % size;
        lane.pairs = std::move(transfer.pairs);
        lane.by_host = moved_value(program, op).space == Space::kHost;
      } else if (is_collective(op.kind)) {
        lane.group = op.group;
      }
      Message message;
      message.lane = index_in(out.lanes, lane);
      message.kind = op.kind == OpKind::kRecv ? OpKind::kSend : op.kind;
      message.bytes = message_bytes(program, op);
      if (lane.stream == StreamId::kTp) {
        if (const ProgramOp* product = products.beside(op)) {
          const Axes& axes = program.groups[op.group].axes;
          message.product = product_in(*product, group_size(program.mesh, axes, pipeline_ranks[s]));
        }
      }
      of_op.push_back(index_in(out.messages, message));
    }
  }
  return out;
}

}  // namespace trainyard
