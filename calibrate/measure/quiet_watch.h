// Watches the load of a machine while samples are taken: which of them count, and when to go on.
#pragma once

#include <functional>

#include "calibrate/measure/machine_load.h"

namespace trainyard {

class QuietWatch {
 public:
  /// Figures of load count in ticks of 10 ms: over shorter spans they say little.
  static constexpr Seconds kWindow = 0.5;

  explicit QuietWatch(LoadSource source) : source_(std::move(source)), meter_(source_) {}

  void begin() { meter_.begin(); }
  Seconds elapsed() const { return meter_.elapsed(); }
  /// What was measured since begin() counts: the machine was quiet, or does not say. The load goes
  /// to one of the tallies, with one sample.
  bool was_quiet(LoadTally& kept, LoadTally& set_aside);
  /// Waits until a window has passed since begin(): for samples that are shorter.
  void fill_window();

  /// Waits until the machine is quiet for a window, or does not say; false: it was not by `end`, or
  /// `stop` said so. The time under load goes to `set_aside`.
  bool wait(Seconds end, LoadTally& set_aside, const std::function<bool()>& stop = {});

  Seconds now() const { return source_.now(); }

 private:
  LoadSource source_;
  LoadMeter meter_;
};

}  // namespace trainyard
