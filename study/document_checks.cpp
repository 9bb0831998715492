// Whether samples can be packed of documents as data.documents says: of which lengths, and with
// what.
#include <algorithm>
#include <string>

#include "study/data_kinds.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

void check_lengths(const Study& study) {
  const DocumentConfig& documents = study.documents;
  const std::string key = "data.documents.lengths";
  if (!documents.drawn()) {
    const bool any = std::any_of(documents.lengths.begin(), documents.lengths.end(),
                                 [](std::int64_t length) { return length > 1; });
    if (!any) fail_at(study, key, "documents of 1 token predict nothing; one has to be longer");
    return;
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

}  // namespace

void check_documents(const Study& study) {
  if (!study.documents.on()) return;
  const std::string key = "data.documents";
  const Family family = study.model.family;
  if (family != Family::kGpt && family != Family::kLlama) {
    fail_at(study, key,
            "samples of families gpt and llama are packed of documents, not those of " +
                std::string(to_string(family)));
  }
  check_lengths(study);
  if (is_of_files(study.data)) {
    fail_at(study, key,
            "lengths are given or drawn, and where documents of a file end is not read in this "
            "version; leave one of data.documents and data.path out");
  }
}

}  // namespace trainyard
