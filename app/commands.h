// The commands: what each is asked, and a function that runs it and answers the exit code.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "system/exit_code.h"

namespace trainyard {

/// What the commands that take a study share.
struct StudyOptions {
  std::string study;
  std::vector<std::string> sets;
  std::string fidelity;  // "": as the study says
  std::string out;       // "": write no files
  bool overwrite = false;
  bool json = false;
  bool no_fold = false;
  std::vector<std::int64_t> trace_ranks;
  bool no_reuse = false;
  bool compare_methods = false;                 // of simulate
  bool full = false;                            // of compile: all lines of every list
  bool verify = false;                          // of compile: CompileOptions::verify
  int jobs = 0;                                 // processes; 0: one per core
  std::chrono::steady_clock::time_point begin;  // of the process
};

/// Says why a plan cannot run: report_error(). Returns kCannotRun.
int report_infeasible(const StudyOptions& options, const PlanError& error);

int run_simulate(const StudyOptions& options);
int run_compare_methods(const StudyOptions& options);  // simulate --compare-tensor-methods
int run_compile(const StudyOptions& options);
int run_sweep(const StudyOptions& options);
int run_list(const std::string& what);
std::vector<std::string> list_topics();     // what it knows
int run_report(const std::string& folder);  // of a run

struct ValidateOptions {
  std::string cases;  // a YAML list of published runs
  std::string run;    // --run: folder of a training run, instead of cases
  std::vector<std::string> sets;
  std::vector<std::string> selections;  // which cases: select_cases()
  std::string fidelity;                 // "": analytic, unless a case says another
  std::string out;
  bool overwrite = false;
  int jobs = 0;  // processes; 0: one per core
  bool json = false;
  bool sensitivity = false;  // of the fitted numbers too
};
int run_validate(const ValidateOptions& options);
int run_validate_run(const ValidateOptions& options);

struct CalibrateOptions {
  std::string fit;                   // a YAML list of published runs
  std::vector<std::string> tables;   // --nccl-tests: of timed messages
  std::vector<std::string> kernels;  // --kernels: of timed GEMMs
  std::string like, type = "bf16";   // of --kernels
  std::vector<std::string>
      selections;         // which cases; empty: kFitSelections; of --kernels: device=NAME
  std::string leave_out;  // a family of sources
  bool leave_one_out = false;
  std::string out;
  bool overwrite = false;
  int jobs = 0;
  bool json = false;
};
int run_calibrate(const CalibrateOptions& options);

struct SolveOptions {
  std::string problem;  // a YAML file
  bool json = false;
  bool help = false;
  std::string topic;  // of --help: a problem's name, or ""
};
int run_solve(const SolveOptions& options);

struct ExportOptions {
  std::string run;  // folder of a training run
  std::string out;
  bool overwrite = false;
  std::string precision = "fp32";  // of the weights in the file
};
int run_export(const ExportOptions& options);

}  // namespace trainyard
