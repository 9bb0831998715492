// What is wrong with data is said at the study's line; what is right depends on seed and index
// alone.
#include <catch2/catch.hpp>

#include "real/data/samples.h"
#include "tests/engine/data/file_bytes.h"
#include "tests/real/data/data_studies.h"
#include "tests/study/study_fixture.h"

namespace trainyard::make_samples_test {

namespace {

std::string error_of(const Study& study) {
  return config_error([&] { make_samples(study); });
}

struct Input {
  const char* name;
  std::int64_t length;
};

std::vector<Input> inputs(Family family) {
  switch (family) {
    case Family::kBert:
      return {{"tokens", 32}, {"labels", 32}, {"token_types", 32}, {"next_sentence_labels", 1}};
    case Family::kT5: return {{"tokens", 32}, {"mask", 32}, {"decoder_tokens", 32}, {"labels", 32}};
    default: break;
  }
  return {{"tokens", 32}, {"labels", 32}};
}

Study full_study(Family family) {
  Study study = study_of(family, "generated", 80, 32);
  study.model.next_sentence = family == Family::kBert;
  return study;
}

}  // namespace

TEST_CASE("samples are the same in whatever order, by whomever they are read") {
  const Family family = GENERATE(Family::kGpt, Family::kBert, Family::kT5);
  const auto forward = make_samples(full_study(family));
  const auto backward = make_samples(full_study(family));
  for (const Input& i : inputs(family)) {
    std::vector<Tokens> expected;
    for (std::int64_t n = 0; n < 20; ++n) expected.push_back(input(*forward, i.name, n, i.length));
    for (std::int64_t n = 20; n-- > 0;) {
      CHECK(input(*backward, i.name, n, i.length) == expected[static_cast<std::size_t>(n)]);
    }
  }
}

// Sample `place` of the batch goes to replica place / (batch / data) as the run divides it;
// whichever way, the union over replicas and microbatches is the batch.
TEST_CASE("dividing the batch over other replicas and microbatches changes no sample") {
  const Family family = GENERATE(Family::kGpt, Family::kBert, Family::kT5);
  constexpr std::int64_t kBatch = 8;
  constexpr std::int64_t kStep = 5;
  const auto batch_of = [&](std::int64_t data, std::int64_t microbatch) {
    std::vector<Tokens> batch(kBatch);
    for (std::int64_t replica = 0; replica < data; ++replica) {
      const auto samples = make_samples(full_study(family));  // each replica has its own
      for (std::int64_t m = 0; m < kBatch / (data * microbatch); ++m) {
        for (std::int64_t b = 0; b < microbatch; ++b) {
          const std::int64_t place = replica * (kBatch / data) + m * microbatch + b;
          batch[static_cast<std::size_t>(place)] =
              input(*samples, "tokens", kStep * kBatch + place, 32);
        }
      }
    }
    return batch;
  };
  CHECK(batch_of(1, 8) == batch_of(4, 1));
  CHECK(batch_of(2, 2) == batch_of(4, 2));
}

TEST_CASE("another seed gives other samples") {
  for (const Family family : {Family::kGpt, Family::kBert, Family::kT5}) {
    Study study = full_study(family);
    const Tokens first = input(*make_samples(study), "tokens", 0, 32);
    study.training.seed = 2;
    CHECK(input(*make_samples(study), "tokens", 0, 32) != first);
  }
}

TEST_CASE("a vocabulary that is too small is refused with one that is large enough") {
  const ScratchFolder folder;
  write_file(folder / "text", std::string(100, 'x'));
  CHECK(
      error_of(study_of(Family::kGpt, folder / "text", 256, 8)) ==
      "study.yaml: model.vocab: 256 ids are too few for bytes as tokens (257 ids); 257 are enough");
  CHECK(error_of(study_of(Family::kGpt, "generated", 7, 8)) ==
        "study.yaml: model.vocab: 7 ids are too few for generated text (8 ids); 8 are enough");
  CHECK(error_of(study_of(Family::kBert, folder / "text", 259, 8)) ==
        "study.yaml: model.vocab: 259 ids are too few for bytes as tokens (257 ids) and 3 special "
        "tokens of the model; 260 are enough");
  CHECK(error_of(study_of(Family::kBert, folder / "text", 260, 8)) == "no error");
  CHECK(
      error_of(study_of(Family::kT5, "synthetic", 2, 8)) ==
      "study.yaml: model.vocab: 2 ids are too few for uniform tokens (1 ids) and 2 special tokens "
      "of the model; 3 are enough");
}

TEST_CASE("a sequence that is too short for its special tokens is refused") {
  CHECK(error_of(study_of(Family::kBert, "generated", 80, 2)) ==
        "study.yaml: model.seq_len: 2 leaves no room for text between 2 special tokens; 3 does");
  Study study = study_of(Family::kBert, "generated", 80, 4);
  study.model.next_sentence = true;
  CHECK(error_of(study) ==
        "study.yaml: model.seq_len: 4 leaves no room for text between 3 special tokens; 5 does");
  study = study_of(Family::kT5, "generated", 80, 8);
  study.model.decoder_seq_len = 2;
  CHECK(
      error_of(study) ==
      "study.yaml: model.decoder_seq_len: 2 leaves no room for a token between sentinel and end; 3 "
      "does");
}

TEST_CASE("a file that is too short is refused with what it would need") {
  const ScratchFolder folder;
  write_file(folder / "text", "12345678");
  const std::string file = folder / "text";
  CHECK(error_of(study_of(Family::kGpt, file, 300, 9)) ==
        "study.yaml: data.path: " + file + ": has 9 tokens; a sample of this model needs 10");
  CHECK(error_of(study_of(Family::kGpt, file, 300, 8)) == "no error");
  Study study = study_of(Family::kBert, file, 300, 8);  // two windows of 5
  study.model.next_sentence = true;
  CHECK(error_of(study) ==
        "study.yaml: data.path: " + file + ": has 9 tokens; 2 samples of this model need 10");
}

TEST_CASE("a token that the model has no room for is refused when it is read") {
  const ScratchFolder folder;
  const std::string file = folder / "tokens";
  write_file(file, packed<std::uint16_t>({1, 2, 3, 4, 50, 6, 7}));
  Study study = study_of(Family::kGpt, file, 50, 3);
  study.data.format = "u16";
  study.data.shuffle = false;
  const auto samples = make_samples(study);
  CHECK(input(*samples, "labels", 0, 3) == Tokens{2, 3, 4});
  CHECK(config_error([&] { input(*samples, "tokens", 1, 3); }) ==
        file + ": token 4 is 50; model.vocab leaves the ids 0 to 49 to the data");
  study.model.family = Family::kBert;
  study.model.vocab = 53;  // [CLS] is 50
  study.model.seq_len = 5;
  CHECK(config_error([&] { input(*make_samples(study), "tokens", 1, 5); }) ==
        file + ": token 4 is 50; model.vocab leaves the ids 0 to 49 to the data");
}

TEST_CASE("what is wrong with the data is said at its line") {
  const Study study = read(kSmallStudy + "data:\n  path: none.txt\n");
  const std::string message = error_of(study);
  CHECK(message.substr(0, 28) == "study.yaml:6:9: data.path: /");
  CHECK(message.find("none.txt: No such file or directory") != std::string::npos);
  // A file that is not there is the mistake, whatever ids its bytes would need.
  for (const Family family : {Family::kGpt, Family::kBert}) {
    CHECK(error_of(study_of(family, "/no/such", 64, 8)) ==
          "study.yaml: data.path: /no/such: No such file or directory");
  }
}

}  // namespace trainyard::make_samples_test
