#include "engine/calibrate/kernel_table.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "engine/calibrate/text_table.h"
#include "engine/calibrate/timing_summary.h"
#include "engine/graph/op_table.h"

namespace trainyard {

namespace {

/// The product as the op table sees it: y = x w^T with x [m, k] and w [n, k].
KernelWork product(std::int64_t m, std::int64_t k, std::int64_t n, OpPart part, DType type) {
  const Shape left = part == OpPart::kWeightGrad ? Shape{k, m} : Shape{m, k};
  const Shape right = part == OpPart::kForward ? Shape{n, k} : Shape{k, n};
  const Shape out = {m, n};
  const std::array<OperandShape, 2> reads = {{{&left, type}, {&right, type}}};
  const std::array<OperandShape, 1> writes = {{{&out, type}}},
                                    sums = {{{&out, accumulation_type(type)}}};
  if (part == OpPart::kWeightGrad) return kernel_work(OpKind::kLinear, part, {}, reads, {}, sums);
  return kernel_work(OpKind::kLinear, part, {}, reads, writes, {});
}

class Reader {
 public:
  Reader(const std::string& text, const std::string& file, DType type, const std::string& device)
      : table_(text, file), header_(cells_of(table_.first_line())), type_(type), device_(device) {}

  KernelTable read() {
    if (table_.first_line().find("time_stats.") != std::string::npos)
      read_vidur();
    else
      read_own();
    KernelTable out;
    for (auto& [shape, times] : times_) {
      const auto& [part, m, k, n] = shape;
      const KernelWork work = product(m, k, n, part, type_);
      out.num_rows += times.size();
      const TimingSummary summary = summarise_timings(std::move(times));
      out.points[work.form].push_back({work.form,
                                       {work.m, work.n, work.k, work.batch},
                                       work.flop,
                                       work.bytes,
                                       summary.median,
                                       summary.interval});
    }
    constexpr std::size_t kMost = 400;  // a curve's cost grows with the cube of its points
    for (auto& [form, points] : out.points) points = spread_over(std::move(points), kMost);
    if (out.points.empty()) {
      std::string devices;
      for (const std::string& name : seen_) devices += (devices.empty() ? "" : ", ") + name;
      table_.fail(1, device_.empty() || seen_.empty()
                         ? "expected rows of timed products"
                         : "no row is of the device '" + device_ + "'; there are " + devices);
    }
    return out;
  }

 private:
  std::int64_t extent(const std::vector<std::string>& cells, std::size_t at,
                      std::size_t line) const {
    constexpr double kMost = 1e9;
    const double value = table_.number(cells, at, line);
    if (value < 1 || value > kMost ||
        value != static_cast<double>(static_cast<std::int64_t>(value)))
      table_.fail(line,
                  "expected a whole number from 1 to 1e9 in column " + std::to_string(at + 1));
    return static_cast<std::int64_t>(value);
  }

  void add(OpPart part, std::int64_t m, std::int64_t k, std::int64_t n, Seconds time) {
    if (time > 0) times_[{part, m, k, n}].push_back(time);
  }

  void read_own() {
    const std::size_t m = column(header_, "m"), k = column(header_, "k"), n = column(header_, "n"),
                      us = column(header_, "us");
    if (std::max({m, k, n, us}) >= header_.size())
      table_.fail(1, "expected the columns m, k, n and us, or those of Vidur's tables of layers");
    const std::size_t part = column(header_, "part"), device = column(header_, "device");
    if (device < header_.size() && device_.empty())
      table_.fail(1, "the table has a column 'device': say whose rows with --select device=NAME");
    for (std::size_t i = 1; i < table_.lines().size(); ++i) {
      const std::vector<std::string> cells = cells_of(table_.lines()[i]);
      if (cells.empty()) continue;
      if (device < cells.size()) {
        seen_.insert(cells[device]);
        if (cells[device] != device_) continue;
      }
      add(part < cells.size() ? part_of(cells[part], i + 1) : OpPart::kForward,
          extent(cells, m, i + 1), extent(cells, k, i + 1), extent(cells, n, i + 1),
          table_.number(cells, us, i + 1) * 1e-6);
    }
  }

  OpPart part_of(const std::string& word, std::size_t line) const {
    if (word == "forward") return OpPart::kForward;
    if (word == "input_grad") return OpPart::kInputGrad;
    if (word == "weight_grad") return OpPart::kWeightGrad;
    table_.fail(line, "expected forward, input_grad or weight_grad, got '" + word + "'");
  }

  /// A Llama's layers under tensor parallelism: the products' shapes follow from the model's.
  void read_vidur() {
    const auto at = [&](const std::string& name) {
      const std::size_t place = column(header_, name);
      if (place >= header_.size()) table_.fail(1, "expected the column " + name);
      return place;
    };
    const std::size_t tokens = at("num_tokens"), degree = at("num_tensor_parallel_workers"),
                      heads = at("n_head"), kv_heads = at("n_kv_head"), width = at("n_embd"),
                      wide = at("n_expanded_embd"), gated = at("use_gated_mlp");
    const std::size_t qkv = at("time_stats.attn_pre_proj.median"),
                      out = at("time_stats.attn_post_proj.median"),
                      up = at("time_stats.mlp_up_proj.median"),
                      down = at("time_stats.mlp_down_proj.median");
    for (std::size_t i = 1; i < table_.lines().size(); ++i) {
      const std::vector<std::string> cells = cells_of(table_.lines()[i]);
      if (cells.empty()) continue;
      const auto value = [&](std::size_t place) { return extent(cells, place, i + 1); };
      const std::int64_t m = value(tokens), t = value(degree), h = value(width),
                         head = h / value(heads);
      const std::int64_t q = h / t, kv = value(kv_heads) * head / t, f = value(wide) / t;
      const std::int64_t ups = gated < cells.size() && cells[gated] == "True" ? 2 : 1;
      const auto layer = [&](std::size_t place, std::int64_t k, std::int64_t n) {
        if (place < cells.size() && !cells[place].empty())
          add(OpPart::kForward, m, k, n, table_.number(cells, place, i + 1) * 1e-3);
      };
      layer(qkv, h, q + 2 * kv);
      layer(out, q, h);
      layer(up, h, ups * f);
      layer(down, f, h);
    }
  }

  TextTable table_;
  std::vector<std::string> header_;
  DType type_;
  std::string device_;
  std::set<std::string> seen_;  // devices
  std::map<std::tuple<OpPart, std::int64_t, std::int64_t, std::int64_t>, std::vector<Seconds>>
      times_;
};

}  // namespace

KernelTable read_kernel_table(const std::string& text, const std::string& file, DType type,
                              const std::string& device) {
  return Reader(text, file, type, device).read();
}

}  // namespace trainyard
