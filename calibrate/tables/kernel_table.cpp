#include "calibrate/tables/kernel_table.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "calibrate/measure/timing_summary.h"
#include "calibrate/tables/text_table.h"
#include "engine/base/format.h"
#include "engine/base/user_text.h"
#include "engine/graph/count_work.h"
#include "study/measured_reader.h"

namespace trainyard {

namespace {

/// The GEMM as the op table sees it: y = x w^T with x [m, k] and w [n, k].
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

using ProductSizes = std::array<std::int64_t, 3>;  // m, k, n

constexpr double kMostElementSize = 16;  // bytes: fp64, read and written

class Reader {
 public:
  Reader(const std::string& text, const std::string& file, DType type, const std::string& device,
         FlopPerSecond fastest)
      : table_(text, file),
        header_(cells_of(table_.first_line(), 1)),
        type_(type),
        device_(device),
        fastest_(fastest) {}

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
  std::int64_t extent(const TextRow& row, std::size_t at) const {
    constexpr std::int64_t kMost = 1'000'000'000;
    return table_.whole(row, at, 1, kMost);
  }

  /// A timed GEMM: in cell `at` of a row, how many times `unit` it took.
  void add(OpPart part, const ProductSizes& shape, const TextRow& row, std::size_t at,
           Seconds unit) {
    const auto& [m, k, n] = shape;
    const Seconds time = table_.time(row, at, unit);
    // In doubles: of the largest extents no whole number holds the product.
    const auto a = static_cast<double>(m), b = static_cast<double>(k), c = static_cast<double>(n);
    const double elements = a * b + b * c + a * c, flop = 2 * a * b * c;
    if (elements * kMostElementSize > static_cast<double>(kMostPointBytes) ||
        flop > kMostPointFlop) {
      table_.fail(row, at,
                  format("a product of %.4g FLOP over %.4g elements is larger than any "
                         "curve holds",
                         flop, elements));
    }
    if (flop / time > fastest_) {
      table_.fail(row, at,
                  format("a product at %.4g GFLOP/s: more than 5 %% faster than the peak of ",
                         flop / time / 1e9) +
                      std::string(to_string(type_)) + " that --like has");
    }
    times_[{part, m, k, n}].push_back(time);
  }

  void read_own() {
    const std::size_t num_columns = header_.cells.size();
    const std::size_t m = column(header_, "m"), k = column(header_, "k"), n = column(header_, "n"),
                      us = column(header_, "us");
    if (std::max({m, k, n, us}) >= num_columns)
      table_.fail(1, "expected the columns m, k, n and us, or those of Vidur's tables of layers");
    const std::size_t part = column(header_, "part"), device = column(header_, "device");
    if (device < num_columns && device_.empty())
      table_.fail(1, "the table has a column 'device': say whose rows with --select device=NAME");
    for (const TextRow& row : table_.rows()) {
      if (device < num_columns) {
        const std::string& name = table_.text(row, device);
        seen_.insert(name);
        if (name != device_) continue;
      }
      add(part < num_columns ? part_of(row, part) : OpPart::kForward,
          {extent(row, m), extent(row, k), extent(row, n)}, row, us, 1e-6);
    }
  }

  OpPart part_of(const TextRow& row, std::size_t at) const {
    const std::string& word = table_.text(row, at);
    if (word == "forward") return OpPart::kForward;
    if (word == "input_grad") return OpPart::kInputGrad;
    if (word == "weight_grad") return OpPart::kWeightGrad;
    table_.fail(row, at, "expected forward, input_grad or weight_grad, got " + in_quotes(word));
  }

  /// A Llama's layers under tensor parallelism: the GEMMs' shapes follow from the model's.
  void read_vidur() {
    const auto at = [&](const std::string& name) {
      const std::size_t place = column(header_, name);
      if (place >= header_.cells.size()) table_.fail(1, "expected the column " + name);
      return place;
    };
    const std::size_t tokens = at("num_tokens"), degree = at("num_tensor_parallel_workers"),
                      heads = at("n_head"), kv_heads = at("n_kv_head"), width = at("n_embd"),
                      wide = at("n_expanded_embd"), gated = at("use_gated_mlp");
    const std::size_t qkv = at("time_stats.attn_pre_proj.median"),
                      out = at("time_stats.attn_post_proj.median"),
                      up = at("time_stats.mlp_up_proj.median"),
                      down = at("time_stats.mlp_down_proj.median");
    for (const TextRow& row : table_.rows()) {
      const auto value = [&](std::size_t place) { return extent(row, place); };
      const std::int64_t m = value(tokens), t = value(degree), h = value(width),
                         head = h / value(heads);
      const std::int64_t q = h / t, kv = value(kv_heads) * head / t, f = value(wide) / t;
      if (q == 0 || kv == 0 || f == 0) {
        table_.fail(row, degree,
                    "a model of this width cannot be divided by " + row.cells[degree] + " workers");
      }
      const std::int64_t ups = table_.text(row, gated) == "True" ? 2 : 1;
      const auto layer = [&](std::size_t place, std::int64_t k, std::int64_t n) {
        // What was not timed is left empty.
        if (!table_.text(row, place).empty()) add(OpPart::kForward, {m, k, n}, row, place, 1e-3);
      };
      layer(qkv, h, q + 2 * kv);
      layer(out, q, h);
      layer(up, h, ups * f);
      layer(down, f, h);
    }
  }

  TextTable table_;
  TextRow header_;
  DType type_;
  std::string device_;
  FlopPerSecond fastest_;
  std::set<std::string> seen_;  // devices
  std::map<std::tuple<OpPart, std::int64_t, std::int64_t, std::int64_t>, std::vector<Seconds>>
      times_;
};

}  // namespace

KernelTable read_kernel_table(const std::string& text, const std::string& file, DType type,
                              const std::string& device, FlopPerSecond fastest) {
  return Reader(text, file, type, device, fastest).read();
}

}  // namespace trainyard
