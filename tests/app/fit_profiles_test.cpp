// The fit from profiles and cases to profiles: measurements that were made with known values give
// these values back, and what one source alone says is not counted as held out.
#include "app/fit_profiles.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "app/select_cases.h"
#include "app/validate_command.h"
#include "engine/base/error.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/source_root.h"

namespace trainyard::fit_profiles_test {

namespace {

namespace fs = std::filesystem;

/// Profiles of devices and links and the error of memory as they ship, one software profile `made`;
/// data_root() while it lives.
class MadeRoot {
 public:
  MadeRoot() {
    fs::create_directories(folder_ / "calibrate/software");
    for (const char* part : {"profiles", "links", "memory_error.yaml"}) {
      fs::copy(source_root() + "/calibrate/" + part, folder_ / ("calibrate/" + std::string(part)),
               fs::copy_options::recursive);
    }
    setenv("TRAINYARD_ROOT", folder_.path().c_str(), 1);
  }
  ~MadeRoot() { unsetenv("TRAINYARD_ROOT"); }
  MadeRoot(const MadeRoot&) = delete;
  MadeRoot& operator=(const MadeRoot&) = delete;

  void write_profile(double memory_bound_factor, double product_factor, double context_gib) const {
    const auto entry = [](const char* name, double value) {
      return std::string(name) + ": {value: " + std::to_string(value) +
             ", kind: fitted, fit: [0.5, 8], note: made}\n";
    };
    write_text(folder_ / "calibrate/software/made.yaml",
               "name: made\ndescription: made up\nbasis: {kind: derived, note: made up}\n" +
                   entry("memory_bound_factor", memory_bound_factor) +
                   entry("product_factor", product_factor) + entry("context_gib", context_gib));
  }
  std::string operator/(const std::string& name) const { return folder_ / name; }

