// One ring all-reduce of 1 GB over `ranks` ranks in nodes of 8, as messages on the network: fluid
// (one flow) or step (2 (n-1) n messages). ring_all_reduce [ranks] [fluid|step] [all]: all: every
// flow through SimGrid.
#include <chrono>
#include <cstdio>
#include <string>

#include "engine/exec/channels/contention.h"
#include "engine/program/program_text.h"
#include "sim/message_network.h"

using namespace trainyard;

int main(int argc, char** argv) {
  const auto begin = std::chrono::steady_clock::now();
  const int ranks = argc > 1 ? std::stoi(argv[1]) : 1024;
  const bool step = argc > 2 && std::string(argv[2]) == "step";
  const bool all = argc > 3 && std::string(argv[3]) == "all";
  const std::string bytes = "1000000000";
  const Program program =
      parse_program("program 2\nmesh tp=" + std::to_string(ranks) +
                        "\nmicrobatches 1\ngroup tp[tp]\nvalue x uint8[" + bytes +
                        "] step activation\nvalue y uint8[" + bytes +
                        "] step activation\nsegment 0STEP() stage:0 C\n  main zero -> x\n" +
                        "  tp all_reduce:tp x -> y\n  main free x y\nclass\n  "
                        "0STEP\nplacement tp:1\n",
                    "ring");
  Costs costs;
  Cluster& cluster = costs.cluster;
  cluster.devices_per_node = 8;
  cluster.num_devices = ranks;
  cluster.num_nodes = (ranks + 7) / 8;
  cluster.intra.bandwidth = 300e9;
  cluster.inter.bandwidth = 200e9;
  cluster.intra.collective.latency = 2e-6;
  cluster.inter.collective.latency = 5e-6;
  for (const Segment& segment : program.segments) {
    auto& ops = costs.ops[1.0].emplace_back();
    for (const ProgramOp& op : segment.ops) {
      ops.emplace_back();
      if (is_communication(op.kind)) ops.back().bytes = message_bytes(program, op);
    }
  }
  RunOptions options;
  options.max_steps = 1;
  options.fold = false;
  const Network network(cluster);
  RunPlan plan = make_run_plan(program, costs, options, &network);
  const Contention contention = find_contention(plan, network);
  plan.contends.assign(plan.folds.channels.size(), true);
  make_lists(plan, costs, options);
  MessageNetwork messages(plan, network, contention, step, all);
  RunResult result;
  messages.run([&] { result = run_plan(plan, options, 0, &messages); });
  const double wall =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%d ranks, %s%s: %.12g s simulated (closed form %.12g), %lld events, %.3f s\n", ranks,
              step ? "step" : "fluid", all ? ", all in SimGrid" : "", result.trace.period,
              plan.times.of(ChannelId(0), MessageId(0)).total,
              static_cast<long long>(messages.num_events()), wall);
}
