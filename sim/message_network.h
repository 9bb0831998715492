// Messages of a Program as flows on the links of a cluster, in two ways.
//
// Fluid: a phase of a collective (a whole ring) is ONE flow over all links of its edges, so that it
// advances at its slowest edge; transfers are one flow each. A channel class counts on each link as
// often as it has channels there. Step: every message of the algorithm is a flow of its own; a rank
// goes on to its next step when its messages of this one, out and in, have ended. An all-to-all
// that sends to all at once is one flow here, too.
//
// Alone, a message takes the time that MessageTimes says; its work for its links is its bytes, of
// which a link does as many per second as all messages on it reach together (Network::reached()).
// So a message that something else than its links holds up leaves them to others, and none of them
// carries more than it can.
#pragma once

#include <deque>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "engine/exec/channels/contention.h"
#include "engine/exec/loop/program_run.h"
#include "sim/flow_network.h"

namespace trainyard {

class MessageNetwork : public Interconnect {
 public:
  /// `everything_shared` as FlowNetwork. All arguments must outlive the object. Step needs an
  /// unfolded plan.
  MessageNetwork(const RunPlan& plan, const Network& network, const Contention& contention,
                 bool step, bool everything_shared);

  void run(const std::function<void()>& body) { flows_->run(body); }

  void start(std::int32_t call, ChannelId channel, MessageId message, Seconds at) override;
  void next(std::vector<Ending>& endings, Seconds until) override;
  void slow(std::int32_t call, double factor) override {
    flows_->slow(static_cast<std::uint32_t>(call), factor);
  }
  void end_step() override;

  /// Seconds of the last step in which several flows were on the link at once.
  const Indexed<LinkClassId, Seconds>& shared() const { return shared_; }
  std::int64_t num_events() const { return flows_->num_events(); }

 private:
  /// Edges that are active together, with what they pass.
  struct StepEdges {
    struct Edge {
      GroupEdge ends;
      std::vector<ChannelUse> uses;
      std::int64_t unit = 1;
    };
    std::vector<Indexed<std::int32_t, Edge>> rounds;  // one, or one per step of a shift
    std::vector<Indexed<std::int32_t, std::vector<std::int32_t>>>
        of_member;  // [round][member]: edges, out or in
  };
  struct Phase {
    std::int64_t steps = 1;
    std::vector<Indexed<std::int32_t, Flow>> flows;  // fluid: one; step: [round][edge]
    const StepEdges* edges = nullptr;                // step
  };
  struct Course {  // of one message on one channel
    std::vector<Phase> phases;
  };
  struct Member {
    std::int64_t round = -1;  // over all phases
    std::int32_t pending = 0;
  };
  struct Call {
    const Course* course = nullptr;
    std::size_t phase = 0;  // fluid
    ChannelId channel = kNoIndex;
    Indexed<std::int32_t, Member> members;  // step
  };

  void add_course(ChannelId channel, MessageId message);
  Phase fluid_phase(ChannelId channel, const CollectivePhase& phase);
  Phase step_phase(ChannelId channel, const CollectivePhase& phase);
  const StepEdges& step_edges(ChannelId channel, const CollectivePhase& phase);
  const Indexed<std::int32_t, std::int64_t>& devices(ChannelId channel);
  Flow make_flow(Seconds latency, Seconds transfer, double bytes,
                 const std::vector<ChannelUse>& uses);
  std::int32_t pace(double rate);
  double seconds(const ChannelUse& use) const;  // per byte in the unit of the use, of one message
  void enter_round(std::int32_t call, std::int32_t member, Seconds at,
                   std::vector<Ending>& endings);
  void end_message(std::int32_t call, std::int32_t from, Seconds at, std::vector<Ending>& endings);
  /// Phase and its round (step of it) that `round` over all phases is.
  static std::pair<const Phase*, std::size_t> phase_at(const Course& course, std::int64_t round);

  const RunPlan& plan_;
  const Network& network_;
  const Contention& contention_;
  bool step_;
  Indexed<LinkClassId, std::int64_t> divisors_;  // of all loads on it
  Indexed<LinkClassId, BytesPerSecond> capacities_;
  std::unique_ptr<FlowNetwork> flows_;
  std::unordered_map<std::size_t, Course> courses_;  // by MessageTimes::index()
  std::map<std::tuple<ChannelId, EdgeShape, std::int64_t>, StepEdges> edges_;
  std::map<ChannelId, Indexed<std::int32_t, std::int64_t>> devices_;
  Indexed<std::int32_t, Call> calls_;
  std::vector<FlowNetwork::Ended> ended_;
  std::vector<Ending> waiting_;  // ended while starting
  Indexed<LinkClassId, Seconds> shared_before_, shared_;
  std::vector<double> paces_;  // until the flows have them
  std::map<double, std::int32_t> number_of_pace_;
};

}  // namespace trainyard
