#include "tests/support/laws.h"

#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <utility>

#include "engine/program/program_text.h"
#include "study/study_writer.h"
#include "tests/support/studies.h"
#include "tests/support/study_outcome.h"

namespace trainyard {

namespace {

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

bool is_close(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

class Laws {
 public:
  Laws(const std::string& yaml, const LawsAsked& asked) : yaml_(yaml), asked_(asked) {}

  LawsHeld check() {
    const Outcome analytic = run("analytic");
    plausible("analytic", analytic);
    if (!analytic.simulation) return out_;
    out_.timed = true;
    const Simulation& a = *analytic.simulation;
    reused(a);
    std::vector<std::string> fidelities = {"fluid"};
    if (asked_.step) fidelities.push_back("step");
    for (const std::string& fidelity : fidelities) {
      const Outcome outcome = run(fidelity);
      plausible(fidelity, outcome);
      if (!outcome.simulation) continue;
      const Simulation& b = *outcome.simulation;
      busy(fidelity, b);
      against_analytic(fidelity, a, b);
      memory(fidelity, a, b);
      if (asked_.capacities) capacities(fidelity, b);
      if (fidelity == "fluid") {
        rows(b);
        folded(b);
      }
    }
    if (asked_.texts) texts(analytic);
    return out_;
  }

 private:
  void broken(const std::string& text) { out_.broken.push_back(text); }

  Outcome run(const std::string& fidelity, const RunOptions& options = {},
              const std::function<void(Study&)>& change = {}) const {
    return run_study(yaml_, {"fidelity=" + fidelity}, options, "study.yaml", change);
  }

  void plausible(const std::string& fidelity, const Outcome& outcome) {
    const std::string problem = find_implausible(outcome);
    if (!problem.empty()) broken("plausible: " + fidelity + ": " + problem);
  }

  void busy(const std::string& fidelity, const Simulation& of) {
    if (!of.trace.steady || yaml_.find("framework: nemo") != std::string::npos) return;
    ++out_.comparisons;
    for (const LinkLoad& link : of.summary.links) {
      if (link.busy_fraction <= 1 + 1e-9) continue;
      return broken("busy: " + fidelity + ": " + link.name + " carries " + number(link.bytes) +
                    " B, " + number(link.busy_fraction) + " of what it can");
    }
  }

  void against_analytic(const std::string& fidelity, const Simulation& a, const Simulation& b) {
    ++out_.comparisons;
    std::vector<std::string> found = below_analytic(fidelity, a, b);
    // Ranks near the root of a tree have its sum before the last one, which closed forms wait for.
    if (!found.empty() && fidelity == "step") {
      const Outcome closed = run_in_rings("analytic"), of_messages = run_in_rings(fidelity);
      if (closed.simulation && of_messages.simulation)
        found = below_analytic(fidelity, *closed.simulation, *of_messages.simulation);
    }
    for (const std::string& text : found) broken(text);
  }

  Outcome run_in_rings(const std::string& fidelity) const {
    return run_study(yaml_, {"fidelity=" + fidelity, "cluster.collectives={all_reduce: ring}"});
  }

  static std::vector<std::string> below_analytic(const std::string& fidelity, const Simulation& a,
                                                 const Simulation& b) {
    std::vector<std::string> out;
    const double slack = contention_slack(a.summary);
    bool shared = false;
    for (const LinkLoad& link : b.summary.links) shared = shared || link.shared > 0;
    const auto no_less = [&](const std::string& what, Seconds alone, Seconds with) {
      if (with >= alone * (1 - slack)) return;
      out.push_back("contention: " + fidelity + " " + number(with) + ", analytic " + number(alone) +
                    ", " + what);
    };
    if (a.trace.steady && b.trace.steady) {
      const Seconds alone = a.summary.iteration_time, with = b.summary.iteration_time;
      no_less("the step", alone, with);
      if (!shared && with > alone * (1 + 1e-9))
        out.push_back("alone: " + fidelity + " " + number(with) + ", analytic " + number(alone));
    }
    // Steps that have not settled may begin late and then be shorter.
    const std::vector<Seconds>&ends = a.trace.step_ends, &others = b.trace.step_ends;
    for (std::size_t step = 0; step < std::min(ends.size(), others.size()); ++step)
      no_less("to the end of step " + std::to_string(step), ends[step], others[step]);
    return out;
  }

  void memory(const std::string& fidelity, const Simulation& a, const Simulation& b) {
    ++out_.comparisons;
    if (a.summary.peak_memory.size() != b.summary.peak_memory.size())
      return broken("memory: " + fidelity + " has other ranks");
    for (std::size_t rank = 0; rank < a.summary.peak_memory.size(); ++rank) {
      if (a.summary.peak_memory[rank].total == b.summary.peak_memory[rank].total) continue;
      return broken("memory: " + fidelity + ": the peak of rank " + std::to_string(rank) +
                    " is another than analytic's");
    }
  }

  void rows(const Simulation& of) {
    ++out_.comparisons;
    RunOptions options;
    options.record_rows = true;
    const Outcome with = run("fluid", options);
    if (with.simulation->summary.iteration_time != of.summary.iteration_time) {
      broken("rows: " + number(of.summary.iteration_time) + ", with rows " +
             number(with.simulation->summary.iteration_time));
    }
  }

  void folded(const Simulation& of) {
    if (!asked_.unfolded || of.summary.num_ranks > 64) return;
    ++out_.comparisons;
    RunOptions options;
    options.fold = false;
    const double whole = run("fluid", options).simulation->summary.iteration_time;
    if (!is_close(whole, of.summary.iteration_time)) {
      broken("folded: " + number(of.summary.iteration_time) + ", unfolded " + number(whole));
    }
  }

  void reused(const Simulation& of) {
    if (!asked_.unfolded || of.summary.num_ranks > 64) return;
    ++out_.comparisons;
    RunOptions options;
    options.reuse = false;
    const double each = run("analytic", options).simulation->summary.iteration_time;
    if (!is_close(each, of.summary.iteration_time)) {
      broken("reused: " + number(of.summary.iteration_time) + ", op by op " + number(each));
    }
  }

  void capacities(const std::string& fidelity, const Simulation& of) {
    const std::pair<const char*, BytesPerSecond& (*)(Cluster&)> all[] = {
        {"intra", [](Cluster& c) -> BytesPerSecond& { return c.intra.bandwidth; }},
        {"inter", [](Cluster& c) -> BytesPerSecond& { return c.inter.bandwidth; }},
        {"host memory", [](Cluster& c) -> BytesPerSecond& { return c.host.memory; }},
        {"socket link", [](Cluster& c) -> BytesPerSecond& { return c.host.link; }},
        {"PCIe uplink", [](Cluster& c) -> BytesPerSecond& { return c.pcie.uplink; }},
        {"fabric link", [](Cluster& c) -> BytesPerSecond& { return c.fabric.link; }},
        {"global link", [](Cluster& c) -> BytesPerSecond& { return c.fabric.global_link; }}};
    for (const auto& [name, of_cluster] : all) {
      bool there = false;
      const Outcome faster = run(fidelity, {}, [&there, of = of_cluster](Study& study) {
        BytesPerSecond& bandwidth = of(study.cluster);
        there = bandwidth > 0;
        bandwidth *= 2;
      });
      // Stage-aware recompute and searched orders are found for the times that there are.
      if (!there || !faster.simulation ||
          faster.simulation->summary.program_digest != of.summary.program_digest)
        continue;
      ++out_.comparisons;
      const double before = of.summary.iteration_time,
                   after = faster.simulation->summary.iteration_time;
      if (after > before * (1 + kLonger)) {
        broken("capacity: " + fidelity + " " + number(before) + ", with twice the " + name + " " +
               number(after));
      }
    }
  }

  void texts(const Outcome& of) {
    ++out_.comparisons;
    const Summary& s = of.simulation->summary;
    const Outcome again = run_study(resolved_study_text(*of.study), {}, {}, "study.resolved.yaml");
    if (!again.simulation) {
      broken("texts: study.resolved.yaml is refused: " + again.reason);
    } else if (again.simulation->summary.iteration_time != s.iteration_time ||
               again.simulation->summary.program_digest != s.program_digest) {
      broken("texts: study.resolved.yaml takes " +
             number(again.simulation->summary.iteration_time) + ", the study " +
             number(s.iteration_time));
    }
    const std::string text = to_text(of.simulation->program);
    const Program back = parse_program(text, "program.txt");
    if (to_text(back) != text || program_digest(back) != s.program_digest)
      broken("texts: program.txt reads back to another Program");
  }

  const std::string& yaml_;
  const LawsAsked& asked_;
  LawsHeld out_;
};

}  // namespace

LawsHeld check_laws(const std::string& yaml, const LawsAsked& asked) {
  return Laws(yaml, asked).check();
}

}  // namespace trainyard
