// Tables of timed messages as others print them, and the links that come of them.
#include "calibrate/tables/message_table.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>

#include "calibrate/result/link_text.h"
#include "engine/base/error.h"
#include "engine/cost/collective_time.h"
#include "study/cluster_preset.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::message_table_test {

namespace {

/// As nccl-tests 2.13 prints it; the rows are of 100 us + bytes / (50 GB/s / hosts), on `hosts`
/// hosts of two GPUs.
std::string nccl_tests(int hosts, const std::string& test = "all_reduce_perf") {
  std::string text =
      "# nThread 1 nGpus 2 minBytes 1024 maxBytes 1073741824 step: 32(factor) warmup iters: 5 "
      "iters: 20\n"
      "#\n# Using devices\n";
  for (int rank = 0; rank < 2 * hosts; ++rank) {
    text += "#  Rank " + std::to_string(rank) + " Group  0 Pid   4711 on   node" +
            std::to_string(rank / 2) + " device  " + std::to_string(rank % 2) +
            " [0x07] NVIDIA H100\n";
  }
  if (!test.empty()) text += "# Collective test starting: " + test + "\n";
  text +=
      "#\n#                                                              out-of-place              "
      "         in-place\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
      "time   algbw   busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
      "(us)  (GB/s)  (GB/s)\n";
  for (const double bytes : {1024.0, 32768.0, 1048576.0, 33554432.0, 1073741824.0}) {
    char row[160];
    std::snprintf(row, sizeof row,
                  "%12.0f %12.0f     float     sum      -1 %8.2f   1.00   1.00      0   999.9   "
                  "1.00   1.00      0\n",
                  bytes, bytes / 4, 100 + bytes * hosts / 50e3);
    text += row;
  }
  return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 12.3\n#\n";
}

std::string problem(const std::string& text, const std::string& file) {
  try {
    read_message_tables(text, file);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("what nccl-tests prints reads as a table of one group") {
  const auto tables = read_message_tables(nccl_tests(1), "out.txt");
  REQUIRE(tables.size() == 1);
  CHECK(tables[0].kind == "all_reduce");
  CHECK(tables[0].ranks == 2);
  CHECK(tables[0].nodes == 1);
  REQUIRE(tables[0].points.size() == 5);
  CHECK(tables[0].points[2].bytes == 1048576);
  CHECK(tables[0].points[2].time ==
        Approx(100e-6 + 1048576 / 50e9).epsilon(1e-3));  // out of place, two decimals of a us
  CHECK(read_message_tables(nccl_tests(2), "out.txt")[0].nodes == 2);
}

TEST_CASE("an older nccl-tests does not say its collective, the file's name does") {
  CHECK(read_message_tables(nccl_tests(1, ""), "runs/sendrecv_2.txt")[0].kind == "send");
  CHECK(problem(nccl_tests(1, ""), "runs/out.txt") ==
        "runs/out.txt:1:1: expected a file whose name says the collective, such as all_reduce.txt");
}

TEST_CASE("the published simulators' tables read too") {
  const auto vtrain = read_message_tables(
      "size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)\n"
      "1048576,262144,float,92790,19.78,92150,19.91\n",
      "nccl_allreduce_a100_8gpu_vtrain.csv");
  REQUIRE(vtrain.size() == 1);
  CHECK(vtrain[0].ranks == 8);
  CHECK(vtrain[0].points[0].time == Approx(92.79e-6));
  // Three rows of one size: their median, 0.041 ms.
  const auto vidur = read_message_tables(
      ",time_stats.all_reduce.min,time_stats.all_reduce.median,rank,num_workers,size,collective,"
      "devices_per_node,max_devices_per_node\n"
      "0,0.031,0.043,0,4,2048,all_reduce,4,8\n1,0.04,0.040,0,4,2048,all_reduce,4,8\n2,0.041,0.041,"
      "0,4,2048,all_reduce,4,8\n"
      "3,0.041,0.080,0,2,2048,all_reduce,1,8\n",
      "v.csv");
  REQUIRE(vidur.size() == 2);
  CHECK(vidur[0].ranks == 2);
  CHECK(vidur[0].nodes == 2);
  CHECK(vidur[1].ranks == 4);
  CHECK(vidur[1].nodes == 1);
  CHECK(vidur[1].points[0].time == Approx(41e-6));
}

TEST_CASE("what is no table says what is missing, at its line") {
  CHECK(problem("", "a.txt") == "a.txt:1:1: expected rows of timed messages");
  CHECK(problem("hello\n", "a.txt") == "a.txt:1:1: expected rows of timed messages");
  CHECK(problem("1024 256 float sum -1 10.0\n", "a.txt") ==
        "a.txt:1:1: expected the header of nccl-tests, '# size count type ... time', before its "
        "rows");
  CHECK(problem("# size count type time\n1024 256 float 10.0\n", "a.txt") ==
        "a.txt:2:1: expected the lines '# Rank 0 ... on HOST device 0' of nccl-tests before its "
        "rows");
  CHECK(problem("size(B),count,type,time(ns)\n1024,256,float,fast\n", "allreduce_4gpu.csv") ==
        "allreduce_4gpu.csv:2:16: expected a number in column 4, got 'fast'");
}

TEST_CASE("sizes and times that no message has are refused at their cell, and no row is dropped") {
  // The row of 1 MiB, which is line 13: its size stands in columns 6 to 12, its time behind 53.
  const std::string good = nccl_tests(1);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    REQUIRE(text.find(from) != std::string::npos);
    return problem(text.replace(text.find(from), from.size(), to), "out.txt");
  };
  const std::string sizes = "expected a whole number of bytes from 1 B to 1 PB in column 1, got ";
  for (const std::string size : {"1e30", "0", "-4", "0.5", "1048576.5"}) {
    CAPTURE(size);
    CHECK(with(" 1048576 ", " " + size + " ") == "out.txt:13:6: " + sizes + "'" + size + "'");
  }
  CHECK(with(" 1048576 ", " 1e999 ") == "out.txt:13:6: expected a number in column 1, got '1e999'");
  CHECK(with(" 1048576 ", " nan ") == "out.txt:13:6: expected a number in column 1, got 'nan'");
  // 1 PB and 1 ns, 1 h: what is allowed ends there.
  CHECK(with(" 1048576 ", " 1e15 ") == "no error");
  const std::string times = "expected a time of 1 ns to 1 h in column 6, got ";
  CHECK(with("  120.97 ", "  1e-300 ") == "out.txt:13:55: " + times + "'1e-300'");
  CHECK(with("  120.97 ", "  1e308 ") == "out.txt:13:55: " + times + "'1e308'");
  CHECK(with("  120.97 ", "  0 ") == "out.txt:13:55: " + times + "'0'");
  CHECK(with("  120.97 ", "  -1 ") == "out.txt:13:55: " + times + "'-1'");
  CHECK(with("  120.97 ", "  0.001 ") == "no error");
  CHECK(with("  120.97 ", "  3.6e9 ") == "no error");
  CHECK(with("  120.97 ", "  3.7e9 ") == "out.txt:13:55: " + times + "'3.7e9'");
  // What other programs print between the rows is none.
  CHECK(with("# Out of", "node0:4711:4711 [0] NCCL INFO\n2026-01-01 10:00:00 done\n# Out of") ==
        "no error");
  // A row that ends too early is said where it ends.
  CHECK(problem("size(B),count,type,time(ns)\n1024,256,float\n", "allreduce_4gpu.csv") ==
        "allreduce_4gpu.csv:2:15: expected a cell in column 4, the row has 3");
  const std::string vidur =
      "time_stats.all_reduce.median,num_workers,size,collective,devices_per_node\n";
  CHECK(problem(vidur + "0.04,1e30,2048,all_reduce,4\n", "v.csv") ==
        "v.csv:2:6: expected a whole number from 2 to 1048576 in column 2, got '1e30'");
  CHECK(problem(vidur + "0.04,4,2048,all_reduce,0\n", "v.csv") ==
        "v.csv:2:24: expected a whole number from 1 to 1048576 in column 5, got '0'");
  CHECK(problem(vidur + "0.04,4,2048,gossip,4\n", "v.csv") ==
        "v.csv:2:13: expected a collective in column 4");
}

TEST_CASE("a file of links made of tables gives back their times") {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder / "calibrate/links");
  std::filesystem::create_directories(folder / "calibrate/profiles");
  std::ofstream(folder / "calibrate/links/nvlink.yaml")
      << link_text(read_message_tables(nccl_tests(1), "out.txt"), "a pair");
  std::ofstream(folder / "calibrate/links/infiniband.yaml")
      << link_text(read_message_tables(nccl_tests(2), "out.txt"), "two pairs");
  Cluster cluster;
  cluster.devices_per_node = 2;
  cluster.num_nodes = 2;
  cluster.num_devices = 4;
  cluster.intra = *find_link(folder.path(), "nvlink", "none");
  cluster.inter = *find_link(folder.path(), "infiniband", "none");
  SourceLog log;
  for (const Bytes bytes : {Bytes{32768}, Bytes{1} << 24}) {
    const Seconds inside = 100e-6 + static_cast<double>(bytes) / 50e9;
    const Seconds between = 100e-6 + static_cast<double>(bytes) / 25e9;
    CHECK(collective_time(OpKind::kAllReduce, bytes, {2, 1, 2}, cluster, log) ==
          Approx(inside).epsilon(2e-3));
    CHECK(collective_time(OpKind::kAllReduce, bytes, {4, 2, 2}, cluster, log) ==
          Approx(between).epsilon(2e-3));
  }
}

TEST_CASE("beside tables of one node, those between nodes are left out") {
  const auto one = read_message_tables(nccl_tests(1), "out.txt"),
             two = read_message_tables(nccl_tests(2), "out.txt");
  CHECK(within_node({two[0], one[0]}));
  CHECK_FALSE(within_node(two));
  CHECK(link_text({one[0], two[0]}, "d") == link_text(one, "d"));
}

TEST_CASE("tables that do not belong together are refused") {
  const auto one = read_message_tables(nccl_tests(1), "out.txt");
  CHECK_THROWS_WITH(link_text({one[0], one[0]}, "d"),
                    "out.txt:11:9: two tables hold all_reduce of 2 ranks; name one of them");
  CHECK_THROWS_WITH(
      link_text(read_message_tables(nccl_tests(1, "all_gather_perf"), "out.txt"), "d"),
      Catch::Contains("out.txt:11:9: no table holds an all_reduce"));
  // 1 KiB and 1 MiB in the same time: a latency and no rate.
  const std::string flat =
      "size(B),count,type,time(ns),algbw\n1024,256,float,12000,1\n1048576,262144,float,12000,1\n";
  CHECK_THROWS_WITH(link_text(read_message_tables(flat, "allreduce_8gpu.csv"), "d"),
                    "allreduce_8gpu.csv:2:1: no message takes longer where it is larger: the "
                    "tables say no bandwidth");
}

}  // namespace trainyard::message_table_test
