#include "engine/exec/costs.h"

#include <boost/container/static_vector.hpp>
#include <set>

#include "engine/graph/op_table.h"

namespace trainyard {

namespace {

class CostTable {
 public:
  explicit CostTable(const Program& program) : program_(program) {
    shapes_.reserve(program.values.size());
    for (const Value& value : program.values) {
      Shape shape;
      for (const Dim& dim : value.dims) shape.push_back(dim.expected);
      shapes_.push_back(std::move(shape));
    }
  }

  KernelWork work(const ProgramOp& op) {
    operands(op.reads, reads_);
    operands(op.writes, writes_);
    operands(op.accumulates, accumulates_);
    return kernel_work(op.kind, op.part, program_.attrs[static_cast<std::size_t>(op.attrs)], reads_,
                       writes_, accumulates_);
  }

 private:
  void operands(const Operands& list, std::vector<OperandShape>& out) const {
    out.clear();
    for (const Operand& operand : list) {
      const auto v = static_cast<std::size_t>(operand.value);
      out.push_back({&shapes_[v], program_.values[v].dtype});
    }
  }

  const Program& program_;
  std::vector<Shape> shapes_;  // [value]
  std::vector<OperandShape> reads_, writes_, accumulates_;
};

}  // namespace

Costs make_costs(const Program& program, const HardwareProfile& hardware,
                 const SoftwareProfile& software, const Cluster& cluster, SourceLog& log) {
  Costs costs;
  costs.cluster = cluster;
  std::set<double> speeds = {1.0};
  for (const auto& [device, factor] : cluster.speed) speeds.insert(factor);
  const Seconds launch = launch_time(hardware, software, log);
  CostTable table(program);
  for (double speed : speeds) {
    auto& segments = costs.ops[speed];
    segments.resize(program.segments.size());
    for (std::size_t s = 0; s < program.segments.size(); ++s) {
      for (const ProgramOp& op : program.segments[s].ops) {
        OpCost cost;
        if (is_communication(op.kind)) {
          cost.launch = launch;
          cost.bytes = message_bytes(program, op);
        } else if (op.kind != OpKind::kFree) {
          const KernelWork work = table.work(op);
          cost.flop = work.flop;
          cost.bytes = work.bytes;
          if (work.cls != KernelClass::kNone) {
            cost.kernel = kernel_time(work, hardware, software, speed, log);
            cost.launch = launch;
          }
        }
        segments[s].push_back(cost);
      }
    }
  }
  return costs;
}

Bytes message_bytes(const Program& program, const ProgramOp& op) {
  const auto size = [&](const Operands& operands) {
    return size_in_bytes(program.values[static_cast<std::size_t>(operands[0].value)]);
  };
  switch (op.kind) {
    case OpKind::kAllGather:
    case OpKind::kRecv: return size(op.writes);
    default: return size(op.reads);
  }
}

}  // namespace trainyard
