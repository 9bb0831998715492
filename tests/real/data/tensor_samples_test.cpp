// Samples from files of tensors: exact values of every type and layout of files, and what is said
// of files that do not suit the model.
#include "real/data/tensor_samples.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <vector>

#include "engine/base/error.h"
#include "engine/data/permutation.h"
#include "models/model.h"
#include "models/onnx/onnx_graph.h"
#include "tests/real/data/data_studies.h"
#include "tests/real/data/written_tensors.h"
#include "tests/support/onnx_file.h"

namespace trainyard::tensor_samples_test {

namespace {

/// images [N, 2, 1, 2] and ids [N] of a table of 12 rows, to 3 logits.
Study small_model(const std::string& path, ImportedLoss loss = ImportedLoss::kCrossEntropy) {
  OnnxFile file;
  file.input("images", {"N", std::int64_t{2}, std::int64_t{1}, std::int64_t{2}});
  file.input("ids", {"N"}, onnx::TensorProto::INT64);
  file.weight("w", {3, 4}).weight("table", {12, 3});
  file.node("Flatten", {"images"}, {"flat"}).set("axis", 1);
  file.node("Gemm", {"flat", "w"}, {"a"}).set("transB", 1);
  file.node("Gather", {"table", "ids"}, {"b"}).set("axis", 0);
  file.node("Add", {"a", "b"}, {"y"}).output("y");
  Study study = study_of(Family::kOnnx, path, 0, 1);
  study.model = {};
  study.model.family = Family::kOnnx;
  study.model.onnx = parse_onnx(file.bytes(), "m.onnx");
  study.model.loss = loss;
  study.data.shuffle = false;
  return study;
}

WrittenTensor images_of(DType dtype, std::int64_t samples, std::string bytes) {
  return {"images", dtype, {samples, 2, 1, 2}, std::move(bytes)};
}

/// `samples` of zeros.
std::vector<WrittenTensor> zeros(std::int64_t samples) {
  const std::vector<std::int64_t> none(static_cast<std::size_t>(samples));
  return {images_of(DType::kFp32, samples, std::string(static_cast<std::size_t>(samples) * 16, 0)),
          integers("ids", none), integers("labels", none)};
}

std::vector<double> doubles(const Samples& samples, const char* name, std::int64_t index,
                            std::size_t count) {
  std::vector<double> out(count);
  samples.fill_doubles(name, index, out);
  return out;
}

/// What is said of such a file when it is opened, behind its name.
std::string problem_of(const std::vector<WrittenTensor>& tensors,
                       ImportedLoss loss = ImportedLoss::kCrossEntropy) {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  write_safetensors(path, tensors);
  const std::string problem = config_error([&] { make_samples(small_model(path, loss)); });
  const std::string begin = "study.yaml: data.path: " + path + ": ";
  return problem.starts_with(begin) ? problem.substr(begin.size()) : problem;
}

}  // namespace

TEST_CASE("numbers of files are what is stored, in every type") {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  const auto samples_of = [&](DType dtype, const std::string& bytes) {
    write_safetensors(
        path, {images_of(dtype, 2, bytes), integers("ids", {3, 11}), integers("labels", {2, 0})});
    return make_samples(small_model(path));
  };
  SECTION("fp64, rounded to fp32 where the model is not of fp64") {
    const auto samples =
        samples_of(DType::kFp64, bytes_of<double>({0, 0, 0, 0, 0.1, -1e-300, 3, 1e10}));
    CHECK(doubles(*samples, "images", 1, 4) == std::vector<double>{0.1, -1e-300, 3, 1e10});
    CHECK(numbers(*samples, "images", 1, 4) == std::vector<float>{0.1F, -0.0F, 3, 1e10F});
  }
  SECTION("fp32") {
    const auto samples = samples_of(DType::kFp32, bytes_of<float>({1, 2, 3, 4, 0.1F, 6, 7, 8}));
    CHECK(numbers(*samples, "images", 0, 4) == std::vector<float>{1, 2, 3, 4});
    CHECK(doubles(*samples, "images", 1, 4) == std::vector<double>{0.1F, 6, 7, 8});
  }
  SECTION("fp16: 1 is 0x3c00, -2 0xc000, 0.5 0x3800, the largest 0x7bff = 65504") {
    const auto samples = samples_of(
        DType::kFp16, bytes_of<std::uint16_t>({0x3c00, 0xc000, 0x3800, 0x7bff, 0, 0, 0, 0x3c00}));
    CHECK(numbers(*samples, "images", 0, 4) == std::vector<float>{1, -2, 0.5, 65504});
    CHECK(numbers(*samples, "images", 1, 4) == std::vector<float>{0, 0, 0, 1});
  }
  SECTION("bf16: the upper half of fp32, 1 is 0x3f80, -3 0xc040") {
    const auto samples =
        samples_of(DType::kBf16, bytes_of<std::uint16_t>({0, 0, 0, 0, 0x3f80, 0xc040, 0, 0x3f80}));
    CHECK(numbers(*samples, "images", 1, 4) == std::vector<float>{1, -3, 0, 1});
  }
}

TEST_CASE("bytes of images are x / 255, less the mean, over the deviation of their channel") {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  write_safetensors(
      path, {images_of(DType::kUint8, 2, bytes_of<std::uint8_t>({0, 0, 0, 0, 0, 51, 102, 255})),
             integers("ids", {0, 0}), integers("labels", {0, 0})});
  Study study = small_model(path);
  // 51 / 255 = 0.2, 102 / 255 = 0.4.
  CHECK(numbers(*make_samples(study), "images", 1, 4) == std::vector<float>{0, 0.2F, 0.4F, 1});
  study.data.mean = {0.5};
  study.data.std = {0.25};
  CHECK(doubles(*make_samples(study), "images", 1, 4) ==
        std::vector<double>{-2, (51 / 255.0 - 0.5) / 0.25, (102 / 255.0 - 0.5) / 0.25, 2});
  study.data.mean = {0.5, 0};
  study.data.std = {0.25, 2};
  CHECK(doubles(*make_samples(study), "images", 1, 4) ==
        std::vector<double>{-2, (51 / 255.0 - 0.5) / 0.25, 102 / 255.0 / 2, 0.5});
  study.data.std = {1, 1, 1};
  CHECK(config_error([&] { make_samples(study); }) ==
        "study.yaml: data.std: expected one number, or 2 for the channels of images, got 3");
  // Numbers that are no bytes are taken as they are, and a mean of them would be left out.
  write_safetensors(path, zeros(1));
  study.data.std = {1};
  CHECK(config_error([&] { make_samples(study); }) ==
        "study.yaml: data.mean: is of images of bytes, and " + path + " has none");
}

TEST_CASE("whole numbers are read as int64, int32 and bytes") {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  std::vector<WrittenTensor> tensors = zeros(3);
  tensors[1] = {"ids", DType::kInt32, {3}, bytes_of<std::int32_t>({11, 0, 7})};
  tensors[2] = {"labels", DType::kUint8, {3}, bytes_of<std::uint8_t>({0, 2, 1})};
  write_safetensors(path, tensors);
  const auto samples = make_samples(small_model(path));
  CHECK(samples->predicted_per_sample() == 1);
  CHECK_FALSE(samples->best_loss().has_value());
  for (const auto& [index, id, label] : {std::tuple{0, 11, 0}, {1, 0, 2}, {2, 7, 1}, {3, 11, 0}}) {
    CHECK(input(*samples, "ids", index, 1) == Tokens{id});
    CHECK(input(*samples, "labels", index, 1) == Tokens{label});
  }
}

TEST_CASE("a folder of shards is one file, in the order of their names") {
  const ScratchFolder folder;
  const auto write = [&](const std::string& name, const std::vector<std::int64_t>& ids) {
    std::vector<WrittenTensor> tensors = zeros(std::ssize(ids));
    tensors[1] = integers("ids", ids);
    write_safetensors(folder / name, tensors);
  };
  write("train-00002.safetensors", {4, 5, 6, 7});
  write("train-00000.safetensors", {0, 1});
  write("train-00001.safetensors", {2, 3});
  write_text(folder / "README.md", "not read");
  Study study = small_model(folder.path());
  const auto in_order = make_samples(study);
  for (std::int64_t i = 0; i < 16; ++i) CHECK(input(*in_order, "ids", i, 1) == Tokens{i % 8});
  CHECK(in_order->description() == folder.path() + ": 8 samples an epoch in 3 files, in order");

  // Shuffled as windows of tokens are: the permutation of (seed, epoch), of all files together.
  study.data.shuffle = true;
  study.training.seed = 5;
  const auto shuffled = make_samples(study);
  std::vector<std::set<std::int64_t>> seen(2);
  for (std::int64_t i = 0; i < 16; ++i) {
    const std::int64_t id = input(*shuffled, "ids", i, 1)[0];
    CHECK(id == KeyedPermutation(8, 5, i / 8)(i % 8));
    seen[i < 8 ? 0 : 1].insert(id);
  }
  CHECK(seen[0].size() == 8);
  CHECK(seen[1].size() == 8);
}

TEST_CASE("arrays of numpy's are read as tensors of their names") {
  const ScratchFolder folder;
  write_npy(folder / "images.npy", "<f8", "(2, 2, 1, 2)",
            bytes_of<double>({0.1, 2, 3, 4, 5, 6, 7, 8}));
  write_npy(folder / "ids.npy", "<i4", "(2,)", bytes_of<std::int32_t>({3, 4}));
  write_npy(folder / "labels.npy", "|u1", "(2,)", bytes_of<std::uint8_t>({1, 2}));
  const auto samples = make_samples(small_model(folder.path()));
  CHECK(doubles(*samples, "images", 0, 4) == std::vector<double>{0.1, 2, 3, 4});
  CHECK(input(*samples, "ids", 1, 1) == Tokens{4});
  CHECK(input(*samples, "labels", 1, 1) == Tokens{2});
  write_npy(folder / "images.npy", "<f2", "(2, 2, 1, 2)",
            bytes_of<std::uint16_t>({0, 0, 0, 0, 0x3c00, 0, 0, 0}));
  write_npy(folder / "labels.npy", "<i8", "(2,)", bytes_of<std::int64_t>({1, 0}));
  const auto halves = make_samples(small_model(folder.path()));
  CHECK(numbers(*halves, "images", 1, 4) == std::vector<float>{1, 0, 0, 0});
  CHECK(input(*halves, "labels", 0, 1) == Tokens{1});

  const auto problem = [&](const std::string& file) {
    const std::string said = config_error([&] { make_samples(small_model(folder.path())); });
    const std::string begin = "study.yaml: data.path: " + (folder / file) + ": ";
    return said.starts_with(begin) ? said.substr(begin.size()) : said;
  };
  const std::string two = bytes_of<std::int32_t>({3, 4});
  write_npy(folder / "ids.npy", ">i4", "(2,)", two);
  CHECK(problem("ids.npy") ==
        "elements of type '>i4' are not read; expected <f8, <f4, <f2, <i8, <i4 or |u1");
  write_npy(folder / "ids.npy", "<i4", "(2,)", two, "True");
  CHECK(problem("ids.npy") == "is in column order; write it with numpy.ascontiguousarray()");
  write_npy(folder / "ids.npy", "<i4", "(3,)", two);
  CHECK(problem("ids.npy") == "8 bytes of data, where shape [3] of <i4 takes 12");
  write_npy(folder / "ids.npy", "<i4", "(-3,)", two);
  CHECK(problem("ids.npy") == "its header has the shape '(-3,')");
  write_npy(folder / "ids.npy", "<i4", "(4294967296, 4294967296)", two);
  CHECK(problem("ids.npy") == "shape [4294967296, 4294967296] is too large");
  write_text(folder / "ids.npy", "not an array at all");
  CHECK(problem("ids.npy") == "not a .npy file: it does not begin as one");
  write_text(folder / "ids.npy", std::string("\x93NUMPY\x01\x00\xff\xff{}", 12));
  CHECK(problem("ids.npy") == "truncated: a header of 65535 bytes does not fit in it");
  CHECK(config_error([&] { make_samples(small_model(folder / "ids.npy")); }) ==
        "study.yaml: data.path: " + (folder / "ids.npy") +
            ": is one tensor of several; expected the folder that it lies in");
  write_safetensors(folder / "a.safetensors", zeros(2));
  CHECK(config_error([&] { make_samples(small_model(folder.path())); }) ==
        "study.yaml: data.path: " + folder.path() +
            ": has both .safetensors and .npy files; expected those of one kind");
}

TEST_CASE("targets of a binary cross entropy are shares, or bytes of 0 and 1") {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  std::vector<WrittenTensor> tensors = zeros(2);
  tensors[2] = {"labels", DType::kUint8, {2, 3}, bytes_of<std::uint8_t>({1, 0, 0, 0, 1, 2})};
  write_safetensors(path, tensors);
  const Study study = small_model(path, ImportedLoss::kBinaryCrossEntropy);
  const auto samples = make_samples(study);
  CHECK(samples->predicted_per_sample() == 3);
  CHECK(numbers(*samples, "labels", 0, 3) == std::vector<float>{1, 0, 0});
  CHECK(config_error([&] { numbers(*samples, "labels", 1, 3); }) ==
        path +
            ": labels of sample 1, element 2, is 2; targets of a binary cross entropy lie in 0 "
            "to 1");
  CHECK(problem_of(tensors, ImportedLoss::kMeanSquare) ==
        "labels: expected fp32, fp64, fp16 or bf16, found U8");
}

TEST_CASE("a mask may be left out, or be in the file") {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{2}}).input("x_mask", {"N", std::int64_t{2}});
  file.weight("w", {3, 2});
  file.node("Mul", {"x", "x_mask"}, {"seen"});
  file.node("Gemm", {"seen", "w"}, {"y"}).set("transB", 1).output("y");
  const ScratchFolder folder;
  Study study = small_model(folder / "a.safetensors");
  study.model.onnx = parse_onnx(file.bytes(), "m.onnx");
  const WrittenTensor x = {"x", DType::kFp32, {1, 2}, bytes_of<float>({4, 5})};
  write_safetensors(study.data.path, {x, integers("labels", {1})});
  CHECK(numbers(*make_samples(study), "x_mask", 0, 2) == std::vector<float>{1, 1});
  const WrittenTensor mask = {"x_mask", DType::kFp32, {1, 2}, bytes_of<float>({0, 1})};
  write_safetensors(study.data.path, {x, mask, integers("labels", {1})});
  CHECK(numbers(*make_samples(study), "x_mask", 0, 2) == std::vector<float>{0, 1});
}

