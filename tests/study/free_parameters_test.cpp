// The free numbers of software profiles: what the files say of them, and what is refused.
#include "study/free_parameters.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "study/data_folder.h"
#include "study/profile_reader.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/source_root.h"

namespace trainyard::free_parameters_test {

namespace {

const std::string kHead =
    "name: made\ndescription: made up\nbasis: {kind: derived, note: made up}\n";

/// A root whose software profiles have these texts behind kHead.
class Root {
 public:
  Root(std::initializer_list<std::pair<std::string, std::string>> profiles) {
    std::filesystem::create_directories(folder_ / "calibrate/software");
    for (const auto& [name, text] : profiles)
      write_text(folder_ / ("calibrate/software/" + name + ".yaml"), kHead + text);
  }
  const std::string& path() const { return folder_.path(); }

 private:
  ScratchFolder folder_;
};

}  // namespace

TEST_CASE(
    "the shipped profiles: at most 30 free parameters, each within its bounds and with its basis") {
  const auto parameters = free_parameters(source_root());
  CHECK(parameters.size() <= kMostFreeParameters);
  for (const FreeParameter& parameter : parameters) {
    CAPTURE(parameter.name, parameter.value, parameter.note);
    CHECK(parameter.range.low > 0);
    CHECK(parameter.range.low <= parameter.value);
    CHECK(parameter.value <= parameter.range.high);
    CHECK_FALSE(parameter.note.empty());
    CHECK_FALSE(parameter.places.empty());
  }
  // The profile that a study gets holds the value that is listed.
  for (const FreeParameter& parameter : parameters) {
    for (const ParameterPlace& place : parameter.places) {
      const auto found = find_yaml(source_root() + "/calibrate/software", place.profile);
      REQUIRE(found);
      const SoftwareProfile profile = read_software_profile(found->root);
      CHECK(profile_key(profile) == place.profile);
      CHECK(profile.*parameter.number.value == parameter.value);
    }
  }
}

TEST_CASE("only numbers of kind fitted are free, with their bounds or the usual ones") {
  const Root root{{"a",
                   "launch_factor: {value: 2, kind: measured, note: n}\n"
                   "product_factor: {value: 1.2, kind: fitted, fit: [0.9, 2], one_source: true, "
                   "note: rows of x}\n"
                   "gradient_traffic: {value: 10, kind: fitted, note: n}\n"},
                  {"b", ""}};
  const auto parameters = free_parameters(root.path());
  REQUIRE(parameters.size() == 2);
  CHECK(parameters[0].name == "a.product_factor");
  CHECK(parameters[0].value == 1.2);
  CHECK(parameters[0].range.low == 0.9);
  CHECK(parameters[0].range.high == 2);
  CHECK(parameters[0].range.one_source);
  CHECK(parameters[0].note == "rows of x");
  CHECK(parameters[1].range.low == 2);    // a fifth
  CHECK(parameters[1].range.high == 50);  // five times
}

TEST_CASE("shared entries are one parameter") {
  const std::string entry =
      "launch_factor: {value: 2, kind: fitted, fit: [1, 9], shared: python, note: n}\n";
  const Root root{
      {"a", entry},
      {"b", entry + "gradient_traffic: {value: 4, kind: fitted, shared: python, note: n}\n"}};
  const auto parameters = free_parameters(root.path());
  REQUIRE(parameters.size() == 2);
  CHECK(parameters[0].name == "python.launch_factor");
  REQUIRE(parameters[0].places.size() == 2);
  CHECK(parameters[0].places[1].profile == "b");
  CHECK(parameters[1].name == "python.gradient_traffic");
  CHECK(parameters[1].places.size() == 1);
}

TEST_CASE("what is wrong with a free number is said at its place") {
  const auto problem = [](const std::string& text) {
    const Root root{{"a", text}};
    return error_of([&] { free_parameters(root.path()); });
  };
  CHECK_THAT(problem("launch_factor: {value: 2, kind: fitted, fit: [3, 9], note: n}\n"),
             Catch::EndsWith("a.yaml:4:46: launch_factor.fit: does not hold the value, 2"));
  CHECK_THAT(problem("launch_factor: {value: 2, kind: fitted, fit: [0, 9], note: n}\n"),
             Catch::EndsWith("expected 0 < lowest < highest <= 1000"));
  CHECK_THAT(problem("launch_factor: {value: 2, kind: fitted, fit: [1], note: n}\n"),
             Catch::EndsWith("expected [lowest, highest]"));
  const Root root{
      {"a", "launch_factor: {value: 2, kind: fitted, fit: [1, 9], shared: s, note: n}\n"},
      {"b", "launch_factor: {value: 3, kind: fitted, fit: [1, 9], shared: s, note: n}\n"}};
  CHECK_THAT(error_of([&] { free_parameters(root.path()); }),
             Catch::Contains("which has another value or range"));
  CHECK_THAT(
      error_of([] {
        read_software_profile(YamlNode::parse(
            kHead + "launch_factor: {value: 2, kind: measured, fit: [1, 3], note: n}\n", "a.yaml"));
      }),
      Catch::EndsWith("only an entry of kind fitted has this"));
}

TEST_CASE("more than 30 free parameters are refused") {
  // Four profiles of nine numbers.
  std::string text;
  for (const SoftwareNumber& number : kSoftwareNumbers) {
    text += std::string(number.name) + ": {value: 1, kind: fitted, fit: [0.1, 1" +
            (number.most > 1 ? ".5" : "") + "], note: n}\n";
  }
  const auto files = (kMostFreeParameters / kSoftwareNumbers.size()) + 1;
  ScratchFolder folder;
  std::filesystem::create_directories(folder / "calibrate/software");
  for (std::size_t i = 0; i < files; ++i) {
    write_text(folder / ("calibrate/software/p" + std::to_string(i) + ".yaml"), kHead + text);
  }
  CHECK_THAT(error_of([&] { free_parameters(folder.path()); }),
             Catch::Contains("free parameter 31 of the software profiles; 30 are allowed"));
}

TEST_CASE("values are replaced where they stand, everything else stays") {
  const Root root{{"a",
                   "launch_factor: {value: 2, kind: fitted, note: \"\xC2\xB5s, two\"}   # why\n"
                   "gradient_traffic: {note: \"\xC2\xB5\", kind: fitted, value: 10}\n"}};
  const auto parameters = free_parameters(root.path());
  REQUIRE(parameters.size() == 2);
  const std::string path = root.path() + "/calibrate/software/a.yaml";
  const std::string text = read_text(path);
  CHECK(with_values(text, "a", parameters, {2, 10}) == text);
  CHECK(with_values(text, "b", parameters, {3, 11}) == text);
  CHECK(with_values(text, "a", parameters, {2.345, 11}) ==
        kHead +
            "launch_factor: {value: 2.345, kind: fitted, note: \"\xC2\xB5s, two\"}   # why\n"
            "gradient_traffic: {note: \"\xC2\xB5\", kind: fitted, value: 11}\n");
  CHECK(rounded_value(3.14159) == 3.142);
}

}  // namespace trainyard::free_parameters_test
