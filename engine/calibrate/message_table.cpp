#include "engine/calibrate/message_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "engine/calibrate/text_table.h"
#include "engine/calibrate/timing_summary.h"
#include "engine/config/quantity.h"

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
      MessageTable table{std::get<0>(group), std::get<1>(group), std::get<2>(group), {}};
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

  void add(const std::string& kind, std::int64_t ranks, std::int64_t nodes, double bytes,
           Seconds time) {
    if (bytes > 0 && time > 0)
      rows_[{kind, ranks, nodes}][static_cast<Bytes>(bytes)].push_back(time);
  }

  void read_nccl_tests() {
    std::optional<std::string> kind;
    std::set<std::string> hosts;
    std::int64_t ranks = 0;
    std::size_t size = 0, time = 0;
    for (std::size_t i = 0; i < table_.lines().size(); ++i) {
      std::vector<std::string> words = words_of(table_.lines()[i]);
      if (words.empty()) continue;
      if (words[0] == "#" && words.size() > 1) {
        if (const std::size_t on = column(words, "on");
            words[1] == "Rank" && on + 1 < words.size()) {
          ++ranks;
          hosts.insert(words[on + 1]);
        }
        if (words[1] == "Collective") kind = kind_in(words.back());
        if (words[1] == "size") {
          size = column(words, "size") - 1;  // without the mark
          time = column(words, "time") - 1;
        }
        continue;
      }
      if (words[0][0] == '#' || !parse_number(words[0]))
        continue;  // what other programs print between
      if (time == 0)
        table_.fail(
            i + 1,
            "expected the header of nccl-tests, '# size count type ... time', before its rows");
      if (ranks == 0)
        table_.fail(
            i + 1,
            "expected the lines '# Rank 0 ... on HOST device 0' of nccl-tests before its rows");
      if (!kind) kind = kind_of_file();
      const auto nodes = static_cast<std::int64_t>(hosts.size());
      if (ranks % nodes != 0)
        table_.fail(i + 1, std::to_string(ranks) + " ranks on " + std::to_string(nodes) +
                               " hosts: expected equally many on each");
      add(*kind, ranks, nodes, table_.number(words, size, i + 1),
          table_.number(words, time, i + 1) * 1e-6);
    }
  }

  void read_vtrain() {
    const std::string name = table_.file_name();
    const std::size_t gpu = name.find("gpu");
    std::size_t digit = gpu == std::string::npos ? 0 : gpu;
    while (digit > 0 && std::isdigit(static_cast<unsigned char>(name[digit - 1])) != 0) --digit;
    const std::string count = gpu == std::string::npos ? "" : name.substr(digit, gpu - digit);
    const auto ranks = parse_number(count);
    if (!ranks || *ranks < 2 || *ranks > 1 << 20)
      table_.fail(1,
                  "expected a file whose name says the GPUs, such as nccl_allreduce_a100_8gpu.csv");
    const std::string kind = kind_of_file();
    for (std::size_t i = 1; i < table_.lines().size(); ++i) {
      const std::vector<std::string> cells = cells_of(table_.lines()[i]);
      if (cells.empty()) continue;
      add(kind, static_cast<std::int64_t>(*ranks), 1, table_.number(cells, 0, i + 1),
          table_.number(cells, 3, i + 1) * 1e-9);
    }
  }

  void read_vidur() {
    const std::vector<std::string> header = cells_of(table_.lines().front());
    const auto median = std::find_if(header.begin(), header.end(), [](const std::string& name) {
      return name.starts_with("time_stats.") && name.ends_with(".median");
    });
    const std::size_t workers = column(header, "num_workers"), size = column(header, "size");
    const std::size_t collective = column(header, "collective"),
                      per_node = column(header, "devices_per_node");
    if (median == header.end() ||
        std::max({workers, size, collective, per_node}) >= header.size()) {
      table_.fail(1,
                  "expected the columns time_stats.*.median, num_workers, size, collective, "
                  "devices_per_node");
    }
    const auto time = static_cast<std::size_t>(median - header.begin());
    for (std::size_t i = 1; i < table_.lines().size(); ++i) {
      const std::vector<std::string> cells = cells_of(table_.lines()[i]);
      if (cells.empty()) continue;
      const auto kind = collective < cells.size() ? kind_in(cells[collective]) : std::nullopt;
      if (!kind)
        table_.fail(i + 1, "expected a collective in column " + std::to_string(collective + 1));
      const auto ranks = static_cast<std::int64_t>(table_.number(cells, workers, i + 1));
      const auto local = std::max<std::int64_t>(
          1, static_cast<std::int64_t>(table_.number(cells, per_node, i + 1)));
      add(*kind, ranks, std::max<std::int64_t>(1, ranks / local), table_.number(cells, size, i + 1),
          table_.number(cells, time, i + 1) * 1e-3);
    }
  }

  TextTable table_;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>,
           std::map<Bytes, std::vector<Seconds>>>
      rows_;
};

}  // namespace

std::vector<MessageTable> read_message_tables(const std::string& text, const std::string& file) {
  return TableReader(text, file).read();
}

}  // namespace trainyard
