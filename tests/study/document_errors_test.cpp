// What studies say wrong of documents that samples are packed of, and how they read back.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "study/study_writer.h"
#include "tests/study/study_fixture.h"

namespace trainyard {

namespace {

std::string packed(const std::string& documents) {
  return kLlamaStudy + "data: {documents: " + documents + "}\n";
}
std::string error(const std::string& documents, const std::vector<std::string>& sets = {}) {
  return error_of(packed(documents), sets);
}

}  // namespace

TEST_CASE("documents are a length, a list, or drawn, and read back as they were") {
  CHECK_FALSE(read(kLlamaStudy).documents.on());
  CHECK(read(packed("{lengths: 20}")).documents == DocumentConfig{.lengths = {20}});
  CHECK(read(packed("{lengths: [20, 7]}")).documents == DocumentConfig{.lengths = {20, 7}});
  CHECK(read(packed("{lengths: {mean: 20}}")).documents ==
        DocumentConfig{.lengths = {}, .mean = 20});
  CHECK(read(packed("{lengths: {mean: 20, min: 4, max: 40}, seed: 9}")).documents ==
        DocumentConfig{.lengths = {}, .mean = 20, .least = 4, .most = 40, .seed = 9});
  for (const std::string documents :
       {"{lengths: [20, 7]}", "{lengths: {mean: 20, min: 4, max: 40}, seed: 9}"}) {
    const Study study = read(packed(documents));
    CHECK(read(resolved_study_text(study)).documents == study.documents);
  }
}

TEST_CASE("a seed of lengths that are given warns") {
  CHECK(read(packed("{lengths: [20, 7], seed: 9}")).warnings ==
        std::vector<std::string>{
            "data.documents.seed is not used: lengths are given, and none is drawn"});
  CHECK(read(packed("{lengths: {mean: 20}, seed: 9}")).warnings.empty());
  CHECK(read(resolved_study_text(read(packed("{lengths: [20, 7]}")))).warnings.empty());
}

TEST_CASE("documents that samples cannot be packed of are refused at their key") {
  const std::string at = "study.yaml:4:19: data.documents: ";
  CHECK(error("{seed: 1}") == at + "missing required key 'lengths'");
  CHECK(error("{lengths: 1}") ==
        "study.yaml:4:29: data.documents.lengths: documents of 1 token "
        "predict nothing; one has to be longer");
  CHECK(error("{lengths: {mean: 20, min: 21}}") ==
        "study.yaml:4:45: data.documents.lengths.min: expected at most the mean of 20 tokens, got "
        "21");
  CHECK(error("{lengths: {mean: 20, max: 19}}") ==
        "study.yaml:4:45: data.documents.lengths.max: expected at least the mean of 20 tokens, got "
        "19");
  CHECK(error("{lengths: 20}", {"model={family: bert, layers: 4, hidden: 64, heads: 8, vocab: 64, "
                                "seq_len: 48}"}) ==
        at + "samples of families gpt and llama are packed of documents, not those of bert");
  CHECK(error("{lengths: 20}", {"data.path=tokens.bin"}) ==
        at + "lengths are given or drawn, and where documents of a file end is not read in this "
             "version; leave one of data.documents and data.path out");
}

}  // namespace trainyard
