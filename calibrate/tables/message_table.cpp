#include "calibrate/tables/message_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "calibrate/measure/timing_summary.h"
#include "calibrate/tables/text_table.h"
#include "engine/base/place_of.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"

namespace trainyard {

namespace {

struct KindName {
  const char* in_name;  // of a test or a file
  const char* kind;
};
constexpr std::array<KindName, 11> kKinds = {{{"all_reduce", "all_reduce"},
                                              {"allreduce", "all_reduce"},
                                              {"all_gather", "all_gather"},
                                              {"allgather", "all_gather"},
                                              {"reduce_scatter", "reduce_scatter"},
                                              {"reducescatter", "reduce_scatter"},
                                              {"alltoall", "all_to_all"},
                                              {"all_to_all", "all_to_all"},
                                              {"broadcast", "broadcast"},
                                              {"sendrecv", "send"},
                                              {"send_recv", "send"}}};

std::optional<std::string> kind_in(const std::string& name) {
  for (const auto& [in_name, kind] : kKinds) {
    if (name.find(in_name) != std::string::npos) return kind;
  }
  return std::nullopt;
}

constexpr double kMostBytes = 1e15;  // 1 PB
constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;

/// Also where no double holds it: 1e999, nan.
bool begins_with_number(const TextRow& row) {
  const char* begin = row.cells.front().c_str();
  char* end = nullptr;
  std::strtod(begin, &end);
  return end != begin && *end == '\0';
}

class TableReader {
 public:
  TableReader(const std::string& text, const std::string& file) : table_(text, file) {}

  std::vector<MessageTable> read() {
    const std::string first = table_.first_line();
    if (first.starts_with("size(B),"))
      read_vtrain();
    else if (first.find("time_stats.") != std::string::npos)
      read_vidur();
    else
      read_nccl_tests();
    std::vector<MessageTable> tables;
    for (auto& [group, sizes] : rows_) {
      MessageTable table{
          std::get<0>(group), std::get<1>(group), std::get<2>(group), {}, first_rows_.at(group)};
      for (auto& [bytes, times] : sizes) {
        const TimingSummary summary = summarise_timings(std::move(times));
        table.points.push_back({bytes, summary.median, summary.interval});
      }
      tables.push_back(std::move(table));
    }
    if (tables.empty()) table_.fail(table_.lines().size(), "expected rows of timed messages");
    return tables;
  }

 private:
  std::string kind_of_file() const {
    const auto kind = kind_in(table_.file_name());
    if (!kind)
      table_.fail(1, "expected a file whose name says the collective, such as all_reduce.txt");
    return *kind;
  }

  /// A timed message: its size in cell `size`, and in cell `time` how many times `unit` it took.
  void add(const std::string& kind, std::int64_t ranks, std::int64_t nodes, const TextRow& row,
           std::size_t size, std::size_t time, Seconds unit) {
    const double bytes = table_.number(row, size);
    if (!(bytes >= 1) || bytes > kMostBytes || bytes != std::trunc(bytes)) {
      table_.fail(row, size,
                  "expected a whole number of bytes from 1 B to 1 PB in column " +
                      std::to_string(size + 1) + ", got " + in_quotes(row.cells[size]));
    }
    const Group group{kind, ranks, nodes};
    rows_[group][static_cast<Bytes>(bytes)].push_back(table_.time(row, time, unit));
    first_rows_.try_emplace(group, table_.place(row, size));
  }

  /// What such a line tells of the run, and of where the columns of the rows below are.
  void read_nccl_comment(const TextRow& row) {
    const std::vector<std::string>& words = row.cells;
    if (words.size() < 2) return;
    const std::size_t on = column(row, "on");
    if (words[1] == "Rank" && on + 1 < words.size()) {
      ++nccl_.ranks;
      nccl_.hosts.insert(words[on + 1]);
    }
    if (words[1] == "Collective") nccl_.kind = kind_in(words.back());
    if (words[1] != "size") return;
    if (column(row, "time") >= words.size()) table_.fail(row, 1, "expected a column 'time'");
    nccl_.size = column(row, "size") - 1;  // without the mark
    nccl_.time = column(row, "time") - 1;
  }

