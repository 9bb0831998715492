#include "engine/program/documents_line.h"

#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/indexed.h"
#include "engine/plan/plan_limits.h"
#include "engine/program/line_pieces.h"

namespace trainyard {

namespace {

/// The borders of some samples, over and over.
class ListedDocuments final : public DocumentSource {
 public:
  explicit ListedDocuments(Numbered<std::vector<std::int64_t>> borders)
      : borders_(std::move(borders)) {}

  std::vector<std::int64_t> borders(std::int64_t length, std::int64_t sample) const override {
    const std::vector<std::int64_t>& out = borders_[sample % std::ssize(borders_)];
    check(out.back() == length, "samples as long as those that are listed");
    return out;
  }

  std::string origin() const override {
    std::string out = "listed";
    for (const std::vector<std::int64_t>& sample : borders_) {
      for (const std::int64_t border : sample) out.append(" ").append(std::to_string(border));
    }
    return out;
  }

 private:
  Numbered<std::vector<std::int64_t>> borders_;  // [sample]
};

void append(std::string& out, const std::vector<std::int64_t>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(numbers[i]);
  }
}

std::string read_text(const DocumentDraws& draws) {
  std::string out = " read:";
  for (std::int64_t sample = 0; sample < draws.samples; ++sample) {
    if (sample > 0) out += ';';
    std::vector<std::int64_t> lengths = document_borders(draws.config, draws.length, sample);
    std::adjacent_difference(lengths.begin(), lengths.end(), lengths.begin());
    lengths.erase(lengths.begin());
    append(out, lengths);
  }
  return out;
}

void read_listed(LineScanner& line, DocumentDraws& draws) {
  Numbered<std::vector<std::int64_t>> borders;
  std::int64_t length = 0;
  do {
    const std::size_t at = line.position();
    std::vector<std::int64_t> ends = {0};
    for (const std::int64_t tokens : read_numbers(line, "tokens of a document"))
      ends.push_back(ends.back() + tokens);
    if (length != 0 && ends.back() != length) {
      line.fail_at(at, "expected documents of " + std::to_string(length) +
                           " tokens, as the first sample's, got " + std::to_string(ends.back()));
    }
    length = ends.back();
    borders.push_back(std::move(ends));
  } while (line.accept(";"));
  draws.samples = std::ssize(borders);
  draws.config.of_tokens = true;
  draws.config.source = std::make_shared<ListedDocuments>(std::move(borders));
  line.expect(" of:");
  const std::size_t at = line.position();
  draws.length = line.number(1, kMaxTokens, "tokens of a sample");
  if (draws.length != length)
    line.fail_at(at, "the documents of a sample have " + std::to_string(length) + " tokens");
}

}  // namespace

std::string documents_text(const DocumentDraws& draws) {
  const DocumentConfig& config = draws.config;
  std::string out;
  const auto number = [&](std::string_view name, std::int64_t value) {
    out.append(name).append(std::to_string(value));
  };
  if (config.drawn()) {
    number(" mean:", config.mean);
    number(" least:", config.least);
    number(" most:", config.most);
    number(" seed:", config.seed);
  } else if (config.of_tokens) {
    out = read_text(draws);
  } else {
    append(out += " lengths:", config.lengths);
  }
  number(" of:", draws.length);
  number(" replicas:", draws.replicas);
  number(" replica:", draws.per_replica);
  append(out += " sizes:", draws.sizes);
  return out;
}

DocumentDraws read_documents(LineScanner& line, std::int64_t num_microbatches) {
  DocumentDraws draws;
  DocumentConfig& config = draws.config;
  if (line.accept(" read:")) {
    read_listed(line, draws);
  } else {
    if (line.accept(" lengths:")) {
      config.lengths = read_numbers(line, "tokens of a document");
    } else {
      line.expect(" mean:");
      config.mean = line.number(1, kMaxTokens, "tokens of a document");
      line.expect(" least:");
      config.least = line.number(1, config.mean, "tokens, no more than the mean");
      line.expect(" most:");
      config.most = line.number(0, kMaxTokens, "tokens");
      line.expect(" seed:");
      config.seed = line.number(0, std::numeric_limits<std::int64_t>::max(), "a seed");
    }
    line.expect(" of:");
    draws.length = line.number(1, kMaxTokens, "tokens of a sample");
  }
  line.expect(" replicas:");
  draws.replicas = line.number(1, kMaxRanks, "replicas");
  line.expect(" replica:");
  draws.per_replica = line.number(1, kMaxTokens, "samples");
  line.expect(" sizes:");
  const std::size_t at = line.position();
  draws.sizes = read_numbers(line, "samples");
  if (draws.sizes.size() != 1 && std::ssize(draws.sizes) != num_microbatches)
    line.fail_at(at, "expected one number, or one for each microbatch");
  line.expect_end();
  return draws;
}

}  // namespace trainyard