TEST_CASE("files that do not suit the model are refused when they are opened") {
  std::vector<WrittenTensor> tensors = zeros(2);
  CHECK(problem_of(tensors) == "no error");
  tensors.pop_back();
  const std::string all = "images [N, 2, 1, 2], ids [N] and labels [N]";
  CHECK(problem_of(tensors) == "has no tensor labels; the model reads " + all);
  tensors = zeros(2);
  tensors.push_back(integers("boxes", {1, 2}));
  CHECK(problem_of(tensors) == "'boxes' is no input of the model, which reads " + all);
  tensors = zeros(2);
  tensors[0].shape = {2, 1, 2, 2};
  CHECK(problem_of(tensors) == "images: expected shape [N, 2, 1, 2], found [2, 1, 2, 2]");
  tensors[0].shape = {8};
  CHECK(problem_of(tensors) == "images: expected shape [N, 2, 1, 2], found [8]");
  (tensors = zeros(1))[2].shape = {};
  CHECK(problem_of(tensors) == "labels: expected shape [N], found []");
  tensors = zeros(2);
  tensors[2] = integers("labels", {0, 0, 0});
  CHECK(problem_of(tensors) == "labels: has 3 samples, and images has 2");
  tensors = zeros(2);
  tensors[0].dtype = DType::kInt32;
  CHECK(problem_of(tensors) ==
        "images: expected fp32, fp64, fp16 or bf16, or uint8 for pixels, found I32");
  tensors = zeros(2);
  tensors[1] = {"ids", DType::kFp32, {2}, std::string(8, 0)};
  CHECK(problem_of(tensors) == "ids: expected int64, int32 or uint8, found F32");
  CHECK(problem_of(zeros(0)) == "has no samples");

  const ScratchFolder folder;
  CHECK(config_error([&] { make_samples(small_model(folder.path())); }) ==
        "study.yaml: data.path: " + folder.path() +
            ": has no files that end in .safetensors or .npy");
  CHECK(config_error([&] { make_samples(small_model(folder / "none")); }) ==
        "study.yaml: data.path: " + (folder / "none") + ": No such file or directory");
  // A shard that lacks what the others have.
  write_safetensors(folder / "a.safetensors", zeros(2));
  tensors = zeros(2);
  tensors.erase(tensors.begin());
  write_safetensors(folder / "b.safetensors", tensors);
  CHECK(config_error([&] { make_samples(small_model(folder.path())); }) ==
        "study.yaml: data.path: " + (folder / "b.safetensors") +
            ": has no tensor images; the model reads " + all);
}

