// What studies say wrong of documents that samples are packed of, and how they read back.
#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "study/study_writer.h"
#include "tests/study/study_fixture.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::document_errors_test {

namespace {

using Sets = std::vector<std::string>;

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
        "predict nothing; one of a sample's has to be longer");
  // No sample of 4 tokens comes to the document of 9.
  CHECK_THAT(error("{lengths: [1, 1, 1, 1, 9]}", {"model.seq_len=4"}),
             Catch::EndsWith("predict nothing; one of a sample's has to be longer"));
  CHECK(error("{lengths: {mean: 20, min: 21}}") ==
        "study.yaml:4:45: data.documents.lengths.min: expected at most the mean of 20 tokens, got "
        "21");
  CHECK(error("{lengths: {mean: 20, max: 19}}") ==
        "study.yaml:4:45: data.documents.lengths.max: expected at least the mean of 20 tokens, got "
        "19");
  CHECK(error("{lengths: 20}", {"model={family: bert, layers: 4, hidden: 64, heads: 8, vocab: 64, "
                                "seq_len: 48}"}) ==
        at + "samples of families gpt and llama are packed of documents, not those of bert");
  CHECK(error("{lengths: 20}", {"data.path=tokens.bin", "model.vocab=300"}) ==
        "study.yaml:4:29: data.documents.lengths: lengths are given or drawn, and the tokens are "
        "those of a file, whose documents end where it says; write file, or leave data.path out");
}

TEST_CASE("documents of a file are opened with the study, and read back") {
  const ScratchFolder folder;
  std::ofstream(folder / "text") << std::string(30, 'a') + "\n" + std::string(30, 'b');
  const std::string documents = "{lengths: file, end: 10}";
  const std::vector<std::string> sets = {"data.path=" + (folder / "text"), "model.vocab=300"};
  const Study study = read_study_text(packed(documents), "study.yaml", sets, fixture_resolvers());
  CHECK(study.documents.on());
  CHECK(study.documents.end == 10);
  REQUIRE(study.documents.source != nullptr);
  // 61 bytes and the end of the text are one sample of 48 tokens, whatever the order.
  CHECK(document_borders(study.documents, 48, 0) == std::vector<std::int64_t>{0, 31, 48});
  CHECK(study.warnings.empty());
  CHECK(read(resolved_study_text(study)).documents == study.documents);
}

TEST_CASE("documents of a file that cannot be told apart are refused at their key") {
  const ScratchFolder folder;
  std::ofstream(folder / "text") << std::string(60, 'a');
  const std::string lengths = "study.yaml:4:29: data.documents.lengths: ";
  const std::string path = "data.path=" + (folder / "text"), vocab = "model.vocab=300";
  CHECK(error("{lengths: file}") ==
        lengths + "data.path is generated, and no file says where documents end");
  CHECK(error("{lengths: file}", {path, vocab}) ==
        lengths +
            "files of format text do not say where documents end; data.documents.end names "
            "the token that ends one");
  CHECK(error("{lengths: file, end: 300}", {path, vocab}) ==
        "study.yaml:4:40: data.documents.end: expected an id of the vocabulary, 0 to 299, got 300");
  CHECK_THAT(error("{lengths: file}", {path, "data.format=megatron"}),
             Catch::Contains("data.path: ") && Catch::Contains("text.idx: "));
  CHECK_THAT(error("{lengths: file, end: 0}", {path, vocab}),
             Catch::StartsWith("study.yaml:4:40: data.documents.end: no token of ") &&
                 Catch::EndsWith(" is 0, and no document ends"));
  CHECK_THAT(error("{lengths: file, end: 10}", {path, vocab, "model.seq_len=96"}),
             Catch::EndsWith("has 61 tokens; a sample of this model needs 97"));
}

TEST_CASE("a file whose samples predict nothing is refused, and one that predicts a token is not") {
  const ScratchFolder folder;
  const std::string path = folder / "text";
  const Sets sets = {"data.path=" + path, "model.vocab=300"};
  std::ofstream(path) << std::string(60, '\n');
  CHECK(error("{lengths: file, end: 10}", sets) ==
        "study.yaml:4:40: data.documents.end: every document in the samples of " + path +
            " is of 1 token, and nothing is predicted");
  std::ofstream(path) << std::string(30, '\n') + "a" + std::string(30, '\n');
  CHECK(error("{lengths: file, end: 10}", sets) == "no error");
}

TEST_CASE("what lengths of a file have no use for warns") {
  const ScratchFolder folder;
  std::ofstream(folder / "text") << std::string(30, 'a') + '\n' + std::string(30, 'a');
  const auto warnings = [&](const std::string& documents, const std::string& path) {
    return read_study_text(packed(documents), "study.yaml",
                           {"data.path=" + path, "model.vocab=300"}, fixture_resolvers())
        .warnings;
  };
  CHECK(warnings("{lengths: file, end: 10, seed: 3}", folder / "text") ==
        std::vector<std::string>{
            "data.documents.seed is not used: lengths are the file's, and none is drawn"});
  CHECK(warnings("{lengths: 20, end: 10}", "generated") ==
        std::vector<std::string>{"data.documents.end is not used: lengths are given"});
}

}  // namespace trainyard::document_errors_test
