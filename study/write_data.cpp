// The resolved study's data, and the documents that its samples are packed of.
#include "engine/base/quantity.h"
#include "study/resolved_text.h"
#include "study/study_keys.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

std::string of_channels_text(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + number_text(value);
  return values.size() == 1 ? text : "[" + text + "]";
}

void write_documents(ResolvedText& out, const DocumentConfig& documents) {
  if (!documents.on()) return;
  out.open("documents");
  if (documents.drawn()) {
    out.open("lengths");
    out.integer("mean", documents.mean);
    out.integer("min", documents.least);
    if (documents.most > 0) out.integer("max", documents.most);
    out.close();
  } else if (documents.of_tokens) {
    out.text("lengths", std::string(kFileDocuments));
    if (documents.end >= 0) out.integer("end", documents.end);
  } else {
    std::string text;
    for (const std::int64_t length : documents.lengths)
      text += (text.empty() ? "[" : ", ") + std::to_string(length);
    out.line("lengths", text + "]");
  }
  if (documents.drawn()) out.integer("seed", documents.seed);
  out.close();
}

}  // namespace

void write_data(ResolvedText& out, const DataConfig& data, const DocumentConfig& documents) {
  out.map("data", data_keys(),
          {{"kind",
            [&] {
              if (!data.kind.empty()) out.text("kind", data.kind);
            }},
           {"format",
            [&] {
              if (data.kind.empty() || data.kind == "tokens") out.text("format", data.format);
            }},
           {"mean",
            [&] {
              if (data.kind != "tokens") out.line("mean", of_channels_text(data.mean));
            }},
           {"std",
            [&] {
              if (data.kind != "tokens") out.line("std", of_channels_text(data.std));
            }},
           {"documents", [&] { write_documents(out, documents); }}});
}

}  // namespace trainyard
