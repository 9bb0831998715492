// Targets of the files that a run writes and another command reads back.
#pragma once

#include "bench/fuzz_target.h"

namespace trainyard {

FuzzTarget trace_target();     // trace.json, through its report
FuzzTarget summary_target();   // summary.json, through its report
FuzzTarget losses_target();    // losses.csv, through its report
FuzzTarget sweep_target();     // sweep.csv and, for seeds that turn into JSON, sweep.json
FuzzTarget measured_target();  // measured.json, through validate --run's comparison
FuzzTarget program_target();   // program.txt

}  // namespace trainyard
