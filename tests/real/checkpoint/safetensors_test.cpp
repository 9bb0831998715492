// safetensors files: the bytes as the format says, and every way in which they can be wrong.
#include "real/checkpoint/safetensors.h"

#include <catch2/catch.hpp>

#include "engine/base/error.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::safetensors_test {

namespace {

std::string file_text(const std::string& header, const std::string& data) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> 8 * i & 0xffU);
  return text + header + data;
}

/// The reason for which `text` is refused, without the file's name.
std::string reason(const std::string& text) {
  const ScratchFolder folder;
  const std::string path = folder / "t.safetensors";
  write_text(path, text);
  std::string error = error_of([&] { const SafetensorsFile file(path); });
  if (error == "none") return error;
  REQUIRE(error.starts_with(path + ": "));
  return error.substr(path.size() + 2);
}

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

}  // namespace

TEST_CASE("a written file has the bytes of the format") {
  const ScratchFolder folder;
  const std::string path = folder / "t.safetensors";
  const std::vector<SafetensorsEntry> entries = {{"b", DType::kFp32, {1}},
                                                 {"a", DType::kUint8, {2}}};
  SafetensorsWriter writer(path, entries, {{"format", "pt"}});
  const std::string data = "\1\2\3\4xy";
  writer.append(std::as_bytes(std::span(data)).first(5));
  writer.append(std::as_bytes(std::span(data)).subspan(5));
  const FileStamp stamp = writer.finish();

  std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"data_offsets":[4,6],"dtype":"U8","shape":[2]},)"
      R"("b":{"data_offsets":[0,4],"dtype":"F32","shape":[1]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  CHECK(read_text(path) == file_text(header, data));
  CHECK(stamp.bytes == static_cast<std::int64_t>(read_text(path).size()));

  const SafetensorsFile file(path);
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  REQUIRE(file.tensors().size() == 2);
  CHECK(file.tensors().at("b").dtype == DType::kFp32);
  CHECK(file.tensors().at("a").data[1] == std::byte{'y'});
  CHECK(sha256_hex(file.bytes()) == stamp.sha256);
}

TEST_CASE("types of other programs' files are read, if not computed with") {
  CHECK(reason(file_text(tensor("BOOL", "[2]", "[0,2]"), "ab")) == "none");
  CHECK(reason(file_text(tensor("F32", "[]", "[0,4]"), "abcd")) == "none");
  CHECK(reason(file_text(tensor("F32", "[3,0]", "[0,0]"), "")) == "none");
  CHECK(reason(file_text("{}", "")) == "none");
}

TEST_CASE("a header that does not fit the file is refused") {
  CHECK(reason("") == "the file is empty");
  CHECK(reason("abc") == "not a safetensors file: 3 bytes are less than the 8 it begins with");
  CHECK(reason(std::string(8, '\xff')) ==
        "not a safetensors file: its header would take 18446744073709551615 bytes, more than the "
        "100000000 allowed");
  CHECK(reason(std::string("\x40\0\0\0\0\0\0\0{}", 10)) ==
        "truncated: a header of 64 bytes does not fit in 10 bytes");
  CHECK(reason(file_text("", "")) == "not a safetensors file: its header is no JSON object");
  CHECK(reason(file_text("[]", "")) == "not a safetensors file: its header is no JSON object");
  CHECK_THAT(reason(file_text("{", "")), Catch::StartsWith("is not JSON: "));
  CHECK_THAT(reason(file_text("{} x", "")), Catch::StartsWith("is not JSON: "));
  CHECK_THAT(reason(file_text("{\"\xff\":1}", "")), Catch::StartsWith("is not JSON: "));
  CHECK_THAT(reason(file_text(tensor("F32", "[NaN]", "[0,4]"), "abcd")),
             Catch::StartsWith("is not JSON: "));
  CHECK_THAT(reason(file_text("{\"a\":" + std::string(9999, '['), "")),
             Catch::EndsWith("nests deeper than 32 levels"));
}