 private:
  ScratchFolder folder_;
};

struct MadeCase {
  const char* id;
  const char* source;
  int hidden, tensor, microbatch;
  bool memory;
};
constexpr MadeCase kCases[] = {
    {"a1", "paper row 1", 1024, 1, 4, false}, {"a2", "paper row 2", 4096, 2, 2, false},
    {"a3", "paper row 3", 2048, 1, 8, false}, {"b1", "page line 1", 1024, 2, 8, true},
    {"b2", "page line 2", 4096, 1, 1, true},  {"b3", "page line 3", 2048, 2, 4, true}};

/// The cases, with `measured` from the predictions of `with`, or 1 where there are none.
std::string cases_text(const Validation* with) {
  std::string text;
  for (std::size_t i = 0; i < std::size(kCases); ++i) {
    const MadeCase& one = kCases[i];
    const Prediction* p = with == nullptr ? nullptr : &with->outcomes[i].prediction;
    const auto figure = [](double value) {
      char buffer[40];
      std::snprintf(buffer, sizeof buffer, "%.17g", value);
      return std::string(buffer);
    };
    text +=
        std::string("- id: ") + one.id + "\n  source: " + one.source +
        "\n  framework: made\n"
        "  model: {family: gpt, layers: 4, hidden: " +
        std::to_string(one.hidden) +
        ", heads: 16, vocab: 4096, seq_len: 512}\n"
        "  cluster: {gpu: a100-sxm-80g, gpus: 2, gpus_per_node: 8, intra: nvswitch, "
        "intra_gb_per_s: 300, inter: none}\n"
        "  parallel: {tensor: " +
        std::to_string(one.tensor) +
        "}\n"
        "  training: {global_batch: 16, microbatch: " +
        std::to_string(one.microbatch) +
        ", precision: bf16}\n"
        "  measured: {iteration_time_s: " +
        figure(p == nullptr ? 1 : p->iteration_time) +
        (one.memory ? ", peak_memory_gib: " + figure(p == nullptr ? 1 : p->peak_memory_gib) : "") +
        "}\n";
  }
  return text;
}

}  // namespace

TEST_CASE("measurements made with known values give them back, in one process and in several") {
  const MadeRoot root;
  const std::string path = root / "cases.yaml";
  root.write_profile(2, 1.25, 3);
  write_text(path, cases_text(nullptr));
  const Validation made = validate_cases(path, {}, 2);
  write_text(path, cases_text(&made));

  root.write_profile(1.2, 1, 1);
  FitProfilesOptions options;
  options.selections = {"framework=made"};
  options.leave_one_out = true;
  options.jobs = 2;
  const ProfileFit fit = fit_profiles(path, options);
  REQUIRE(fit.parameters.size() == 3);
  CHECK(fit.parameters[0].parameter.name == "made.product_factor");
  // The ranges, as priors, pull a little: residuals of 7 % against a quarter of a wide range.
  CHECK(fit.parameters[0].value == Approx(1.25).epsilon(0.02));
  CHECK(fit.parameters[1].value == Approx(2).epsilon(0.02));
  CHECK(fit.parameters[2].value == Approx(3).epsilon(0.02));
  CHECK(fit.before.mean_abs > 3);
  CHECK(fit.after.mean_abs < 0.5);
  CHECK(fit.after.n == 6);
  CHECK(fit.memory_after.mean_abs < 0.5);

  // Only the page has memory: no held-out row can say anything of the context.
  CHECK(fit.parameters[0].only_family.empty());
  CHECK(fit.parameters[0].families == 2);
  CHECK(fit.parameters[2].only_family == "page");
  REQUIRE(fit.families.size() == 2);
  REQUIRE(fit.held_out);
  CHECK(fit.held_out->n == 6);
  CHECK(fit.held_out->mean_abs < 1);
  REQUIRE(fit.families[1].memory_held_out);
  CHECK(fit.families[1].memory_held_out->n == 0);
  CHECK(fit.families[1].own_rows == 0);  // their times are held out all the same

  // The written profile is the one that was fitted, and nothing else in it has changed.
  REQUIRE(fit.files.size() == 1);
  CHECK(fit.files[0].name == "made.yaml");
  write_text(root / "calibrate/software/made.yaml", fit.files[0].text);
  CHECK(validate_cases(path, {}, 2).time.all.stats.mean_abs ==
        Approx(fit.after.mean_abs).margin(1e-9));

  root.write_profile(1.2, 1, 1);
  options.jobs = 1;
  CHECK(fit_json(fit_profiles(path, options)) == fit_json(fit));
}

TEST_CASE("validate says what the numbers of profiles rest on, whatever the processes") {
  const MadeRoot root;
  const std::string path = root / "cases.yaml";
  root.write_profile(2, 1.25, 3);
  write_text(path, cases_text(nullptr));
  const Validation made = validate_cases(path, {}, 2);
  CHECK_FALSE(made.sensitivity);
  write_text(path, cases_text(&made));

  // Products at 1.1 times what they were made with: one step goes most of the way back.
  root.write_profile(2, 1.375, 3);
  const Validation off = validate_cases(path, {}, 2, {}, true);
  REQUIRE(off.sensitivity);
  REQUIRE(off.sensitivity->numbers.size() == 3);
  const NumberSensitivity& product = off.sensitivity->numbers[0];
  CHECK(product.number.name == "made.product_factor");
  CHECK(product.held.size() == 6);  // step times; no memory depends on it
  CHECK(product.refitted == Approx(1.25).epsilon(0.02));
  REQUIRE(product.families.size() == 2);
  CHECK(product.families[0].share + product.families[1].share == Approx(1));
  // Three rows alone hold it less against what is believed before, the middle of its range.
  for (const auto& family : product.families) CHECK(family.without == Approx(1.25).epsilon(0.03));
  // The context is in the page's memory alone.
  const NumberSensitivity& context = off.sensitivity->numbers[2];
  REQUIRE(context.families.size() == 1);
  CHECK(context.families[0].family == "page");
  CHECK(context.families[0].held_alone);
  CHECK(validation_json(validate_cases(path, {}, 1, {}, true)) == validation_json(off));
}

TEST_CASE("a family that is left out is predicted only") {
  const MadeRoot root;
  const std::string path = root / "cases.yaml";
  root.write_profile(2, 1, 3);
  write_text(path, cases_text(nullptr));
  const Validation made = validate_cases(path, {}, 2);
  write_text(path, cases_text(&made));
  FitProfilesOptions options;
  options.selections = {"framework=made"};
  options.leave_out = "page";
  options.jobs = 2;
  const ProfileFit fit = fit_profiles(path, options);
  CHECK(fit.after.n == 3);
  REQUIRE(fit.held_out);
  CHECK(fit.held_out->n == 3);
  CHECK(fit.parameters[2].rows == 0);
  CHECK(fit.parameters[2].value == 3);  // nothing says otherwise
  REQUIRE(fit.memory_held_out);
  CHECK(fit.memory_held_out->n ==
        0);  // the context that the page's memory depends on has seen the page
  options.leave_out = "leaflet";
  CHECK_THROWS_WITH(fit_profiles(path, options),
                    "--leave-out: no row is of the family 'leaflet'; there are 'paper' and 'page'");
  // Which cases are fitted by default nobody has asked for.
  options.selections.clear();
  CHECK_THROWS_WITH(
      fit_profiles(path, options),
      "--select framework=megatron-lm,megatron-deepspeed,nemo: no case says so; there are made "
      "(what is fitted where no --select says other cases)");
}

TEST_CASE("selections compare the case's own words") {
  const auto cases = [] {
    return read_cases(
        YamlNode::parse("- {id: a, framework: nemo, training: {precision: fp8}, measured: {}}\n"
                        "- {id: b, framework: nemo, training: {precision: bf16}, measured: {}}\n"
                        "- {id: c, framework: null, measured: {}}\n",
                        "cases.yaml"));
  };
  const auto ids = [&](const std::vector<std::string>& selections) {
    std::string out;
    for (const PublishedCase& one : select_cases(cases(), selections)) out += one.facts.id;
    return out;
  };
  CHECK(ids({}) == "abc");
  CHECK(ids({"framework=nemo"}) == "ab");
  CHECK(ids({"framework=nemo", "training.precision=bf16,fp16"}) == "b");
  CHECK(ids({"training.precision=null"}) == "c");
  CHECK_THROWS_WITH(ids({"framework"}), Catch::Contains("expected path=value"));
  // What leaves no case is said with what there is, and what was meant.
  CHECK_THROWS_WITH(ids({"framework=merak"}),
                    "--select framework=merak: no case says so; there are nemo and null");
  CHECK_THROWS_WITH(ids({"framework=nmo,Nemo"}),
                    "--select framework=nmo,Nemo: no case says so (did you mean nemo?); there are "
                    "nemo and null");
  CHECK_THROWS_WITH(ids({"framework=null", "training.precision=bf16"}),
                    "--select training.precision=bf16: no case that is left has this key");
  CHECK_THROWS_WITH(ids({"framework=nemo", "training.precision=fp16"}),
                    "--select training.precision=fp16: no case that is left says so; there are "
                    "fp8 and bf16");
  CHECK_THROWS_WITH(ids({"framwork=nemo"}), "--select framwork=nemo: no case has this key");
}

TEST_CASE("the default selection takes 258 rows of the published runs that are not suspect") {
  std::size_t scored = 0;
  for (const PublishedCase& one :
       select_cases(read_cases(source_root() + "/calibrate/published/runs.yaml"), kFitSelections)) {
    scored += one.facts.suspect.empty() ? 1 : 0;
  }
  CHECK(scored == 258);
}

}  // namespace trainyard::fit_profiles_test
