// SharedLinks on SimGrid, as a module of its own: the only file that includes SimGrid.
#include <dlfcn.h>
#include <signal.h>

#include <array>
#include <cmath>
#include <exception>
#include <limits>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>
#include <simgrid/simix.hpp>
#include <string>
#include <unordered_map>

#include "engine/base/error.h"
#include "engine/base/indexed.h"
#include "sim/shared_links.h"

namespace trainyard {

namespace {

namespace sg = simgrid::s4u;
namespace xbt = simgrid::xbt;
namespace routing = simgrid::kernel::routing;

/// SimGrid counts bytes in whole numbers: 2^16 to a unit of work, so that rounding costs less than
/// 1e-15 s on any link faster than 10 GB/s.
constexpr double kBytesPerWork = 65536;

/// A zone whose only route is the one that is about to be taken. Routes have no latency here: flows
/// come in when theirs is over, so that sharing does not depend on it (CM02 weighs flows by
/// 1/latency).
class OneRouteZone : public routing::NetZoneImpl {
 public:
  explicit OneRouteZone(const std::string& name) : routing::NetZoneImpl(name) {}
  void take(std::vector<sg::Link*> links) { links_ = std::move(links); }
  void get_local_route(const routing::NetPoint*, const routing::NetPoint*, routing::Route* into,
                       double*) override {
    for (sg::Link* link : links_) into->link_list_.push_back(link->get_impl());
  }

 private:
  std::vector<sg::Link*> links_;
};

/// CM02 without its corrections: a link carries its bandwidth, in each direction alone, whatever
/// the latency. Models may be chosen once per process. Precisions: ends less than 1e-12 s apart may
/// merge.
void configure_once() {
  static bool done = false;
  if (done) return;
  done = true;
  sg::Engine::set_config("network/model:CM02");
  sg::Engine::set_config("network/crosstraffic:0");
  sg::Engine::set_config("network/TCP-gamma:0");
  sg::Engine::set_config("network/loopback-bw:1e15");
  sg::Engine::set_config("surf/precision:1e-12");
  sg::Engine::set_config("maxmin/precision:1e-12");
}

class SimGridLinks : public SharedLinks {
 public:
  SimGridLinks(const std::vector<double>& capacities, const std::vector<double>& paces);
  SimGridLinks(const SimGridLinks&) = delete;
  SimGridLinks& operator=(const SimGridLinks&) = delete;

  void run(const std::function<void()>& body) override;
  Seconds now() const override { return sg::Engine::get_clock(); }
  void start(std::int32_t flow, double work, std::int32_t pace,
             const std::vector<SharedLinkUse>& links) override;
  void stretch(std::int32_t flow, double factor) override;
  std::size_t num_active() const override { return active_.size(); }
  void wait(Seconds until, std::vector<std::int32_t>& ended) override;

 private:
  struct Flow {
    SimGridLinks* owner;
    std::int32_t number;
    std::int32_t pace;
    std::vector<SharedLinkUse> links;
    sg::CommPtr comm;
  };

  void on_end(Flow& flow) {
    const auto it = active_.find(flow.number);
    graveyard_.push_back(std::move(it->second));
    active_.erase(it);
    ended_.push_back(flow.number);
    wake();
  }
  void wake() {
    if (!waiting_) return;
    waiting_ = false;
    actor_->resume();
  }

