// The numbers of software profiles that `trainyard calibrate --fit` may change: those of kind
// `fitted`.
//
//   launch_factor: {value: 3.5, kind: fitted, fit: [1, 10], shared: launch, note: "..."}
//
// fit         lowest and highest value, both more than 0, and a prior (app/fit_profiles.h); default
// a fifth and five
//             times the value
// shared      a name: entries of the same number with the same name, in several profiles, are one
//             parameter and have one value
// one_source  true: the value rests on rows of one source alone (calibrate --fit finds out too)
#pragma once

#include <string>
#include <vector>

#include "engine/cost/software_profile.h"
#include "study/yaml_reader.h"

namespace trainyard {

inline constexpr std::size_t kMostFreeParameters = 30;

struct FitRange {
  double low = 0;
  double high = 0;
  bool one_source = false;
  std::string shared;  // "": of this profile alone
};

/// The fit keys of one entry, whose number is `value` and may be `most`. Entries of other kinds
/// than `fitted` have none. Throws ConfigError.
FitRange read_fit_range(const YamlNode& entry, double value, double most);

/// Where a parameter's value stands in a file.
struct ParameterPlace {
  std::string profile;  // the file's name without .yaml: profile_key()
  std::string path;
  SourcePos pos;     // of the value
  std::string text;  // the value as written
};

struct FreeParameter {
  std::string name;  // "megatron-lm-2021.launch_factor", or of shared ones "launch.launch_factor"
  SoftwareNumber number{};
  double value = 0;
  FitRange range;
  std::string note;  // of the first place
  std::vector<ParameterPlace> places;
};

/// The file's name of a profile: "megatron-lm-2021", "nemo".
std::string profile_key(const SoftwareProfile& profile);

/// Parameters of all profiles in `root`/calibrate/software, in the order of files and numbers.
/// Throws ConfigError for more than kMostFreeParameters, and for shared entries that differ in
/// value or range.
std::vector<FreeParameter> free_parameters(const std::string& root);

/// To four digits, which are more than a fit on whole runs knows.
double rounded_value(double value);

/// The text of a profile's file with the values of its parameters replaced, everything else as it
/// was. Requires `text` to be the file that `parameters` were read from; `values`: one for each
/// parameter.
std::string with_values(const std::string& text, const std::string& profile,
                        const std::vector<FreeParameter>& parameters,
                        const std::vector<double>& values);

}  // namespace trainyard
