// Tables of timed GEMMs as points of curves, and the profile that is written from them.
#include "calibrate/tables/kernel_table.h"

#include <catch2/catch.hpp>

#include "calibrate/result/table_profile.h"
#include "engine/base/error.h"
#include "engine/cost/cost_model.h"
#include "study/profile_reader.h"
#include "tests/support/source_root.h"

namespace trainyard::kernel_table_test {

namespace {

KernelForm form(const std::string& text) { return parse_kernel_form(text).value(); }

std::string problem(const std::string& text, const std::string& device = "") {
  try {
    read_kernel_table(text, "t.csv", DType::kBf16, device);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("rows of equal shape become one point, the median with its spread") {
  const KernelTable table = read_kernel_table(
      "m,k,n,us\n256,512,1024,10\n256,512,1024,12\n256,512,1024,11\n512,512,1024,20\n", "t.csv",
      DType::kBf16, "");
  CHECK(table.num_rows == 4);
  REQUIRE(table.points.size() == 1);
  const auto& points = table.points.at(form("linear bf16 bf16 -> bf16"));
  REQUIRE(points.size() == 2);
  CHECK(points[0].shape == std::array<std::int64_t, 4>{256, 1024, 512, 1});
  CHECK(points[0].flop == 2.0 * 256 * 1024 * 512);
  CHECK(points[0].bytes == 2 * (256 * 512 + 1024 * 512 + 256 * 1024));
  CHECK(points[0].time == Approx(11e-6));
  CHECK(points[1].time == Approx(20e-6));
}

TEST_CASE("the halves of a backward are forms of their own") {
  const KernelTable table =
      read_kernel_table("m,k,n,part,us\n64,128,256,input_grad,5\n64,128,256,weight_grad,7\n",
                        "t.csv", DType::kBf16, "");
  const CurvePoint dx = table.points.at(form("linear_dx bf16 bf16 -> bf16")).at(0);
  CHECK(dx.shape == std::array<std::int64_t, 4>{64, 256, 128, 1});
  // Reads [128, 64] and [128, 256] in bf16, adds to [64, 256] in fp32: read and written.
  const CurvePoint dw = table.points.at(form("linear_dw bf16 bf16 +> fp32")).at(0);
  CHECK(dw.shape == std::array<std::int64_t, 4>{64, 256, 128, 1});
  CHECK(dw.bytes == 2 * (128 * 64 + 128 * 256) + 2 * 4 * 64 * 256);
}

TEST_CASE("a table of several devices wants one of them") {
  const std::string text = "device,m,k,n,us\na,64,64,64,5\nb,64,64,64,9\n";
  CHECK(problem(text) ==
        "t.csv:1:1: the table has a column 'device': say whose rows with --select device=NAME");
  CHECK(problem(text, "c") == "t.csv:1:1: no row is of the device 'c'; there are a, b");
  const KernelTable table = read_kernel_table(text, "t.csv", DType::kBf16, "b");
  CHECK(table.points.begin()->second.at(0).time == Approx(9e-6));
}

TEST_CASE("Vidur's tables say a Llama's layers") {
  // Llama-2 7B's shape at tensor 2: 4096 wide, 32 heads of 128, MLP 11008; gated, so up is twice as
  // wide.
  const KernelTable table = read_kernel_table(
      "time_stats.attn_pre_proj.median,time_stats.attn_post_proj.median,time_stats.mlp_up_proj."
      "median,"
      "time_stats.mlp_down_proj.median,n_head,n_kv_head,n_embd,n_expanded_embd,use_gated_mlp,num_"
      "tokens,"
      "num_tensor_parallel_workers\n0.1,0.2,0.3,,32,32,4096,11008,True,512,2\n",
      "t.csv", DType::kFp16, "");
  const auto& points = table.points.at(form("linear fp16 fp16 -> fp16"));
  REQUIRE(points.size() == 3);  // down was not timed
  // By shape (m, k, n): out reads 2048, qkv writes 2048 + 2 x 2048, up 11008.
  CHECK(points[0].shape == std::array<std::int64_t, 4>{512, 4096, 2048, 1});
  CHECK(points[0].time == Approx(0.2e-3));
  CHECK(points[1].shape == std::array<std::int64_t, 4>{512, 6144, 4096, 1});
  CHECK(points[1].time == Approx(0.1e-3));
  CHECK(points[2].shape == std::array<std::int64_t, 4>{512, 11008, 4096, 1});
}

TEST_CASE("what is no such table is refused at its line") {
  CHECK(problem("") ==
        "t.csv:1:1: expected the columns m, k, n and us, or those of Vidur's tables of layers");
  CHECK(problem("m,k,n,us\n") == "t.csv:1:1: expected rows of timed products");
  CHECK(problem("m,k,n,us\n1,2,3\n") == "t.csv:2:6: expected a cell in column 4, the row has 3");
  CHECK(problem("m,k,n,us\n1,x,3,4\n") == "t.csv:2:3: expected a number in column 2, got 'x'");
  CHECK(problem("m,k,n,us\n1,2.5,3,4\n") ==
        "t.csv:2:3: expected a whole number from 1 to 1000000000 in column 2, got '2.5'");
  CHECK(problem("m,k,n,part,us\n1,2,3,dx,4\n") ==
        "t.csv:2:7: expected forward, input_grad or weight_grad, got 'dx'");
  CHECK(problem("time_stats.a.median\n1\n") == "t.csv:1:1: expected the column num_tokens");
}

TEST_CASE(
    "times and extents that no product has are refused at their cell, and no row is dropped") {
  const std::string times = "expected a time of 1 ns to 1 h in column 4, got ";
  const auto with = [](const std::string& row) { return problem("m,k,n,us\n" + row + "\n"); };
  CHECK(with("64,64,64,0") == "t.csv:2:10: " + times + "'0'");
  CHECK(with("64,64,64,1e-300") == "t.csv:2:10: " + times + "'1e-300'");
  CHECK(with("64,64,64,1e308") == "t.csv:2:10: " + times + "'1e308'");
  CHECK(with("64,64,64,-5") == "t.csv:2:10: " + times + "'-5'");
  CHECK(with("64,64,64,nan") == "t.csv:2:10: expected a number in column 4, got 'nan'");
  CHECK(with("64,64,64,0.001") == "nothing");
  CHECK(with("1e30,64,64,5") ==
        "t.csv:2:1: expected a whole number from 1 to 1000000000 in column 1, got '1e30'");
  // 2 x 1e27 FLOP over 3e18 elements, in any type more than a point of a curve holds.
  CHECK(with("1e9,1e9,1e9,3e9") ==
        "t.csv:2:13: a product of 2e+27 FLOP over 3e+18 elements is larger than any curve holds");
  CHECK(
      problem("time_stats.attn_pre_proj.median,time_stats.attn_post_proj.median,time_stats.mlp_up_"
              "proj.median,time_stats.mlp_down_proj.median,n_head,n_kv_head,n_embd,n_expanded_"
              "embd,use_gated_mlp,num_tokens,num_tensor_parallel_workers\n"
              "1,1,1,1,8,8,64,256,False,16,128\n") ==
      "t.csv:2:29: a model of this width cannot be divided by 128 workers");
}

TEST_CASE("a product that is faster than the device's peak is refused at its row") {
  // 2 x 1000^3 FLOP in 2 us are 1000 TFLOP/s: 5 % above 950 TFLOP/s are 997.5.
  const std::string text = "m,k,n,us\n1000,1000,1000,4\n1000,1000,1000,2\n";
  CHECK_NOTHROW(read_kernel_table(text, "t.csv", DType::kBf16, "", 1001e12));
  CHECK_THROWS_WITH(read_kernel_table(text, "t.csv", DType::kBf16, "", 997.5e12),
                    "t.csv:3:16: a product at 1e+06 GFLOP/s: more than 5 % faster than the peak of "
                    "bf16 that --like has");
}

TEST_CASE("the profile of a table takes products from it and all else from the other") {
  const std::string root = source_root();
  const HardwareProfile like = find_hardware_profile(root, "h100-sxm-80g").value();
  std::string rows = "m,k,n,us\n";
  for (const int m : {256, 512, 1024, 2048})
    rows += std::to_string(m) + ",4096,4096," + std::to_string(m) + "\n";
  const KernelTable table = read_kernel_table(rows, "t.csv", DType::kBf16, "");
  const std::string text = table_profile_text(table, like, "timed by hand");
  const HardwareProfile profile =
      on_ranks(read_hardware_profile(root, "mine", YamlNode::parse(text, "mine.yaml")), 1);
  SourceLog log;
  KernelWork product;
  product.cls = KernelClass::kMatmul;
  product.form = form("linear bf16 bf16 -> bf16");
  product.m = 1024, product.n = 4096, product.k = 4096;
  product.flop = 2.0 * 1024 * 4096 * 4096;
  product.bytes = 2 * (1024 * 4096 + 4096 * 4096 + 1024 * 4096);
  product.dtype = DType::kBf16;
  SoftwareProfile bare;
  CHECK(kernel_time(product, profile, bare, 1, log) == Approx(1024e-6).epsilon(0.03));
  KernelWork norm;
  norm.cls = KernelClass::kMemoryBound;
  norm.kind = OpKind::kRmsNorm;
  norm.form = form("rms_norm bf16 bf16 -> bf16 fp32");
  norm.bytes = 1 << 24;
  CHECK(kernel_time(norm, profile, bare, 1, log) == Approx(kernel_time(norm, like, bare, 1, log)));
}

}  // namespace trainyard::kernel_table_test
