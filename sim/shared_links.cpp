#include "sim/shared_links.h"

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

namespace trainyard {

namespace {

namespace sg = simgrid::s4u;
namespace routing = simgrid::kernel::routing;

/// SimGrid counts bytes in whole numbers: 2^16 to a unit of work, so that rounding costs less than 1e-15 s
/// on any link faster than 10 GB/s.
constexpr double kBytesPerWork = 65536;

/// A zone whose only route is the one that is about to be taken. Routes have no latency here: flows come
/// in when theirs is over, so that sharing does not depend on it (CM02 weighs flows by 1/latency).
class OneRouteZone : public routing::NetZoneImpl {
 public:
  explicit OneRouteZone(const std::string& name) : routing::NetZoneImpl(name) {}
  void take(std::vector<sg::Link*> links) { links_ = std::move(links); }
  void get_local_route(const routing::NetPoint*, const routing::NetPoint*, routing::Route* into, double*) override {
    for (sg::Link* link : links_) into->link_list_.push_back(link->get_impl());
  }

 private:
  std::vector<sg::Link*> links_;
};

/// CM02 without its corrections: a link carries its bandwidth, in each direction alone, whatever the
/// latency. Models may be chosen once per process. Precisions: ends less than 1e-12 s apart may merge.
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


}  // namespace

struct SharedLinks::Impl {
  struct Flow {
    Impl* owner;
    std::int32_t number;
    sg::CommPtr comm;
  };

  std::unique_ptr<sg::Engine> engine;
  OneRouteZone* zone = nullptr;
  sg::Host* host = nullptr;
  sg::Host* other = nullptr;
  std::vector<sg::Link*> links;
  double origin = 0;
  sg::ActorPtr actor;
  bool waiting = false;
  bool over = false;
  std::unordered_map<std::int32_t, std::unique_ptr<Flow>> active;
  std::vector<std::int32_t> ended;
  std::vector<std::unique_ptr<Flow>> graveyard;  // comms must outlive the callback of their end

  void on_end(Flow& flow) {
    const auto it = active.find(flow.number);
    graveyard.push_back(std::move(it->second));
    active.erase(it);
    ended.push_back(flow.number);
    wake();
  }
  void wake() {
    if (!waiting) return;
    waiting = false;
    actor->resume();
  }
};

SharedLinks::SharedLinks(const std::vector<double>& capacities) : impl_(std::make_unique<Impl>()) {
  std::array<std::string, 2> arguments = {"trainyard", "--log=root.thres:error"};
  std::array<char*, 3> argv = {arguments[0].data(), arguments[1].data(), nullptr};
  int argc = 2;
  impl_->engine = std::make_unique<sg::Engine>(&argc, argv.data());
  configure_once();
  static bool connected = false;
  if (!connected) {
    connected = true;
    sg::Activity::on_completion_cb([](const sg::Activity& activity) {
      auto* comm = dynamic_cast<const sg::Comm*>(&activity);
      if (comm == nullptr) return;
      auto* flow = const_cast<sg::Comm*>(comm)->get_data<Impl::Flow>();
      if (flow != nullptr) flow->owner->on_end(*flow);
    });
  }
  impl_->zone = new OneRouteZone("network");  // owned by the engine
  sg::NetZone* zone = impl_->zone->get_iface();
  impl_->host = zone->create_host("from", 1e12)->seal();
  impl_->other = zone->create_host("to", 1e12)->seal();
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    impl_->links.push_back(zone->create_link("l" + std::to_string(i), capacities[i] * kBytesPerWork)->seal());
  }
  zone->seal();
  impl_->origin = sg::Engine::get_clock();
}

SharedLinks::~SharedLinks() = default;

void SharedLinks::run(const std::function<void()>& body) {
  std::exception_ptr failure;
  impl_->actor = sg::Actor::create("clock", impl_->host, [&] {
    try {
      body();
    } catch (const simgrid::ForcefulKillException&) {
      throw;  // SimGrid unwinds the actor: the other activities have come to a dead end
    } catch (...) {
      failure = std::current_exception();
    }
    impl_->over = true;
    // What is under way need not be waited for.
    for (auto& [number, flow] : impl_->active) flow->comm->set_data(nullptr);
  });
  try {
    impl_->engine->run();
  } catch (const simgrid::Exception& refused) {
    throw BackendError(std::string("SimGrid: ") + refused.what());
  }
  impl_->actor = nullptr;
  impl_->active.clear();
  impl_->graveyard.clear();
  if (failure) std::rethrow_exception(failure);
  check(impl_->over, "SimGrid has nothing left to do, but the run is not over");
}

Seconds SharedLinks::now() const { return sg::Engine::get_clock() - impl_->origin; }

std::size_t SharedLinks::num_active() const { return impl_->active.size(); }

void SharedLinks::start(std::int32_t flow, double work, const std::vector<SharedLinkUse>& links) {
  check(work > 0 && !links.empty(), "a flow has work to do and a link to do it on");
  std::vector<sg::Link*> route;
  for (const SharedLinkUse& use : links) {
    route.insert(route.end(), static_cast<std::size_t>(use.times), impl_->links[static_cast<std::size_t>(use.link)]);
  }
  impl_->zone->take(std::move(route));
  auto entry = std::make_unique<Impl::Flow>(Impl::Flow{impl_.get(), flow, nullptr});
  // In kernel mode: of an activity that an actor starts nobody hears when it ends, unless the actor waits.
  simgrid::kernel::actor::simcall_answered([&] {
    sg::CommPtr comm = sg::Comm::sendto_init();
    comm->set_data(entry.get());
    comm->set_payload_size(static_cast<std::uint64_t>(std::max(1.0, std::round(work * kBytesPerWork))));
    comm->set_source(impl_->host);
    entry->comm = comm;
    impl_->active.emplace(flow, std::move(entry));
    comm->set_destination(impl_->other);  // starts it
  });
}

void SharedLinks::wait(Seconds until, std::vector<std::int32_t>& ended) {
  Impl& impl = *impl_;
  impl.graveyard.clear();
  if (impl.ended.empty() && now() < until) {
    simgrid::kernel::timer::Timer* timer = nullptr;
    bool rang = false;
    if (std::isfinite(until)) {
      timer = simgrid::kernel::timer::Timer::set(impl.origin + until, [&impl, &rang] {
        rang = true;
        impl.wake();
      });
    }
    impl.waiting = true;
    sg::this_actor::suspend();
    if (timer != nullptr && !rang) timer->remove();
  }
  ended.insert(ended.end(), impl.ended.begin(), impl.ended.end());
  impl.ended.clear();
}

}  // namespace trainyard
