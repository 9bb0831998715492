// CPU seconds that ONNX models of many nodes take to be read, to become a graph and to be compiled
// for one rank and one microbatch, and the memory that it takes: blocks of a norm, two linears with
// biases, a relu and a residual, without weights.
//   import_speed [nodes]...
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <variant>

#include "engine/passes/compile.h"
#include "models/model.h"
#include "models/onnx/onnx_graph.h"
#include "system/kept_memory.h"
#include "tests/support/onnx_file.h"

namespace trainyard {

namespace {

double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Seven nodes a block.
std::string model_of(int nodes) {
  constexpr std::int64_t kWidth = 64, kInner = 256;
  OnnxFile file;
  file.input("x", {"batch", kWidth});
  std::string x = "x";
  for (int block = 0; block < nodes / 7; ++block) {
    const std::string at = "blocks." + std::to_string(block);
    const std::string path = "/blocks." + std::to_string(block) + "/";
    const auto node = [&](const char* op, const OnnxFile::Texts& inputs, const std::string& y) {
      file.node(op, inputs, {y}).named(path + y);
    };
    const std::string n = at + ".n", a = at + ".a", b = at + ".b", r = at + ".r", c = at + ".c",
                      d = at + ".d", y = at + ".y";
    file.weight(at + ".norm.weight", {kWidth}).weight(at + ".norm.bias", {kWidth});
    file.weight(at + ".fc1.weight", {kWidth, kInner}).weight(at + ".fc1.bias", {kInner});
    file.weight(at + ".fc2.weight", {kInner, kWidth}).weight(at + ".fc2.bias", {kWidth});
    node("LayerNormalization", {x, at + ".norm.weight", at + ".norm.bias"}, n);
    node("MatMul", {n, at + ".fc1.weight"}, a);
    node("Add", {a, at + ".fc1.bias"}, b);
    node("Relu", {b}, r);
    node("MatMul", {r, at + ".fc2.weight"}, c);
    node("Add", {c, at + ".fc2.bias"}, d);
    node("Add", {x, d}, y);
    x = y;
  }
  return file.output(x).bytes();
}

/// The same made by another process: what that leaves of its own memory is none of this one's.
std::string given_model(int nodes) {
  std::FILE* file = std::tmpfile();
  if (file == nullptr) throw std::runtime_error("no temporary file");
  const pid_t writer = fork();
  if (writer == 0) {
    const std::string bytes = model_of(nodes);
    const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    _exit(written && std::fflush(file) == 0 ? 0 : 1);
  }
  int status = 1;
  if (writer < 0 || waitpid(writer, &status, 0) < 0 || status != 0)
    throw std::runtime_error("no model was made");
  std::fseek(file, 0, SEEK_END);
  std::string bytes(std::ftell(file), '\0');
  std::rewind(file);
  const bool whole = std::fread(bytes.data(), 1, bytes.size(), file) == bytes.size();
  std::fclose(file);
  if (!whole) throw std::runtime_error("the model cannot be read");
  return bytes;
}

struct Times {
  double read = 0, graph = 0, compiled = 0;
  std::size_t ops = 0;  // forward
};

Times time_one(const std::string& bytes) {
  Times out;
  const double begin = seconds();
  ModelConfig config;
  config.family = Family::kOnnx;
  config.norm_eps = 1e-5;
  config.onnx = parse_onnx(bytes, "model.onnx");
  set_onnx_numbers(config);
  out.read = seconds() - begin;
  const Graph graph = build_model(config, {});
  out.graph = seconds() - begin - out.read;
  out.ops = graph.ops.size();
  Plan plan;
  plan.training.global_batch = plan.training.microbatch = 1;
  PassLog log;
  const auto compiled = compile(graph, ProgramInputs{plan, {}}, SoftwareProfile{}, log, {});
  if (const auto* reason = std::get_if<Infeasible>(&compiled))
    std::printf("%s\n", reason->reason.c_str());
  out.compiled = seconds() - begin - out.read - out.graph;
  return out;
}

}  // namespace

}  // namespace trainyard

int main(int argc, char** argv) {
  using namespace trainyard;
  keep_freed_memory();
  std::printf("%10s %10s %10s %10s %10s %10s %12s\n", "nodes", "ops", "read, s", "graph, s",
              "compile, s", "all, s", "peak, MiB");
  std::vector<int> sizes{17'500, 35'000, 70'000, 140'000};
  if (argc > 1) sizes.clear();
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  for (const int nodes : sizes) {
    const Times took = time_one(given_model(nodes));
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("%10d %10zu %10.3f %10.3f %10.3f %10.3f %12.1f\n", nodes, took.ops, took.read,
                took.graph, took.compiled, took.read + took.graph + took.compiled,
                static_cast<double>(usage.ru_maxrss) / 1024);
  }
}
