#include "engine/exec/bodies/body_cache.h"

#include <algorithm>

namespace trainyard {

FoundBody* BodyCache::find(SegmentId id, const std::vector<TimedOp>& ops, const Microbatches& mb,
                           std::size_t k, std::size_t limit, const StreamNeeds& needs) {
  stream_ = ops[k].stream;
  const StreamPoint before_main = state_.end_of(StreamId::kMain);
  entry_.needs = needs;
  entry_.after_main = !needs[StreamId::kMain].before(before_main) && before_main.at() >= 0;
  entry_.known = state_.behind(needs, state_.clock[stream_]);
  const auto key = std::tuple(id, k, limit, entry_.after_main);
  if (const auto it = known_.find(key); it != known_.end()) {
    Known& known = it->second;
    const bool alike = (!known.refused || !fine(*known.refused, mb)) &&
                       std::all_of(known.questions.begin(), known.questions.end(),
                                   [&](const Question& q) { return fine(q, mb); });
    if (alike) {
      if (known.found.body.num_ops == 0) return nullptr;
      enter(known, mb);
      return &known.found;
    }
  }
  const StreamPoint last_free = state_.last_free;
  undo_.clear();
  std::uint32_t taken = try_ops(id, mb, k, ops, limit);
  // Where nothing refuses, or the same, a smaller limit asks the same of the ops that are left.
  const std::optional<Question> refused = trial_.refused;
  while (taken > 0 && trial_.found.body.num_ops != taken) {
    take_back();
    state_.last_free = last_free;
    taken = try_ops(id, mb, k, ops, k + taken);
  }
  trial_.refused = refused;
  if (taken == 0) {
    take_back();
    state_.last_free = last_free;
    trial_.found.body.num_ops = 0;
    trial_.questions.clear();
  }
  for (std::uint32_t j = 0; j < taken; ++j) trial_.found.launch += ops[k + j].launch;
  auto& questions = trial_.questions;
  std::sort(questions.begin(), questions.end(),
            [](const Question& a, const Question& b) { return a.key() < b.key(); });
  questions.erase(
      std::unique(questions.begin(), questions.end(),
                  [](const Question& a, const Question& b) { return a.key() == b.key(); }),
      questions.end());
  auto& accesses =
      trial_.accesses;  // ascending op among those to the same storage: the last one counts
  std::sort(accesses.begin(), accesses.end());
  const auto same = [](const Access& a, const Access& b) {
    return std::tuple(a.slot, a.microbatch, a.writes, a.on_main) ==
           std::tuple(b.slot, b.microbatch, b.writes, b.on_main);
  };
  accesses.erase(accesses.begin(), std::unique(accesses.rbegin(), accesses.rend(), same).base());
  Known& known = known_.insert_or_assign(key, std::move(trial_)).first->second;
  return taken == 0 ? nullptr : &known.found;
}

bool BodyCache::begins_with_main(const std::vector<TimedOp>& ops, std::size_t k, std::size_t limit,
                                 const StreamNeeds& needs) const {
  const StreamPoint main = state_.end_of(StreamId::kMain);
  const StreamId other = ops[k].stream;
  if (main.at() < 0 || needs[StreamId::kMain].before(main)) return false;
  std::size_t next = k + 1;
  while (next < limit && ops[next].kind == TimedKind::kFree) ++next;
  if (next == limit || (ops[next].waits & stream_bit(other)) != 0) return true;
  const StreamClock& known = state_.clock[StreamId::kMain];
  const auto knows = [&](StreamId s, const StreamPoint& point) {
    return s == StreamId::kMain || point.at() < 0 || known[s] >= point.at();
  };
  return knows(other, state_.end_of(other)) &&
         std::all_of(kAllStreams.begin(), kAllStreams.end(),
                     [&](StreamId s) { return knows(s, needs[s]); });
}

void BodyCache::take_back() {
  while (!undo_.empty()) {
    *undo_.back().first = std::move(undo_.back().second);
    undo_.pop_back();
  }
}

/// Notes what the body does last, without walking it.
void BodyCache::enter(Known& known, const Microbatches& mb) const {
  const ItemNumber number = state_.next;
  if (known.last_free == LastFree::kMainBefore) state_.last_free = state_.end_of(StreamId::kMain);
  if (known.last_free == LastFree::kInside) {
    state_.last_free = {number, known.last_free_op, StreamId::kMain};
  }
  for (const Access& access : known.accesses) {
    SlotAccesses& slot = state_.slots[IssueState::slot(access.slot, access.microbatch, mb)];
    const StreamId stream = access.on_main ? StreamId::kMain : stream_;
    (access.writes ? slot.written : slot.read).see({number, access.op, stream});
  }
}

/// Whether an op that is not the first need not wait for a point outside the body.
bool BodyCache::fine(const StreamPoint& point, const Question& question) const {
  const StreamId other = stream_;
  const StreamId own = question.on_main ? StreamId::kMain : other;
  if (point.at() < 0 || point.stream() == own) return true;
  const StreamId t = point.stream();
  if (question.on_main && state_.clock[StreamId::kMain][t] >= point.at()) return true;
  // What has ended when the first collective begins has not for an op of main that may begin before
  // it.
  if (question.on_main && !question.other_is_fine) return false;
  if (entry_.known[t] >= point.at()) return true;
  // The first collective waits for the end of the other stream's items before it, and ops on main
  // for main's.
  return question.on_main ? t == other : t == StreamId::kMain && question.main_is_fine;
}

bool BodyCache::fine(const Question& question, const Microbatches& mb) const {
  switch (question.of) {
    case Question::kLastFree: return fine(state_.last_free, question);
    case Question::kMainBefore: return fine(state_.end_of(StreamId::kMain), question);
    case Question::kHostSync: return fine(state_.host_sync, question);
    case Question::kStream:
      return fine(state_.end_of(static_cast<StreamId>(question.slot)), question);
    default: break;
  }
  const SlotAccesses& slot = state_.slots[IssueState::slot(question.slot, question.microbatch, mb)];
  const StreamAccesses& accesses = question.of == Question::kWritten ? slot.written : slot.read;
  return std::all_of(accesses.latest.begin(), accesses.latest.end(), [&](const StreamPoint& point) {
    return (question.inside >> static_cast<unsigned>(point.stream()) & 1U) != 0 ||
           fine(point, question);
  });
}

/// Points inside the body become edges of op `at`.
void BodyCache::ask(Question question, const StreamAccesses& accesses, std::uint32_t at,
                    bool& waits_inside) {
  const StreamId own = question.on_main ? StreamId::kMain : stream_;
  for (const StreamPoint& point : accesses.latest) {
    if (point.at() != state_.next) continue;
    question.inside |= stream_bit(point.stream());
    if (point.stream() == own) continue;
    trial_.found.body.edges.emplace_back(at, point.op());
    waits_inside = true;
  }
  note(question,
       std::all_of(accesses.latest.begin(), accesses.latest.end(), [&](const StreamPoint& point) {
         return point.at() == state_.next || fine(point, question);
       }));
}

void BodyCache::ask(const Question& question, const StreamPoint& point) {
  note(question, fine(point, question));
}

void BodyCache::note(const Question& question, bool is_fine) {
  if (is_fine)
    trial_.questions.push_back(question);
  else
    trial_.refused = question;
}

void BodyCache::see(const Dependency& d, const Microbatches& mb, bool writes, bool on_main,
                    std::uint32_t at) {
  SlotAccesses& slot = state_.slots[IssueState::slot(d, mb)];
  StreamAccesses& accesses = writes ? slot.written : slot.read;
  undo_.emplace_back(&accesses, accesses);
  accesses.see({state_.next, at, on_main ? StreamId::kMain : stream_});
  trial_.accesses.push_back({d.slot, d.microbatch, writes, on_main, at});
}

/// Asks what op `at` of the body being tried, which is not its first, needs from outside; notes its
/// edges. False: it cannot be in the body.
bool BodyCache::ask_of(const TimedOp& op, const Microbatches& mb, std::uint32_t at,
                       TrialCourse& course, bool& waits_for_other) {
  const StreamId other = stream_;
  auto& edges = trial_.found.body.edges;
  const std::size_t edges_before = edges.size(), questions_before = trial_.questions.size();
  const bool on_main = op.kind != TimedKind::kCollective;
  const bool frees = op.kind == TimedKind::kFree;
  const bool waits_for_main = (op.waits & stream_bit(StreamId::kMain)) != 0;
  Question q;
  q.on_main = on_main;
  q.main_is_fine = !on_main && course.any_main && waits_for_main;
  course.main_entered = course.main_entered || (on_main && waits_for_inside(op, mb));
  q.other_is_fine = on_main && course.main_entered;
  const Dependency* d = timed_.dependencies.data() + op.first_dependency;
  for (std::size_t i = 0; i < op.num_dependencies; ++i) {
    if (!d[i].waits && !frees) continue;
    q.slot = d[i].slot;
    q.microbatch = d[i].microbatch;
    q.of = Question::kWritten;
    ask(q, state_.slots[IssueState::slot(d[i], mb)].written, at, waits_for_other);
    if (!d[i].writes && !frees) continue;
    q.of = Question::kRead;
    ask(q, state_.slots[IssueState::slot(d[i], mb)].read, at, waits_for_other);
  }
  q.slot = 0;
  q.microbatch = 0;
  for (const StreamId s : kAllStreams) {
    if ((op.waits & stream_bit(s)) == 0 || s == (on_main ? StreamId::kMain : other)) continue;
    if (s == StreamId::kMain || s == other) {
      waits_for_other = true;
      continue;
    }
    q.of = Question::kStream;
    q.slot = static_cast<std::uint32_t>(s);
    ask(q, state_.end_of(s));
    q.slot = 0;
  }
  // Before main has begun anything, its end is what it was on entry: that is not waited for.
  const bool too_early = !on_main && !course.any_main && waits_for_main && !entry_.after_main;
  if (op.takes_arena) {
    if (trial_.last_free != LastFree::kInside) {
      q.of = trial_.last_free == LastFree::kAsBefore ? Question::kLastFree : Question::kMainBefore;
      ask(q, state_.last_free);
    } else if (!on_main) {
      edges.emplace_back(at, trial_.last_free_op);
      waits_for_other = true;
    }
  }
  q.of = Question::kHostSync;
  ask(q, state_.host_sync);
  if (too_early || trial_.refused) {
    edges.resize(edges_before);
    trial_.questions.resize(questions_before);
    if (too_early) trial_.refused.reset();
    return false;
  }
  const auto fresh = edges.begin() + static_cast<std::ptrdiff_t>(edges_before);
  std::sort(fresh, edges.end());
  edges.erase(std::unique(fresh, edges.end()), edges.end());
  return true;
}

/// Fills trial_ and notes its accesses in the state. The ops that could be taken; trial_ has so
/// many, or more: then the accesses of the rest are to be taken back.
std::uint32_t BodyCache::try_ops(SegmentId id, const Microbatches& mb, std::size_t k,
                                 const std::vector<TimedOp>& ops, std::size_t limit) {
  const StreamPoint before_main = state_.end_of(StreamId::kMain);
  trial_ = Known{};
  TimedBody& body = trial_.found.body;
  body.segment = id;
  body.first = static_cast<std::uint32_t>(k);
  body.stream = stream_;
  std::uint32_t collectives = 0, kernels = 0, good = 0;
  bool follows = false, last_waits = false;
  TrialCourse course;
  for (std::size_t j = k; j < limit; ++j) {
    const TimedOp& op = ops[j];
    const auto at = static_cast<std::uint32_t>(j - k);
    const bool on_main = op.kind != TimedKind::kCollective;
    const bool frees = op.kind == TimedKind::kFree;
    bool waits_for_other = false;
    if (j > k && !ask_of(op, mb, at, course, waits_for_other)) break;
    const Dependency* d = timed_.dependencies.data() + op.first_dependency;
    for (std::size_t i = 0; i < op.num_dependencies; ++i) {
      if (d[i].reads && !frees) see(d[i], mb, false, on_main, at);
      if (d[i].writes) see(d[i], mb, true, on_main, at);
    }
    if (!on_main) {
      ++collectives;
      body.last_collective = at;
      body.main_knows_last = false;
      last_waits = waits_for_other || (at == 0 && entry_.after_main);
    } else {
      if (frees) {
        const bool inside = course.any_main || waits_for_other || op.num_dependencies > 0;
        trial_.last_free = inside ? LastFree::kInside : LastFree::kMainBefore;
        trial_.last_free_op = at;
        state_.last_free = inside ? StreamPoint{state_.next, at, StreamId::kMain} : before_main;
      } else if (kernels++ == 0) {
        body.main_follows = waits_for_other || follows;
      }
      course.any_main = course.any_main || !frees || waits_for_other;
      if (waits_for_other) follows = body.main_knows_last = waits_for_last(at, op);
    }
    body.num_ops = at + 1;
    const bool sound = collectives > 0 && kernels > 0 && follows && last_waits;
    if (sound) good = at + 1;
  }
  return good;
}

/// Whether an op of main waits for a collective of the body being tried.
bool BodyCache::waits_for_inside(const TimedOp& op, const Microbatches& mb) const {
  const StreamId other = stream_;
  if ((op.waits & stream_bit(other)) != 0) return true;
  const bool frees = op.kind == TimedKind::kFree;
  const auto inside = [&](const StreamAccesses& accesses) {
    return std::any_of(accesses.latest.begin(), accesses.latest.end(),
                       [&](const StreamPoint& point) {
                         return point.at() == state_.next && point.stream() == other;
                       });
  };
  const Dependency* d = timed_.dependencies.data() + op.first_dependency;
  return std::any_of(d, d + op.num_dependencies, [&](const Dependency& one) {
    if (!one.waits && !frees) return false;
    const SlotAccesses& slot = state_.slots[IssueState::slot(one, mb)];
    return inside(slot.written) || ((one.writes || frees) && inside(slot.read));
  });
}

/// Whether an op that waits for the other stream waits for its latest op.
bool BodyCache::waits_for_last(std::uint32_t at, const TimedOp& op) const {
  if ((op.waits & stream_bit(stream_)) != 0) return true;
  const TimedBody& body = trial_.found.body;
  return std::any_of(body.edges.begin(), body.edges.end(), [&](const auto& edge) {
    return edge.first == at && edge.second == body.last_collective;
  });
}

}  // namespace trainyard
