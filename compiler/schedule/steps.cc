#include "schedule/steps.h"

#include <algorithm>

namespace tg {
namespace {

void walk(const Schedule& s, const std::vector<Step>& steps, Timeline& t) {
  auto inside = [&](const std::vector<Step>& body, std::vector<Span>& into) {
    size_t at = into.size();
    into.push_back({i64(t.uses.size()), -1});
    walk(s, body, t);
    into[at].last = i64(t.uses.size()) - 1;
  };
  for (const Step& x : steps) switch (x.kind) {
      case Step::Call:
        t.of_call[x.call] = i64(t.uses.size());
        t.uses.push_back(s.calls[x.call].buffers);
        break;
      case Step::Read: t.uses.push_back({x.buffer}); break;
      case Step::Set: break;
      case Step::If: inside(x.then, t.sides), inside(x.otherwise, t.sides); break;
      case Step::While: inside(x.then, t.loops); break;
    }
}

}  // namespace

Timeline timeline(const Schedule& s) {
  Timeline t;
  t.of_call.resize(s.calls.size());
  walk(s, s.steps, t);
  return t;
}

std::vector<Span> lives(const Schedule& s, const Timeline& t) {
  std::vector<Span> life(s.buffers.size(), Span{-1, -2});
  for (size_t at = 0; at < t.uses.size(); at++)
    for (u32 b : t.uses[at]) {
      if (life[b].empty()) life[b].first = i64(at);
      life[b].last = i64(at);
    }
  for (size_t b = 0; b < life.size(); b++)
    if (s.buffers[b].kind == Buffer::Output && !life[b].empty()) life[b].last = i64(t.uses.size());
  // Inner loops first: what one of them makes longer may reach out of the loop around it.
  for (size_t i = t.loops.size(); i-- > 0;) {
    Span loop = t.loops[i];
    if (loop.empty()) continue;
    for (Span& l : life) {
      if (l.empty() || l.last < loop.first || l.first > loop.last || (loop.holds(l.first) && loop.holds(l.last))) continue;
      l = {std::min(l.first, loop.first), std::max(l.last, loop.last)};
    }
  }
  return life;
}

void erase_call(Schedule& s, size_t call) {
  s.calls.erase(s.calls.begin() + i64(call));
  auto drop = [&](std::vector<Step>& steps, auto& self) -> void {
    std::erase_if(steps, [&](const Step& x) { return x.kind == Step::Call && x.call == call; });
    for (Step& x : steps) {
      if (x.kind == Step::Call && x.call > call) x.call--;
      self(x.then, self), self(x.otherwise, self);
    }
  };
  drop(s.steps, drop);
}

}  // namespace tg