TEST_CASE("values that the model has no room for are refused when they are read") {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  std::vector<WrittenTensor> tensors = zeros(3);
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinite = std::numeric_limits<float>::infinity();
  tensors[0].bytes = bytes_of<float>({0, 0, 0, 0, 0, 0, nan, 0, -infinite, 0, 0, 0});
  tensors[1] = integers("ids", {0, 12, -1});
  tensors[2] = integers("labels", {2, 3, -100});
  write_safetensors(path, tensors);
  const auto samples = make_samples(small_model(path));
  const auto problem = [&](const char* name, std::int64_t index) {
    return config_error([&] {
      const bool real = std::string(name) == "images";
      real ? void(numbers(*samples, name, index, 4)) : void(input(*samples, name, index, 1));
    });
  };
  CHECK(problem("images", 0) == "no error");
  CHECK(problem("images", 1) == path + ": images of sample 1, element 2, is nan");
  CHECK(problem("images", 2) == path + ": images of sample 2, element 0, is -inf");
  CHECK(problem("ids", 1) == path + ": ids of sample 1 is 12; the model has rows 0 to 11");
  CHECK(problem("ids", 2) == path + ": ids of sample 2 is -1; the model has rows 0 to 11");
  CHECK(problem("labels", 0) == "no error");
  CHECK(problem("labels", 1) ==
        path + ": labels of sample 1 is 3; the model has the classes 0 to 2");
  CHECK(problem("labels", 2) ==
        path + ": labels of sample 2 is -100; the model has the classes 0 to 2");
}