  void read_nccl_tests() {
    for (std::size_t i = 0; i < table_.lines().size(); ++i) {
      const TextRow row = words_of(table_.lines()[i], i + 1);
      if (row.cells.empty()) continue;
      if (row.cells[0] == "#") read_nccl_comment(row);
      // Between the rows is what other programs print; a row begins with a number, whatever number.
      if (!begins_with_number(row)) continue;
      if (nccl_.time == 0)
        table_.fail(
            row.line,
            "expected the header of nccl-tests, '# size count type ... time', before its rows");
      if (nccl_.ranks == 0)
        table_.fail(
            row.line,
            "expected the lines '# Rank 0 ... on HOST device 0' of nccl-tests before its rows");
      if (!nccl_.kind) nccl_.kind = kind_of_file();
      const auto nodes = static_cast<std::int64_t>(nccl_.hosts.size());
      if (nccl_.ranks % nodes != 0)
        table_.fail(row.line, std::to_string(nccl_.ranks) + " ranks on " + std::to_string(nodes) +
                                  " hosts: expected equally many on each");
      add(*nccl_.kind, nccl_.ranks, nodes, row, nccl_.size, nccl_.time, 1e-6);
    }
  }

  void read_vtrain() {
    const std::string name = table_.file_name();
    const std::size_t gpu = name.find("gpu");
    std::size_t digit = gpu == std::string::npos ? 0 : gpu;
    while (digit > 0 && std::isdigit(static_cast<unsigned char>(name[digit - 1])) != 0) --digit;
    const std::string count = gpu == std::string::npos ? "" : name.substr(digit, gpu - digit);
    const auto ranks = parse_number(count);
    if (!ranks || *ranks < 2 || *ranks > kMostRanks || *ranks != std::trunc(*ranks))
      table_.fail(1,
                  "expected a file whose name says the GPUs, such as nccl_allreduce_a100_8gpu.csv");
    const std::string kind = kind_of_file();
    for (const TextRow& row : table_.rows())
      add(kind, static_cast<std::int64_t>(*ranks), 1, row, 0, 3, 1e-9);
  }

  void read_vidur() {
    const TextRow header = cells_of(table_.lines().front(), 1);
    const auto median =
        std::find_if(header.cells.begin(), header.cells.end(), [](const std::string& name) {
          return name.starts_with("time_stats.") && name.ends_with(".median");
        });
    const std::size_t workers = column(header, "num_workers"), size = column(header, "size");
    const std::size_t collective = column(header, "collective"),
                      per_node = column(header, "devices_per_node");
    if (median == header.cells.end() ||
        std::max({workers, size, collective, per_node}) >= header.cells.size()) {
      table_.fail(1,
                  "expected the columns time_stats.*.median, num_workers, size, collective, "
                  "devices_per_node");
    }
    const auto time = length_between(header.cells.begin(), median);
    for (const TextRow& row : table_.rows()) {
      const auto kind = kind_in(table_.text(row, collective));
      if (!kind)
        table_.fail(row, collective,
                    "expected a collective in column " + std::to_string(collective + 1));
      const std::int64_t ranks = table_.whole(row, workers, 2, kMostRanks);
      const std::int64_t local = table_.whole(row, per_node, 1, kMostRanks);
      add(*kind, ranks, std::max<std::int64_t>(1, ranks / local), row, size, time, 1e-3);
    }
  }

  using Group = std::tuple<std::string, std::int64_t, std::int64_t>;  // kind, ranks, nodes

  /// What the lines of nccl-tests above its rows have said.
  struct NcclHeader {
    std::optional<std::string> kind;
    std::set<std::string> hosts;
    std::int64_t ranks = 0;
    std::size_t size = 0, time = 0;  // columns
  };

  TextTable table_;
  NcclHeader nccl_;
  std::map<Group, std::map<Bytes, std::vector<Seconds>>> rows_;
  std::map<Group, SourcePos> first_rows_;
};

}  // namespace

std::vector<MessageTable> read_message_tables(const std::string& text, const std::string& file) {
  return TableReader(text, file).read();
}

}  // namespace trainyard
