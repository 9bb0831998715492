// What a Program's text says of documents, and what it may not say.
#include "engine/program/documents_line.h"

#include <catch2/catch.hpp>
#include <string>

namespace trainyard::documents_line_test {

namespace {

DocumentDraws parsed(const std::string& text, std::int64_t microbatches = 2) {
  LineScanner line("program.txt", 1, text);
  return read_documents(line, microbatches);
}

std::string problem(const std::string& text) {
  try {
    parsed(text);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

const std::string kRest = " of:64 replicas:4 replica:2 sizes:1";

}  // namespace

TEST_CASE("documents of a Program read back as they were written") {
  for (const std::string documents :
       {" mean:20 least:2 most:40 seed:7", " lengths:30,12", " read:60,4;64;1,63"}) {
    const DocumentDraws draws = parsed(documents + kRest);
    CHECK(documents_text(draws) == documents + kRest);
    CHECK(parsed(documents_text(draws)) == draws);
  }
  const DocumentDraws read = parsed(" read:60,4;64" + kRest);
  CHECK(read.samples == 2);
  CHECK(read.config.vary());
  CHECK(document_borders(read.config, 64, 0) == std::vector<std::int64_t>{0, 60, 64});
  CHECK(document_borders(read.config, 64, 1) == std::vector<std::int64_t>{0, 64});
  CHECK(document_borders(read.config, 64, 2) == document_borders(read.config, 64, 0));
  CHECK_FALSE(read == parsed(" read:60,4;60,4" + kRest));
}

TEST_CASE("listed documents that do not fill their samples are refused where they stand") {
  CHECK_THAT(problem(" read:60,4;63" + kRest),
             Catch::EndsWith("expected documents of 64 tokens, as the first sample's, got 63"));
  CHECK_THAT(problem(" read:60;60" + kRest),
             Catch::EndsWith("the documents of a sample have 60 tokens"));
  CHECK_THAT(problem(" read:64 of:64 replicas:0 replica:2 sizes:1"), Catch::Contains("replicas"));
}

}  // namespace trainyard::documents_line_test
