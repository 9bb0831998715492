// Token files: what is written is read back, and what is damaged is refused with the reason.
#include "engine/data/token_file.h"

#include <catch2/catch.hpp>

#include "engine/base/error.h"
#include "tests/engine/data/file_bytes.h"
#include "tests/engine/data/megatron_writer.h"
#include "tests/real/data/data_studies.h"

namespace trainyard::token_file_test {

namespace {

Tokens all_tokens(const TokenFile& file) {
  Tokens tokens(static_cast<std::size_t>(file.num_tokens()));
  file.read(0, tokens);
  return tokens;
}

std::string error_of(const std::string& path, const std::string& format) {
  return config_error([&] { TokenFile::open(path, format); });
}

/// Three documents, {1, 2, 3}, {} and {4, 5}.
void write_example(const std::string& prefix, std::int64_t vocab) {
  MegatronWriter writer(prefix, vocab);
  writer.add_document(Tokens{1, 2, 3});
  writer.add_document(Tokens{});
  writer.add_document(Tokens{4, 5});
  writer.finish();
}

// Bytes of the example's index: header 34, lengths 3 x 4, pointers 3 x 8, documents 4 x 8.
constexpr std::size_t kLengths = 34;
constexpr std::size_t kPointers = 46;
constexpr std::size_t kDocuments = 70;

std::string with(std::string bytes, std::size_t at, char value) {
  bytes[at] = value;
  return bytes;
}

}  // namespace

TEST_CASE("the writer's files have Megatron-LM's bytes") {
  const ScratchFolder folder;
  write_example(folder / "data", 100);
  CHECK(file_bytes(folder / "data.bin") == packed<std::uint16_t>({1, 2, 3, 4, 5}));
  CHECK(file_bytes(folder / "data.idx") ==
        std::string("MMIDIDX\0\0", 9) + packed<std::uint64_t>({1}) + packed<std::uint8_t>({8}) +
            packed<std::uint64_t>({3, 4}) + packed<std::int32_t>({3, 0, 2}) +
            packed<std::int64_t>({0, 6, 6}) + packed<std::int64_t>({0, 1, 2, 3}));
}

TEST_CASE("Megatron-LM's files are read back, by either name") {
  const ScratchFolder folder;
  const std::int64_t vocab = GENERATE(65'500, 65'501);  // 2 and 4 bytes an element
  write_example(folder / "data", vocab);
  const std::int64_t size = vocab == 65'500 ? 2 : 4;
  CHECK(file_bytes(folder / "data.bin").size() == static_cast<std::size_t>(5 * size));
  for (const char* name : {"data", "data.bin", "data.idx"}) {
    const TokenFile file = TokenFile::open(folder / name, "megatron");
    CHECK(all_tokens(file) == Tokens{1, 2, 3, 4, 5});
    CHECK(file.num_documents() == 3);
  }
}

TEST_CASE("every element type is read with its sign") {
  const ScratchFolder folder;
  const Tokens stored{-1, 0, 100};
  const std::vector<std::pair<std::int64_t, std::string>> types = {
      {2, packed<std::int8_t>(stored)},
      {3, packed<std::int16_t>(stored)},
      {4, packed<std::int32_t>(stored)},
      {5, packed<std::int64_t>(stored)}};
  for (const auto& [code, bytes] : types) {
    write_file(folder / "data.bin", bytes);
    write_file(folder / "data.idx", std::string("MMIDIDX\0\0", 9) + packed<std::uint64_t>({1}) +
                                        packed<std::uint8_t>({code}) +
                                        packed<std::uint64_t>({1, 2}) + packed<std::int32_t>({3}) +
                                        packed<std::int64_t>({0}) + packed<std::int64_t>({0, 1}));
    CHECK(all_tokens(TokenFile::open(folder / "data", "megatron")) == stored);
  }
}

TEST_CASE("plain files hold numbers and nothing else") {
  const ScratchFolder folder;
  write_file(folder / "u16", packed<std::uint16_t>({7, 65'535}));
  write_file(folder / "u32", packed<std::uint32_t>({7, 4'000'000'000}));
  CHECK(all_tokens(TokenFile::open(folder / "u16", "u16")) == Tokens{7, 65'535});
  CHECK(all_tokens(TokenFile::open(folder / "u32", "u32")) == Tokens{7, 4'000'000'000});
  Tokens part(1);
  TokenFile::open(folder / "u32", "u32").read(1, part);
  CHECK(part == Tokens{4'000'000'000});
}

TEST_CASE("text is its bytes and an end of document, wherever one reads") {
  const ScratchFolder folder;
  write_file(folder / "text", "hi");
  const TokenFile file = TokenFile::open(folder / "text", "text");
  CHECK(all_tokens(file) == Tokens{'h', 'i', 256});
  Tokens part(2);
  file.read(1, part);
  CHECK(part == Tokens{'i', 256});
  part.resize(1);
  file.read(2, part);
  CHECK(part == Tokens{256});
}

TEST_CASE("files that cannot be read are refused with the reason") {
  const ScratchFolder folder;
  write_file(folder / "empty", "");
  write_file(folder / "odd", "12345");
  CHECK(error_of(folder / "none", "text") == (folder / "none") + ": No such file or directory");
  CHECK(error_of(folder / "empty", "text") == (folder / "empty") + ": the file is empty");
  CHECK(error_of(folder / ".", "text") == (folder / ".") + ": not a regular file");
  CHECK(
      error_of(folder / "odd", "u16") ==
      (folder / "odd") +
          ": 5 bytes are not a whole number of 2-byte tokens; is it of format u16, and complete?");
  CHECK(error_of(folder / "odd", "megatron") ==
        (folder / "odd.idx") + ": No such file or directory");
}

TEST_CASE("a damaged index is refused with what is wrong in it") {
  const ScratchFolder folder;
  write_example(folder / "data", 100);
  const std::string good = file_bytes(folder / "data.idx");
  const auto error_with = [&](const std::string& index) {
    write_file(folder / "data.idx", index);
    const std::string message = error_of(folder / "data", "megatron");
    const std::string place = (folder / "data.idx") + ": ";
    REQUIRE(message.substr(0, place.size()) == place);
    return message.substr(place.size());
  };
  CHECK(error_with(good.substr(0, 33)) == "is 33 bytes; the header alone has 34");
  CHECK(error_with(with(good, 0, 'X')) ==
        "does not begin with MMIDIDX, so it is not a Megatron-LM index");
  CHECK(error_with(with(good, 9, 2)) == "is of version 2; expected 1");
  CHECK(error_with(with(good, 17, 6)) == "element type 6 does not hold tokens; 1 to 5 and 8 do");
  CHECK(
      error_with(good.substr(0, good.size() - 1)) ==
      "is 101 bytes, which is not what 3 sequences and 4 document indices take; it is cut short or "
      "damaged");
  // Counts so large that their sum in bytes wraps around to the size of the file.
  CHECK(
      error_with(with(good, 33, '\x80')) ==
      "is 102 bytes, which is not what 3 sequences and 9223372036854775812 document indices take; "
      "it is cut short or damaged");
  CHECK(error_with(with(good, kLengths + 3, '\x80')) == "sequence 0 has length -2147483645");
  CHECK(error_with(with(good, kPointers + 8, 4)) ==
        "sequence 1 begins at byte 4, but those before it end at byte 6");
  CHECK(error_with(with(good, kLengths + 8, 3)) ==
        "its sequences have 12 bytes, but the .bin file has 10; one of the two is cut short or "
        "damaged");
  CHECK(error_with(with(good, kDocuments, 1)) ==
        "document 0 begins with sequence 1, which is out of order");
  CHECK(error_with(with(good, kDocuments + 8, 9)) ==
        "document 1 begins with sequence 9, which is out of order");
  CHECK(error_with(with(good, kDocuments + 24, 2)) == "its documents end at sequence 2 of 3");
  write_file(folder / "data.bin", packed<std::uint16_t>({1, 2, 3, 4}));
  CHECK(error_with(good) ==
        "its sequences have 10 bytes, but the .bin file has 8; one of the two is cut short or "
        "damaged");
}

TEST_CASE("no damage of one byte of an index goes further than an error") {
  const ScratchFolder folder;
  write_example(folder / "data", 100);
  const std::string good = file_bytes(folder / "data.idx");
  int refused = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int flip : {1, 0x10, 0x80}) {
      write_file(folder / "data.idx", with(good, at, static_cast<char>(good[at] ^ flip)));
      refused += error_of(folder / "data", "megatron") == "no error" ? 0 : 1;
    }
  }
  // What may pass: the middle documents begin elsewhere, in order.
  CHECK(refused >= static_cast<int>(3 * good.size()) - 3);
}

TEST_CASE("the writer refuses tokens outside the vocabulary") {
  const ScratchFolder folder;
  MegatronWriter writer(folder / "data", 10);
  CHECK(config_error([&] { writer.add_document(Tokens{10}); }) ==
        (folder / "data.bin") + ": token 10 is not of a vocabulary of 10");
  CHECK_THROWS_AS(MegatronWriter(folder / "none/data", 10), BackendError);
}

}  // namespace trainyard::token_file_test
