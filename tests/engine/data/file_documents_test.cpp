// Documents of samples that are windows of a file: where its index, or a token, ends them.
#include "engine/data/file_documents.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/data/megatron_writer.h"
#include "tests/real/data/data_studies.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::file_documents_test {

namespace {

using Borders = std::vector<std::int64_t>;
constexpr EpochOrder kInOrder{.shuffle = false};

FileDocuments documents_of(const std::string& path, const std::string& format, std::int64_t length,
                           std::int64_t end, const EpochOrder& order = kInOrder) {
  return {TokenFile::open(path, format), order, length, end};
}

/// Documents of 3, 0, 2, 6 and 1 tokens: token i is i.
void write_documents(const std::string& prefix) {
  MegatronWriter writer(prefix, 100);
  std::int64_t next = 0;
  for (const std::int64_t length : {3, 0, 2, 6, 1}) {
    Tokens tokens;
    while (static_cast<std::int64_t>(tokens.size()) < length) tokens.push_back(next++);
    writer.add_document(tokens);
  }
  writer.finish();
}

}  // namespace

TEST_CASE("an index says where documents end, within a window and at its ends") {
  const ScratchFolder folder;
  write_documents(folder / "data");
  // Documents end at 3, 3, 5, 11 and 12; windows of 4 tokens begin at 0 and 4, and the one at 8,
  // whose last token would be predicted by nothing that is there, is none.
  const FileDocuments four = documents_of(folder / "data", "megatron", 4, -1);
  CHECK(four.borders(4, 0) == Borders{0, 3, 4});
  CHECK(four.borders(4, 1) == Borders{0, 1, 4});
  CHECK(four.borders(4, 2) == four.borders(4, 0));  // the next epoch
  // Windows of 5 begin at 0 and 5: a border at an end of the window is that end.
  const FileDocuments five = documents_of(folder / "data", "megatron", 5, -1);
  CHECK(five.borders(5, 0) == Borders{0, 3, 5});
  CHECK(five.borders(5, 1) == Borders{0, 5});
}

TEST_CASE("a token ends the document that it is of") {
  const ScratchFolder folder;
  std::ofstream(folder / "text") << "ab\n\ncd\nefgh";
  const FileDocuments lines = documents_of(folder / "text", "text", 4, '\n');
  CHECK(lines.borders(4, 0) == Borders{0, 3, 4});  // "ab\n", "\n"
  CHECK(lines.borders(4, 1) == Borders{0, 3, 4});  // "cd\n", "e"
  write_documents(folder / "data");
  CHECK(documents_of(folder / "data", "megatron", 4, 1).borders(4, 0) == Borders{0, 2, 4});
}

TEST_CASE("samples have the documents of the windows that a shuffled epoch gives them") {
  const ScratchFolder folder;
  std::ofstream(folder / "text") << std::string(40, '.') + "\n" + std::string(60, '.');
  const EpochOrder shuffled{.shuffle = true, .seed = 5};
  const FileDocuments documents = documents_of(folder / "text", "text", 4, '\n', shuffled);
  // 101 bytes and the end of the text: 25 windows of 4, of which window 10 begins with the break.
  for (std::int64_t sample = 0; sample < 75; ++sample) {
    const bool broken = shuffled.item_at(sample, 25) == 10;
    CHECK(documents.borders(4, sample) == (broken ? Borders{0, 1, 4} : Borders{0, 4}));
  }
}

TEST_CASE("equal files in equal orders have equal origins") {
  const ScratchFolder folder;
  write_documents(folder / "data");
  const auto origin = [&](std::int64_t length, std::int64_t end, const EpochOrder& order) {
    return documents_of(folder / "data", "megatron", length, end, order).origin();
  };
  const std::string one = origin(4, -1, kInOrder);
  CHECK(origin(4, -1, kInOrder) == one);
  CHECK(origin(3, -1, kInOrder) != one);
  CHECK(origin(4, 1, kInOrder) != one);
  CHECK(origin(4, -1, {.shuffle = true, .seed = 1}) != one);
  CHECK(origin(4, -1, {.shuffle = true, .seed = 1}) != origin(4, -1, {.shuffle = true, .seed = 2}));
  const auto config = [&](std::int64_t length) {
    DocumentConfig documents;
    documents.of_tokens = true;
    documents.source =
        std::make_shared<FileDocuments>(documents_of(folder / "data", "megatron", length, -1));
    return documents;
  };
  CHECK(config(4) == config(4));
  CHECK_FALSE(config(4) == config(3));
}

TEST_CASE("a file without documents, or too short, says so") {
  const ScratchFolder folder;
  std::ofstream(folder / "tokens") << "12345678";
  CHECK(config_error([&] { documents_of(folder / "tokens", "u16", 2, -1); }) ==
        (folder / "tokens") + ": has no index of documents");
  CHECK(config_error([&] { documents_of(folder / "tokens", "u16", 4, 1); }) ==
        (folder / "tokens") + ": has 4 tokens; a sample of this model needs 5");
}

}  // namespace trainyard::file_documents_test
