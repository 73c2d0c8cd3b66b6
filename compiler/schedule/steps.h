// The steps of a schedule as moments in time: what loops and branches mean for the lives of buffers.
#pragma once
#include "schedule/schedule.h"

namespace tg {

// A moment is a call or a READ, numbered in the order of the steps, bodies of loops and sides of branches in place.
struct Span {
  i64 first = 0, last = -1;
  bool holds(i64 t) const { return first <= t && t <= last; }
  bool empty() const { return last < first; }
};
struct Timeline {
  std::vector<std::vector<u32>> uses;  // by moment: buffers
  std::vector<i64> of_call;            // moment of each call
  std::vector<Span> loops, sides;      // rounds of a While, sides of an If; outer ones first
};
Timeline timeline(const Schedule& s);

// From the first use to the last, of an output to the end of the run; what a loop finds or leaves lives through all its rounds. Empty: not used.
std::vector<Span> lives(const Schedule& s, const Timeline& t);

// Takes the call out of calls and steps.
void erase_call(Schedule& s, size_t call);

// f(step) for each step, outer ones first.
template <class Steps, class F>
void each_step(Steps& steps, F f) {
  for (auto& s : steps) {
    f(s);
    each_step(s.then, f), each_step(s.otherwise, f);
  }
}

}  // namespace tg