// A file with a hole of 64 GiB: no machine of these tests has so much memory.
TEST_CASE("a file that is larger than memory is read where its samples are") {
  constexpr std::int64_t kSamples = std::int64_t{1} << 32U;
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  const std::string size = std::to_string(16 * kSamples), end = std::to_string(24 * kSamples),
                    last = std::to_string(25 * kSamples), count = std::to_string(kSamples);
  std::string header = R"({"images":{"dtype":"F32","shape":[)" + count +
                       R"(,2,1,2],"data_offsets":[0,)" + size +
                       R"(]},"ids":{"dtype":"I64","shape":[)" + count + R"(],"data_offsets":[)" +
                       size + "," + end + R"(]},"labels":{"dtype":"U8","shape":[)" + count +
                       R"(],"data_offsets":[)" + end + "," + last + "]}}";
  header.append((8 - header.size() % 8) % 8, ' ');
  write_text(path, bytes_of<std::int64_t>({std::ssize(header)}) + header);
  std::filesystem::resize_file(path,
                               8 + header.size() + static_cast<std::uintmax_t>(25 * kSamples));
  const auto samples = make_samples(small_model(path));
  CHECK(numbers(*samples, "images", kSamples - 1, 4) == std::vector<float>(4));
  CHECK(input(*samples, "labels", kSamples / 2, 1) == Tokens{0});
}

}  // namespace trainyard::tensor_samples_test
