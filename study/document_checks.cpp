// Whether samples can be packed of documents as data.documents says: of which lengths, and with
// what; and where those of a file end.
#include <memory>
#include <string>

#include "engine/base/error.h"
#include "engine/data/file_documents.h"
#include "study/data_kinds.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

void check_lengths(const Study& study) {
  const DocumentConfig& documents = study.documents;
  const std::string key = "data.documents.lengths";
  if (documents.of_tokens) return;
  if (!documents.drawn()) {
    if (predict_any(document_borders(documents, study.model.seq_len, 0))) return;
    fail_at(study, key, "documents of 1 token predict nothing; one of a sample's has to be longer");
  }
  const std::string mean = "the mean of " + std::to_string(documents.mean) + " tokens";
  if (documents.least > documents.mean) {
    fail_at(study, key + ".min",
            "expected at most " + mean + ", got " + std::to_string(documents.least));
  }
  if (documents.most > 0 && documents.most < documents.mean) {
    fail_at(study, key + ".max",
            "expected at least " + mean + ", got " + std::to_string(documents.most));
  }
}

/// What the files of a study hold is read here where lengths follow from it: a simulated step has
/// the documents of the trained one.
void open_documents(Study& study) {
  DocumentConfig& documents = study.documents;
  const DataConfig& data = study.data;
  const std::string key = "data.documents";
  if (!is_of_files(data)) {
    fail_at(study, key + ".lengths",
            "data.path is " + data.path + ", and no file says where documents end");
  }
  if (documents.end < 0 && data.format != "megatron") {
    fail_at(study, key + ".lengths",
            "files of format " + data.format + " do not say where documents end; " + key +
                ".end names the token that ends one");
  }
  if (documents.end >= study.model.vocab) {
    fail_at(study, key + ".end",
            "expected an id of the vocabulary, 0 to " + std::to_string(study.model.vocab - 1) +
                ", got " + std::to_string(documents.end));
  }
  std::int64_t largest = 0;
  std::shared_ptr<const FileDocuments> source;
  try {
    TokenFile file = TokenFile::open(data.path, data.format);
    largest = file.largest_token();
    source = std::make_shared<FileDocuments>(std::move(file),
                                             EpochOrder{data.shuffle, study.training.seed},
                                             study.model.seq_len, documents.end);
  } catch (const ConfigError& error) {
    fail_at(study, "data.path", error.what());
  }
  if (documents.end > largest) {
    fail_at(study, key + ".end",
            "tokens of this file are at most " + std::to_string(largest) + ", and none is " +
                std::to_string(documents.end));
  }
  if (!source->ends_any()) {
    fail_at(study, key + ".end",
            "no token of " + data.path + " is " + std::to_string(documents.end) +
                ", and no document ends");
  }
  if (!source->predict()) {
    fail_at(study, documents.end < 0 ? "data.path" : key + ".end",
            "every document in the samples of " + data.path +
                " is of 1 token, and nothing is predicted");
  }
  documents.source = std::move(source);
}

}  // namespace

void check_documents(Study& study) {
  if (!study.documents.on()) return;
  const std::string key = "data.documents";
  const Family family = study.model.family;
  if (family != Family::kGpt && family != Family::kLlama) {
    fail_at(study, key,
            "samples of families gpt and llama are packed of documents, not those of " +
                std::string(to_string(family)));
  }
  check_lengths(study);
  if (study.documents.of_tokens) return open_documents(study);
  if (is_of_files(study.data)) {
    fail_at(study, key + ".lengths",
            "lengths are given or drawn, and the tokens are those of a file, whose documents end "
            "where it says; write file, or leave data.path out");
  }
}

}  // namespace trainyard
