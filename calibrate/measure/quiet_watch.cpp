#include "calibrate/measure/quiet_watch.h"

namespace trainyard {

bool QuietWatch::was_quiet(LoadTally& kept, LoadTally& set_aside) {
  const Seconds span = meter_.elapsed();
  const auto load = meter_.end();
  if (!load) return true;
  LoadTally& tally = load->quiet() ? kept : set_aside;
  tally.add(span, *load);
  ++tally.samples;
  return load->quiet();
}

void QuietWatch::fill_window() {
  if (elapsed() < kWindow) source_.sleep(kWindow - elapsed());
}

bool QuietWatch::wait(Seconds end, LoadTally& set_aside, const std::function<bool()>& stop) {
  while (source_.now() < end) {
    if (stop && stop()) return false;
    meter_.begin();
    source_.sleep(kWindow);
    const Seconds span = meter_.elapsed();
    const auto load = meter_.end();
    if (!load || load->quiet()) return true;
    set_aside.add(span, *load);
  }
  return false;
}

}  // namespace trainyard