  std::unique_ptr<sg::Engine> engine_;
  OneRouteZone* zone_ = nullptr;
  sg::Host* host_ = nullptr;
  sg::Host* other_ = nullptr;
  Indexed<std::int32_t, sg::Link*> links_;
  Indexed<std::int32_t, sg::Link*> paces_;
  sg::ActorPtr actor_;
  bool waiting_ = false;
  bool over_ = false;
  std::unordered_map<std::int32_t, std::unique_ptr<Flow>> active_;
  std::vector<std::int32_t> ended_;
  std::vector<std::unique_ptr<Flow>> graveyard_;  // comms must outlive the callback of their end
};

/// SimGrid's clock goes on from one Engine to the next and has no function that sets it back. Later
/// times have fewer digits, and sharing can amplify the last one, so the same run would answer
/// differently the second time. With no Engine alive nothing holds a time, and the variable itself
/// is set back, where this version has it.
void restart_clock() {
  void* now = dlsym(RTLD_DEFAULT, "_ZN7simgrid6kernel10EngineImpl4now_E");
  if (now == nullptr)
    throw BackendError("this version of SimGrid keeps its clock elsewhere; 3.32 is known to work");
  *static_cast<double*>(now) = 0;
}

/// Who hears when an activity ends. SimGrid lets one listen, but not stop listening; an explicit
/// instantiation may name what is private.
xbt::signal<void(const sg::Activity&)>& ended_activities();
template <auto* signal>
struct Listeners {
  friend xbt::signal<void(const sg::Activity&)>& ended_activities() { return *signal; }
};
template struct Listeners<&sg::Activity::on_completion>;

/// Every Engine takes SIGINT for itself, to print what actors do and exit with 1. While this lives
/// the signal waits; then it is again what it was to the program.
class KeptInterrupt {
 public:
  KeptInterrupt() {
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, &mask_);
    sigaction(SIGINT, nullptr, &action_);
  }
  ~KeptInterrupt() {
    sigaction(SIGINT, &action_, nullptr);
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  KeptInterrupt(const KeptInterrupt&) = delete;
  KeptInterrupt& operator=(const KeptInterrupt&) = delete;

 private:
  struct sigaction action_ = {};
  sigset_t mask_{};
};

SimGridLinks::SimGridLinks(const std::vector<double>& capacities,
                           const std::vector<double>& paces) {
  restart_clock();
  const KeptInterrupt ours;
  std::array<std::string, 2> arguments = {"trainyard", "--log=root.thres:error"};
  std::array<char*, 3> argv = {arguments[0].data(), arguments[1].data(), nullptr};
  int argc = 2;
  engine_ = std::make_unique<sg::Engine>(&argc, argv.data());
  configure_once();
  // Each Engine's model of virtual machines adds a listener of its own, and none is ever taken off:
  // without this every end of a flow would call as many as there were simulations before.
  ended_activities().disconnect_slots();
  ended_activities().connect([](const sg::Activity& activity) {
    auto* comm = dynamic_cast<const sg::Comm*>(&activity);
    if (comm == nullptr) return;
    auto* flow = const_cast<sg::Comm*>(comm)->get_data<Flow>();
    if (flow != nullptr) flow->owner->on_end(*flow);
  });
  zone_ = new OneRouteZone("network");  // owned by the engine
  sg::NetZone* zone = zone_->get_iface();
  host_ = zone->create_host("from", 1e12)->seal();
  other_ = zone->create_host("to", 1e12)->seal();
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    links_.push_back(
        zone->create_link("l" + std::to_string(i), capacities[i] * kBytesPerWork)->seal());
  }
  // Version 3.32 forgets a rate that is asked of a communication between hosts. A fat pipe, which
  // nobody shares with another, holds each flow that passes it to its bandwidth.
  for (std::size_t i = 0; i < paces.size(); ++i) {
    paces_.push_back(zone->create_link("p" + std::to_string(i), paces[i] * kBytesPerWork)
                         ->set_sharing_policy(sg::Link::SharingPolicy::FATPIPE)
                         ->seal());
  }
  zone->seal();
}

void SimGridLinks::run(const std::function<void()>& body) {
  std::exception_ptr failure;
  actor_ = sg::Actor::create("clock", host_, [&] {
    try {
      body();
    } catch (const simgrid::ForcefulKillException&) {
      throw;  // SimGrid unwinds the actor: the other activities have come to a dead end
    } catch (...) {
      failure = std::current_exception();
    }
    over_ = true;
    // What is under way need not be waited for.
    for (auto& [number, flow] : active_) flow->comm->set_data(nullptr);
  });
  try {
    engine_->run();
  } catch (const simgrid::Exception& refused) {
    throw BackendError(std::string("SimGrid: ") + refused.what());
  }
  actor_ = nullptr;
  active_.clear();
  graveyard_.clear();
  if (failure) std::rethrow_exception(failure);
  check(over_, "SimGrid has nothing left to do, but the run is not over");
}

void SimGridLinks::start(std::int32_t flow, double work, std::int32_t pace,
                         const std::vector<SharedLinkUse>& links) {
  check(work > 0 && !links.empty(), "a flow has work to do and a link to do it on");
  std::vector<sg::Link*> route;
  for (const SharedLinkUse& use : links) {
    route.insert(route.end(), use.times, links_[use.link]);
  }
  if (pace >= 0) route.push_back(paces_[pace]);
  zone_->take(std::move(route));
  auto entry = std::make_unique<Flow>(Flow{this, flow, pace, links, nullptr});
  // In kernel mode: of an activity that an actor starts nobody hears when it ends, unless the actor
  // waits.
  simgrid::kernel::actor::simcall_answered([&] {
    sg::CommPtr comm = sg::Comm::sendto_init();
    comm->set_data(entry.get());
    comm->set_payload_size(
        static_cast<std::uint64_t>(std::max(1.0, std::round(work * kBytesPerWork))));
    comm->set_source(host_);
    entry->comm = comm;
    active_.emplace(flow, std::move(entry));
    comm->set_destination(other_);  // starts it
  });
}

/// SimGrid cannot change what is left of a flow: it is ended, and another takes its place.
void SimGridLinks::stretch(std::int32_t flow, double factor) {
  const auto it = active_.find(flow);
  double left = 0;
  simgrid::kernel::actor::simcall_answered([&] {
    it->second->comm->set_data(nullptr);
    left = it->second->comm->get_remaining() / kBytesPerWork;
    it->second->comm->cancel();
  });
  const std::vector<SharedLinkUse> links = it->second->links;
  const std::int32_t pace = it->second->pace;
  graveyard_.push_back(std::move(it->second));
  active_.erase(it);
  start(flow, left * factor, pace, links);
}

void SimGridLinks::wait(Seconds until, std::vector<std::int32_t>& ended) {
  graveyard_.clear();
  if (ended_.empty() && now() < until) {
    simgrid::kernel::timer::Timer* timer = nullptr;
    bool rang = false;
    if (std::isfinite(until)) {
      timer = simgrid::kernel::timer::Timer::set(until, [this, &rang] {
        rang = true;
        wake();
      });
    }
    waiting_ = true;
    sg::this_actor::suspend();
    if (timer != nullptr && !rang) timer->remove();
  }
  ended.insert(ended.end(), ended_.begin(), ended_.end());
  ended_.clear();
}

}  // namespace

extern "C" SharedLinks* trainyard_make_simgrid_links(const std::vector<double>& capacities,
                                                     const std::vector<double>& paces) {
  return new SimGridLinks(capacities, paces);
}

}  // namespace trainyard