TEST_CASE("a tensor whose description is wrong is refused") {
  CHECK(reason(file_text(R"({"a":3})", "")) == "a: expected a JSON object, got 3");
  CHECK(reason(file_text(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", "abcd")) ==
        "a.dtype: missing");
  CHECK(reason(file_text(tensor("F31", "[1]", "[0,4]"), "abcd")) == "a.dtype: unknown type 'F31'");
  CHECK(reason(file_text(tensor("F32", "[-1]", "[0,4]"), "abcd")) ==
        "a.shape[0]: expected at least 0, got -1");
  CHECK(reason(file_text(tensor("F32", "[1.0]", "[0,4]"), "abcd")) ==
        "a.shape[0]: expected an integer, got 1.0");
  CHECK(reason(file_text(tensor("F32", "[18446744073709551615]", "[0,4]"), "abcd")) ==
        "a.shape[0]: expected at most 9223372036854775807, got 18446744073709551615");
  CHECK(reason(file_text(tensor("F32", "[4294967296,4294967296]", "[0,4]"), "abcd")) ==
        "a.shape: [4294967296, 4294967296] is too large");
  CHECK(reason(file_text(tensor("F32", "\"1\"", "[0,4]"), "abcd")) ==
        "a.shape: expected a list, got \"1\"");
  CHECK(reason(file_text(tensor("F32", "[1]", "[-4,0]"), "abcd")) ==
        "a.data_offsets[0]: expected at least 0, got -4");
  CHECK(reason(file_text(tensor("F32", "[1]", "[4,0]"), "abcd")) ==
        "a.data_offsets: expected a begin and an end, got [4, 0]");
  CHECK(reason(file_text(tensor("F32", "[1]", "[0]"), "abcd")) ==
        "a.data_offsets: expected a begin and an end, got [0]");
  CHECK(reason(file_text(tensor("F32", "[2]", "[0,4]"), "abcd")) ==
        "a.data_offsets: 4 bytes, where shape [2] of F32 takes 8");
  CHECK(reason(file_text(R"({"__metadata__":{"a":1}})", "")) ==
        "__metadata__.a: expected a string, got 1");
}

TEST_CASE("data that overlap, have gaps, or do not fill the file are refused") {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + a +
           R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + b + "}}";
  };
  CHECK(reason(file_text(two("[0,4]", "[4,8]"), "abcdefgh")) == "none");
  CHECK(reason(file_text(two("[4,8]", "[0,4]"), "abcdefgh")) == "none");
  CHECK(reason(file_text(two("[0,4]", "[2,6]"), "abcdef")) ==
        "b: begins at byte 2 of the data, inside the tensor before it, which ends at 4");
  CHECK(reason(file_text(two("[0,4]", "[5,9]"), "abcdefghi")) ==
        "b: begins at byte 5 of the data, a gap after 4");
  CHECK(reason(file_text(two("[1,5]", "[5,9]"), "abcdefghi")) ==
        "a: begins at byte 1 of the data, a gap after 0");
  CHECK(reason(file_text(two("[0,4]", "[4,8]"), "abcdefg")) ==
        "truncated: 8 bytes of data expected, 7 are there");
  CHECK(reason(file_text(two("[0,4]", "[4,8]"), "abcdefghi")) ==
        "1 extra bytes after the last tensor");
  CHECK(reason(file_text(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                         R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                         "")) == "a: appears twice in this object");
}

TEST_CASE("a file that is not there, or is a folder, is refused") {
  const ScratchFolder folder;
  CHECK(error_of([&] { SafetensorsFile file(folder / "no"); }) ==
        (folder / "no") + ": No such file or directory");
  CHECK(error_of([&] { SafetensorsFile file(folder.path()); }) ==
        folder.path() + ": not a regular file");
}

}  // namespace trainyard::safetensors_test
