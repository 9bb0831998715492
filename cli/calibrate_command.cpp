// `trainyard calibrate --fit`: the free numbers of the software profiles, from published runs.
#include <cstdio>

#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/fit_profiles.h"
#include "engine/base/error.h"

namespace trainyard {

int run_calibrate(const CalibrateOptions& options) {
  if (options.fit.empty()) {
    throw ConfigError(
        "measuring this machine is not in this version; calibrate --fit CASES.yaml fits software "
        "profiles to "
        "published runs");
  }
  if (options.leave_one_out && !options.leave_out.empty()) {
    throw ConfigError(
        "--leave-out leaves out one family, --leave-one-out each in turn; write one of them");
  }
  FitProfilesOptions fit_options;
  fit_options.selections = options.selections;
  fit_options.leave_out = options.leave_out;
  fit_options.leave_one_out = options.leave_one_out;
  fit_options.jobs = options.jobs;
  const ProfileFit fit = fit_profiles(options.fit, fit_options);
  const std::string json = fit_json(fit);
  if (!options.out.empty()) {
    make_folder(options.out + "/software");
    for (const ProfileFit::File& file : fit.files)
      write_file(options.out + "/software/" + file.name, file.text);
    write_file(options.out + "/fit.json", json);
  }
  const std::string text = options.json ? json : fit_text(fit);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kDone;
}

}  // namespace trainyard
